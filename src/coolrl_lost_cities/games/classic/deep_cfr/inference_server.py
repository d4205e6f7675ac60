"""One process that holds the networks and answers forwards for everybody who traverses.

One request, one forward, on one thread: an answer has the same bits as a local forward of the same
rows. Axes: B rows, E encoding, A actions.
"""

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from coolrl_lost_cities.games.classic.deep_cfr.config import DeepCFRConfig
from coolrl_lost_cities.games.classic.deep_cfr.errors import DeepCFRError
from coolrl_lost_cities.games.classic.deep_cfr.networks import Network, forward_rows, load_networks
from coolrl_lost_cities.games.classic.deep_cfr.processes import (
    exit_reason,
    pack_weights,
    start_process,
    stop_process,
    unpack_weights,
)


class InferenceServerError(DeepCFRError):
    """The inference server is late or could not answer."""


class InferenceServerGone(InferenceServerError):
    """The inference server's process has ended."""

    def __init__(self, how: str) -> None:
        super().__init__(
            f"the inference server {how}, often for want of memory; lower traversal.lanes or "
            "network.hidden_size and resume from the last checkpoint"
        )


@dataclass(frozen=True)
class _Request:
    network: int
    features: NDArray[np.uint8]  # BE


@dataclass(frozen=True)
class _Weights:
    version: int
    packed: bytes


@dataclass(frozen=True)
class _Failure:
    traceback: str


class InferenceClient:
    """One asker; may be handed to one other process as an argument when that is started."""

    def __init__(self, connection: Connection, max_batch: int, timeout_s: float) -> None:
        self._connection = connection
        self._max_batch = max_batch
        self._timeout_s = timeout_s

    def forward(self, network: int, features_BE: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the outputs (float32 BA) of one of the networks that were pushed last.

        Raises InferenceServerError.
        """
        if len(features_BE) > self._max_batch:
            raise InferenceServerError(
                f"a request has {len(features_BE)} rows, expected at most "
                f"inference_server.max_batch, {self._max_batch}"
            )
        outputs_BA: NDArray[np.float32] = _ask(
            self._connection, _Request(network, features_BE), self._timeout_s
        )
        return outputs_BA

    def close(self) -> None:
        """Let go of this process's end."""
        self._connection.close()


class InferenceServer:
    """Owns the process. `clients` holds one asker for each that was wished for."""

    def __init__(self, config: DeepCFRConfig, num_clients: int) -> None:
        self._timeout_s = config.inference_server.timeout_s
        self._version = 0
        pairs = [Pipe() for _ in range(num_clients)]
        self.clients = [
            InferenceClient(ours, config.inference_server.max_batch, self._timeout_s)
            for ours, _ in pairs
        ]
        theirs = [end for _, end in pairs]
        self._control, control = Pipe()
        self._process = start_process(_serve, (config, control, theirs), "inference-server")
        for end in (control, *theirs):  # with copies here, nobody would notice the server's end
            end.close()

    def push_weights(self, state_dicts: Sequence[Mapping[str, Tensor]]) -> int:
        """Replace all networks, numbered in the order given; return the version now served.

        Every answer to a request made after the return comes from these weights. Raises
        InferenceServerGone, or InferenceServerError for keys that do not fit; then the server
        keeps answering from the weights before.
        """
        version = self._version + 1
        plain = [dict(state_dict) for state_dict in state_dicts]
        message = _Weights(version, pack_weights(plain))
        try:
            answer = _ask(self._control, message, self._timeout_s)
        except InferenceServerGone as error:
            raise InferenceServerGone(exit_reason(self._process)) from error
        self._version = version
        return int(answer)

    @property
    def pid(self) -> int | None:
        """The server's process id."""
        return self._process.pid

    def close(self) -> None:
        """End the process; a second call does nothing."""
        for client in self.clients:
            client.close()
        stop_process(self._process, self._control)


def _ask(connection: Connection, message: object, timeout_s: float) -> Any:
    try:
        connection.send(message)
        if not connection.poll(timeout_s):
            connection.close()  # a late answer must not be taken for that of the next request
            raise InferenceServerError(
                f"the inference server has not answered for {timeout_s:g} s; raise "
                "inference_server.timeout_s if the machine is only slow"
            )
        answer = connection.recv()
    except (EOFError, OSError) as error:
        raise InferenceServerGone("has ended") from error
    if isinstance(answer, _Failure):
        raise InferenceServerError(f"the inference server failed:\n{answer.traceback}")
    return answer


def _load_compiled(
    config: DeepCFRConfig, networks: list[Network], state_dicts: Sequence[Mapping[str, Tensor]]
) -> None:
    """Compile the networks at the first push; later ones put their weights into what is compiled.

    Called in the server's process only: compiled code must not cross a spawn.
    """
    if len(networks) == len(state_dicts):
        for network, state_dict in zip(networks, state_dicts, strict=True):
            getattr(network, "_orig_mod", network).load_state_dict(state_dict)
        return
    settings = config.compile.inference_server
    networks[:] = [
        cast(
            Network,
            torch.compile(
                network.eval(),
                mode=settings.mode,
                fullgraph=settings.fullgraph,
                dynamic=settings.dynamic,
            ),
        )
        for network in load_networks(config, state_dicts)
    ]


def _serve(config: DeepCFRConfig, control: Connection, clients: list[Connection]) -> None:
    """Answer until the owner's pipe closes; an asker that goes away is forgotten."""
    torch.set_num_threads(1)
    networks: list[Network] = []
    while True:
        for ready in cast(list[Connection], wait([control, *clients])):
            try:
                message = ready.recv()
                try:
                    answer: object
                    if isinstance(message, _Weights):
                        if config.compile.inference_server.enabled:
                            _load_compiled(config, networks, unpack_weights(message.packed))
                        else:
                            networks = load_networks(config, unpack_weights(message.packed))
                        answer = message.version
                    else:
                        answer = forward_rows(networks[message.network], message.features)
                except Exception:
                    answer = _Failure(traceback.format_exc())
                ready.send(answer)
            except (EOFError, BrokenPipeError, ConnectionResetError):
                if ready is control:
                    return
                clients.remove(ready)
