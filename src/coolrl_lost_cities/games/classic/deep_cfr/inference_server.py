"""One process that holds the networks and answers forwards for everybody who traverses.

Rows travel through memory that is shared with each asker, so a request is a few bytes on a pipe
and nothing is pickled for it. Whoever waits for the same network is answered by one forward, on
one thread, in which every row has the bits of a local forward of the same request: see
`joined_requests`. An asker has one request on its way at most, so the server never holds more than
`inference_server.max_batch` rows for each.

Axes: B rows, E encoding, A actions.
"""

import select
import selectors
import struct
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from coolrl_lost_cities.games.classic.deep_cfr.config import DeepCFRConfig, build_rules
from coolrl_lost_cities.games.classic.deep_cfr.encoding import encoding_size
from coolrl_lost_cities.games.classic.deep_cfr.errors import DeepCFRError
from coolrl_lost_cities.games.classic.deep_cfr.histories import history_size
from coolrl_lost_cities.games.classic.deep_cfr.processes import (
    exit_reason,
    pack_weights,
    start_process,
    stop_process,
    unpack_weights,
)
from coolrl_lost_cities.games.classic.deep_cfr.served_networks import (
    ServedNetworks,
    ServerCounts,
    joined_requests,
)
from coolrl_lost_cities.games.classic.deep_cfr.traversal import ROW_BLOCK

_REQUEST = struct.Struct("<III")  # network, rows, features of a row
_ANSWER = struct.Struct("<IQ")  # columns, version
_ANSWERED, _FAILED = b"a", b"f"  # in front of an answer, and of a traceback
_START_S = 600.0  # to start, and to compile: on a busy machine longer than anybody waits for rows


class InferenceServerError(DeepCFRError):
    """The inference server could not answer."""


class InferenceServerLost(InferenceServerError):
    """No answer will come; the same question may be put to the networks themselves."""


class InferenceServerLate(InferenceServerLost):
    """The inference server has not answered in time."""

    def __init__(self, timeout_s: float) -> None:
        super().__init__(
            f"the inference server has not answered for {timeout_s:g} s; raise "
            "inference_server.timeout_s if the machine is only slow"
        )


class InferenceServerGone(InferenceServerLost):
    """The inference server's process has ended."""

    def __init__(self, how: str) -> None:
        super().__init__(
            f"the inference server {how}, often for want of memory; lower traversal.lanes or "
            "network.hidden_size and resume from the last checkpoint"
        )


@dataclass(frozen=True)
class _Weights:
    version: int
    packed: bytes
    policies_only: bool


@dataclass(frozen=True)
class _TakeCounts:
    pass


@dataclass(frozen=True)
class _Failure:
    traceback: str


@dataclass(frozen=True)
class _Waiting:
    connection: Connection
    network: int
    rows: int
    columns: int


@dataclass(frozen=True)
class _Shared:
    """Memory of one asker that the server sees as well; it is gone with the last of the two."""

    feature_bytes: Any  # multiprocessing's arrays cross a spawn, numpy's views of them do not
    output_floats: Any
    num_rows: int

    def features(self, rows: int, columns: int) -> NDArray[np.uint8]:
        flat = np.frombuffer(self.feature_bytes, np.uint8)
        return flat[: rows * columns].reshape(rows, columns)

    def outputs(self, rows: int, columns: int) -> NDArray[np.float32]:
        flat = np.frombuffer(self.output_floats, np.float32)
        return flat[: rows * columns].reshape(rows, columns)


def _new_shared(config: DeepCFRConfig) -> _Shared:
    rules, num_rows = build_rules(config.rules), config.inference_server.max_batch
    # The file behind these has no name any more, so nothing is left however a process ends.
    context = get_context("spawn")
    most_columns = max(encoding_size(rules), history_size(rules))
    features = context.RawArray("B", num_rows * most_columns)
    outputs = context.RawArray("f", num_rows * rules.num_actions)
    return _Shared(features, outputs, num_rows)


