"""Traversal worker processes: weights out, samples back.

Workers live as long as the run, use one thread each, and split the traversal ids into contiguous
ranges. Since a traversal's random numbers depend on its id alone, the samples are the same for any
number of workers, and for none.
"""

import dataclasses
import traceback
from collections.abc import Mapping, Sequence
from itertools import pairwise
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import TracebackType
from typing import Any, Protocol, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray

from coolrl_lost_cities.games.classic.deep_cfr.config import DeepCFRConfig, build_rules
from coolrl_lost_cities.games.classic.deep_cfr.errors import DeepCFRError
from coolrl_lost_cities.games.classic.deep_cfr.inference_server import InferenceClient
from coolrl_lost_cities.games.classic.deep_cfr.networks import Network, forward_rows, load_networks
from coolrl_lost_cities.games.classic.deep_cfr.processes import (
    exit_reason,
    pack_weights,
    start_process,
    stop_process,
    unpack_weights,
)
from coolrl_lost_cities.games.classic.deep_cfr.traversal import (
    Advantages,
    TraversalSamples,
    TraversalSpec,
    concatenate,
    run_traversals,
)

F32 = NDArray[np.float32]
U8 = NDArray[np.uint8]
Bool = NDArray[np.bool_]


class WorkerDied(DeepCFRError):
    """A worker process is gone; its samples are lost, the run's checkpoints are not."""

    def __init__(self, index: int, pid: int | None, reason: str) -> None:
        self.index = index
        self.pid = pid
        self.reason = reason
        super().__init__(
            f"traversal worker {index} (process {pid}) {reason}, often for want of memory; "
            "lower traversal.num_workers or traversal.lanes and resume from the last checkpoint"
        )


class WorkerFailed(DeepCFRError):
    """A worker raised; the text is its traceback."""

    def __init__(self, index: int, text: str) -> None:
        self.index = index
        self.traceback = text
        super().__init__(f"traversal worker {index} failed:\n{text}")


class Forward(Protocol):
    """Whatever answers for numbered networks: `InferenceClient.forward`, or networks at hand."""

    def __call__(self, network: int, features_BE: U8) -> F32:
        """Return the network's raw outputs BA."""
        ...


def traversal_advantages(config: DeepCFRConfig, traverser: int, forward: Forward) -> Advantages:
    """Say which network answers for which player when one of them traverses.

    Networks 0 and 1 are the players' current ones. With `traversal.opponent: frozen` the snapshots
    are 2 and 3, and the traverser's opponent plays by its own.
    """
    frozen = config.traversal.opponent == "frozen"

    def advantages(player: int, features_BE: U8, legal_BA: Bool) -> F32:
        return forward(player + 2 if frozen and player != traverser else player, features_BE)

    return advantages


def local_forward(networks: Sequence[torch.nn.Module]) -> Forward:
    """Answer from networks in this process, as they are at the time of each call."""

    def forward(network: int, features_BE: U8) -> F32:
        return forward_rows(networks[network], features_BE)

    return forward


def split_spec(spec: TraversalSpec, parts: int) -> list[TraversalSpec]:
    """Cut the ids into at most so many contiguous ranges, none empty, sizes differing by one."""
    parts = min(parts, spec.num_traversals)
    bounds = [spec.num_traversals * part // parts for part in range(parts + 1)]
    return [
        dataclasses.replace(spec, first_id=spec.first_id + start, num_traversals=end - start)
        for start, end in pairwise(bounds)
    ]


class TraversalPool:
    """Owns `traversal.num_workers` processes; use it in a `with` block or call `close`.

    With the server backend it takes one client a worker and no weights.
    """

    def __init__(
        self, config: DeepCFRConfig, clients: Sequence[InferenceClient] | None = None
    ) -> None:
        num_workers = config.traversal.num_workers
        if clients is not None and len(clients) != num_workers:
            raise ValueError(f"got {len(clients)} clients, expected one a worker: {num_workers}")
        self._workers: list[tuple[SpawnProcess, Connection]] = []
        for index in range(num_workers):
            ours, theirs = Pipe()
            arguments = (config, theirs, clients[index] if clients is not None else None)
            process = start_process(_work, arguments, f"traversal-worker-{index}")
            theirs.close()  # with a copy here, nobody would notice the worker's end
            self._workers.append((process, ours))

    def push_weights(self, payload: Mapping[str, Any]) -> None:
        """Give every worker `{"networks": [state_dict, ...]}`, in the order they are numbered.

        The tensors are copied before this returns. Raises WorkerFailed for keys that do not fit,
        WorkerDied.
        """
        message = pack_weights(dict(payload))
        for index in range(len(self._workers)):
            self._send(index, message)
        self._answers(len(self._workers))

    def collect(self, spec: TraversalSpec) -> TraversalSamples:
        """Run the traversals and return their samples in order of their ids.

        Raises WorkerFailed with the traceback when a worker raised, WorkerDied when one is gone.
        """
        chunks = split_spec(spec, len(self._workers))
        for index, chunk in enumerate(chunks):
            self._send(index, chunk)
        return concatenate(self._answers(len(chunks)))

    @property
    def pids(self) -> list[int | None]:
        """The workers' process ids."""
        return [process.pid for process, _ in self._workers]

    def close(self) -> None:
        """End the processes; a second call does nothing."""
        for _, connection in self._workers:
            connection.close()  # all at once, so that they end side by side
        while self._workers:
            stop_process(*self._workers.pop())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _send(self, index: int, message: bytes | TraversalSpec) -> None:
        process, connection = self._workers[index]
        try:
            connection.send(message)
        except OSError as error:
            raise WorkerDied(index, process.pid, exit_reason(process)) from error

    def _answers(self, count: int) -> list[Any]:
        """Wait for one answer from each of the first workers, so that none is left over."""
        waiting = {connection: index for index, (_, connection) in enumerate(self._workers[:count])}
        answers: list[Any] = [None] * count
        failures: dict[int, str] = {}
        while waiting:
            for ready in cast(list[Connection], wait(list(waiting))):
                index = waiting.pop(ready)
                try:
                    answers[index], failure = ready.recv()
                except (EOFError, OSError) as error:
                    process = self._workers[index][0]
                    raise WorkerDied(index, process.pid, exit_reason(process)) from error
                if failure is not None:
                    failures[index] = failure
        if failures:
            first = min(failures)
            raise WorkerFailed(first, failures[first])
        return answers


def _work(config: DeepCFRConfig, owner: Connection, client: InferenceClient | None) -> None:
    """Answer messages by (result, None) or (None, traceback) until the owner's pipe closes."""
    torch.set_num_threads(1)
    rules = build_rules(config.rules)
    networks: list[Network] = []
    forward = client.forward if client is not None else local_forward(networks)
    while True:
        try:
            message = owner.recv()
            result: TraversalSamples | None = None
            failure: str | None = None
            try:
                if isinstance(message, bytes):
                    networks[:] = load_networks(config, unpack_weights(message)["networks"])
                else:
                    ask = traversal_advantages(config, message.traverser, forward)
                    result = run_traversals(rules, message, ask)
            except Exception:
                failure = traceback.format_exc()
            owner.send((result, failure))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return