class InferenceClient:
    """One asker; may be handed to one other process as an argument when that is started."""

    def __init__(self, connection: Connection, shared: _Shared, timeout_s: float) -> None:
        self._connection = connection
        self._shared = shared
        self._timeout_s = timeout_s
        self.version = 0  # of the weights that the last answer came from
        self._answers: select.poll | None = None  # made by who asks: it crosses no spawn

    def forward(self, network: int, features_BE: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the outputs (float32 BA) of one of the networks that were pushed last.

        The array is good until the next call, which writes its answer there. More than
        `inference_server.max_batch` rows are asked for in pieces of that many. Raises
        InferenceServerError.
        """
        most = self._shared.num_rows
        if len(features_BE) <= most:
            return self._ask_for(network, features_BE)
        starts = range(0, len(features_BE), most)
        return np.concatenate(
            [self._ask_for(network, features_BE[start : start + most]).copy() for start in starts]
        )

    def _ask_for(self, network: int, features_BE: NDArray[np.uint8]) -> NDArray[np.float32]:
        if features_BE.dtype != np.uint8:
            raise InferenceServerError(f"a request has {features_BE.dtype} features, not uint8")
        self._shared.features(*features_BE.shape)[:] = features_BE
        try:
            if self._answers is None:
                self._answers = select.poll()
                self._answers.register(self._connection, select.POLLIN)
            self._connection.send_bytes(_REQUEST.pack(network, *features_BE.shape))
            if not self._answers.poll(1000 * self._timeout_s):
                self._connection.close()  # a late answer must not be taken for the next one's
                raise InferenceServerLate(self._timeout_s)
            answer = self._connection.recv_bytes()
        except (EOFError, OSError) as error:
            raise InferenceServerGone("has ended") from error
        if answer[:1] == _FAILED:
            raise InferenceServerError(f"the inference server failed:\n{answer[1:].decode()}")
        columns, self.version = _ANSWER.unpack(answer[1:])
        return self._shared.outputs(len(features_BE), columns)

    def close(self) -> None:
        """Let go of this process's end."""
        self._connection.close()


class InferenceServer:
    """Owns the process. `clients` holds one asker for each that was wished for."""

    def __init__(self, config: DeepCFRConfig, num_clients: int) -> None:
        self._timeout_s = config.inference_server.timeout_s
        self._compiles = config.compile.inference_server.enabled
        self._version = 0
        pairs = [(*Pipe(), _new_shared(config)) for _ in range(num_clients)]
        self.clients = [InferenceClient(ours, shared, self._timeout_s) for ours, _, shared in pairs]
        theirs = [(end, shared) for _, end, shared in pairs]
        self._control, control = Pipe()
        self._process = start_process(_serve, (config, control, theirs), "inference-server")
        for end in (control, *(end for end, _ in theirs)):
            end.close()  # with copies here, nobody would notice the server's end

    def push_weights(
        self, state_dicts: Sequence[Mapping[str, Tensor]], *, policies_only: bool = False
    ) -> int:
        """Replace all networks, numbered as in `load_networks`; return the version now served.

        Every answer to a request made after the return comes from these weights. Raises
        InferenceServerGone, or InferenceServerError for keys that do not fit; then the server
        keeps answering from the weights before.
        """
        packed = pack_weights([dict(state_dict) for state_dict in state_dicts])
        message = _Weights(self._version + 1, packed, policies_only)
        starts = self._version == 0 or self._compiles
        self._instruct(message, max(self._timeout_s, _START_S) if starts else self._timeout_s)
        self._version += 1
        return self._version

    def take_counts(self) -> ServerCounts:
        """Return what was done since the last call. Raises InferenceServerError."""
        return cast(ServerCounts, self._instruct(_TakeCounts(), self._timeout_s))

    @property
    def pid(self) -> int | None:
        """The server's process id."""
        return self._process.pid

    def close(self) -> None:
        """End the process; a second call does nothing."""
        for client in self.clients:
            client.close()
        stop_process(self._process, self._control)

    def _instruct(self, message: object, timeout_s: float) -> object:
        try:
            self._control.send(message)
            if not self._control.poll(timeout_s):
                self._control.close()
                raise InferenceServerLate(timeout_s)
            answer = self._control.recv()
        except (EOFError, OSError) as error:
            raise InferenceServerGone(exit_reason(self._process)) from error
        if isinstance(answer, _Failure):
            raise InferenceServerError(f"the inference server failed:\n{answer.traceback}")
        return answer


def _serve(
    config: DeepCFRConfig, control: Connection, clients: Sequence[tuple[Connection, _Shared]]
) -> None:
    """Answer until the owner's pipe closes; an asker that goes away is forgotten."""
    torch.set_num_threads(1)
    networks = ServedNetworks(config)
    shared_of = dict(clients)
    waiting: list[_Waiting] = []  # oldest first
    selector = selectors.DefaultSelector()
    for connection in (control, *shared_of):
        selector.register(connection, selectors.EVENT_READ)
    while True:
        # An asker that waits sends nothing; what its connection may have is its end.
        for key, _ in selector.select(0 if waiting else None):
            ready = cast(Connection, key.fileobj)
            try:
                if ready is control:
                    control.send(_obey(config, networks, control.recv()))
                else:
                    waiting.append(_Waiting(ready, *_REQUEST.unpack(ready.recv_bytes())))
            except (EOFError, BrokenPipeError, ConnectionResetError):
                if ready is control:
                    return
                selector.unregister(ready)
                waiting = [request for request in waiting if request.connection is not ready]
                ready.close()
        if waiting:
            places = joined_requests(
                [(request.network, request.columns) for request in waiting],
                [request.rows for request in waiting],
                config.inference_server.max_batch,
            )
            answered = [waiting[place] for place in places]
            waiting = [request for place, request in enumerate(waiting) if place not in places]
            _answer(networks, answered, shared_of)


def _obey(config: DeepCFRConfig, networks: ServedNetworks, message: object) -> object:
    """Do what the owner wants; return the answer."""
    try:
        if isinstance(message, _Weights):
            networks.load(
                message.version,
                unpack_weights(message.packed),
                policies_only=message.policies_only,
            )
            networks.warm_up(-(-config.traversal.lanes // ROW_BLOCK) * ROW_BLOCK)
            return None
        return networks.take_counts()
    except Exception:
        return _Failure(traceback.format_exc())


def _answer(
    networks: ServedNetworks,
    requests: Sequence[_Waiting],
    shared_of: dict[Connection, _Shared],
) -> None:
    """Answer requests for one network by one forward."""
    asked = [
        shared_of[request.connection].features(request.rows, request.columns)
        for request in requests
    ]
    features_BE = asked[0] if len(asked) == 1 else np.concatenate(asked)
    failure = ""
    try:
        outputs_BA = networks.forward(requests[0].network, features_BE, len(requests))
    except Exception:
        failure = traceback.format_exc()
    start = 0
    for request in requests:
        if failure:
            answer = _FAILED + failure.encode()
        else:
            own_BA = outputs_BA[start : start + request.rows]
            shared_of[request.connection].outputs(*own_BA.shape)[:] = own_BA
            answer = _ANSWERED + _ANSWER.pack(own_BA.shape[1], networks.version)
            start += request.rows
        with suppress(OSError):  # who has gone is forgotten when its end is read
            request.connection.send_bytes(answer)
