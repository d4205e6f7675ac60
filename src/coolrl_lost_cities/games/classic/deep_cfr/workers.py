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
from typing import Any, NamedTuple, Protocol, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray

from coolrl_lost_cities.games.classic.deep_cfr.config import (
    DeepCFRConfig,
    Precision,
    build_rules,
)
from coolrl_lost_cities.games.classic.deep_cfr.errors import DeepCFRError
from coolrl_lost_cities.games.classic.deep_cfr.inference import pack_network
from coolrl_lost_cities.games.classic.deep_cfr.inference_server import (
    InferenceClient,
    InferenceServerLost,
)
from coolrl_lost_cities.games.classic.deep_cfr.lockstep import TraversalBuffers
from coolrl_lost_cities.games.classic.deep_cfr.networks import load_networks, network_numbers
from coolrl_lost_cities.games.classic.deep_cfr.processes import (
    exit_reason,
    start_process,
    stop_process,
)
from coolrl_lost_cities.games.classic.deep_cfr.shared_objects import Receipt, SharedObject
from coolrl_lost_cities.games.classic.deep_cfr.traversal import (
    ActionValues,
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


class WorkerLostServer(WorkerFailed):
    """A worker's inference server is gone or late; the worker itself is well."""


class _LostServer(str):
    """The traceback of a worker that lost its inference server."""


class Forward(Protocol):
    """Whatever answers for numbered networks: `InferenceClient.forward`, or networks at hand."""

    def __call__(self, network: int, features_BE: U8) -> F32:
        """Return the network's raw outputs BA."""
        ...


def traversal_advantages(config: DeepCFRConfig, traverser: int, forward: Forward) -> Advantages:
    """Say which network answers for which player when one of them traverses.

    With `traversal.opponent: frozen` the traverser's opponent plays by its snapshot.
    """
    numbers = network_numbers(config)
    frozen = config.traversal.opponent == "frozen"

    def advantages(player: int, features_BE: U8, legal_BA: Bool) -> F32:
        asked = numbers.frozen if frozen and player != traverser else numbers.players
        return forward(asked[player], features_BE)

    return advantages


def traversal_action_values(config: DeepCFRConfig, forward: Forward) -> ActionValues | None:
    """Return the value network's answers in points, where the estimator asks for them."""
    number = network_numbers(config).value
    if number < 0:
        return None
    unit = build_rules(config.rules).value_unit

    def action_values(histories_BV: U8) -> F32:
        return forward(number, histories_BV) * np.float32(unit)

    return action_values


def run_with_networks(
    config: DeepCFRConfig,
    spec: TraversalSpec,
    forward: Forward,
    buffers: TraversalBuffers | None = None,
) -> TraversalSamples:
    """Run traversals, all questions to networks answered by `forward`.

    With `buffers` the samples are good until these are used again.
    """
    return run_traversals(
        build_rules(config.rules),
        spec,
        traversal_advantages(config, spec.traverser, forward),
        traversal_action_values(config, forward),
        buffers,
    )


def local_forward(networks: Sequence[torch.nn.Module], precision: Precision = "fp32") -> Forward:
    """Answer from networks in this process, with their weights as they are now."""
    rows = [pack_network(network, precision) for network in networks]

    def forward(network: int, features_BE: U8) -> F32:
        return rows[network](features_BE)

    return forward


def split_spec(spec: TraversalSpec, parts: int) -> list[TraversalSpec]:
    """Cut the ids into at most so many contiguous ranges, none empty, sizes differing by one."""
    parts = min(parts, spec.num_traversals)
    bounds = [spec.num_traversals * part // parts for part in range(parts + 1)]
    return [
        dataclasses.replace(spec, first_id=spec.first_id + start, num_traversals=end - start)
        for start, end in pairwise(bounds)
    ]


class _Weights(NamedTuple):
    """The message that new weights lie in the memory that the owner shares with all workers."""

    version: int
    receipt: Receipt


class _Job(NamedTuple):
    """Traversals to be run with the weights of a version."""

    version: int
    spec: TraversalSpec


class _Worker(NamedTuple):
    process: SpawnProcess
    connection: Connection
    samples: SharedObject


class TraversalPool:
    """Owns `traversal.num_workers` processes; use it in a `with` block or call `close`.

    Weights go to all workers through one shared memory, and each worker's samples come back through
    one of its own; the pipes carry what is about them.

    With the server backend it takes one client a worker and no weights.
    """

    def __init__(
        self, config: DeepCFRConfig, clients: Sequence[InferenceClient] | None = None
    ) -> None:
        num_workers = config.traversal.num_workers
        if clients is not None and len(clients) != num_workers:
            raise ValueError(f"got {len(clients)} clients, expected one a worker: {num_workers}")
        self._version = 0
        self._buffers = TraversalBuffers()
        self._weights = SharedObject()
        self._workers: list[_Worker] = []
        for index in range(num_workers):
            ours, theirs = Pipe()
            samples = SharedObject()
            client = clients[index] if clients is not None else None
            arguments = (config, theirs, self._weights, samples, client)
            process = start_process(_work, arguments, f"traversal-worker-{index}")
            theirs.close()  # with a copy here, nobody would notice the worker's end
            self._workers.append(_Worker(process, ours, samples))

    def push_weights(self, payload: Mapping[str, Any]) -> None:
        """Give every worker `{"networks": [state_dict, ...]}`, in the order they are numbered.

        The tensors are copied before this returns. Raises WorkerFailed for keys that do not fit,
        WorkerDied.
        """
        arrays = [
            {name: tensor.detach().cpu().numpy() for name, tensor in state_dict.items()}
            for state_dict in payload["networks"]
        ]
        message = _Weights(self._version + 1, self._weights.put(arrays))
        for index in range(len(self._workers)):
            self._send(index, message)
        self._answers(len(self._workers))
        self._version += 1

    def collect(self, spec: TraversalSpec) -> TraversalSamples:
        """Run the traversals and return their samples in order of their ids.

        The samples are good until the next call. Raises WorkerFailed with the traceback when a
        worker raised, WorkerLostServer when that was its inference server's fault, WorkerDied when
        one is gone.
        """
        chunks = split_spec(spec, len(self._workers))
        for index, chunk in enumerate(chunks):
            self._send(index, _Job(self._version, chunk))
        answers = zip(self._workers, self._answers(len(chunks)), strict=False)
        parts = [worker.samples.get(receipt) for worker, receipt in answers]
        return concatenate(parts, self._buffers)

    @property
    def pids(self) -> list[int | None]:
        """The workers' process ids."""
        return [worker.process.pid for worker in self._workers]

    def close(self) -> None:
        """End the processes; a second call does nothing."""
        for worker in self._workers:
            worker.connection.close()  # all at once, so that they end side by side
        while self._workers:
            worker = self._workers.pop()
            stop_process(worker.process, worker.connection)
            worker.samples.close()
        self._weights.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _send(self, index: int, message: _Weights | _Job) -> None:
        process, connection, _ = self._workers[index]
        try:
            connection.send(message)
        except OSError as error:
            raise WorkerDied(index, process.pid, exit_reason(process)) from error

    def _answers(self, count: int) -> list[Any]:
        """Wait for one answer from each of the first workers, so that none is left over."""
        waiting = {worker.connection: i for i, worker in enumerate(self._workers[:count])}
        answers: list[Any] = [None] * count
        failures: dict[int, str] = {}
        while waiting:
            for ready in cast(list[Connection], wait(list(waiting))):
                index = waiting.pop(ready)
                try:
                    answers[index], failure = ready.recv()
                except (EOFError, OSError) as error:
                    process = self._workers[index].process
                    raise WorkerDied(index, process.pid, exit_reason(process)) from error
                if failure is not None:
                    failures[index] = failure
        if failures:
            first = min(failures)
            lost = isinstance(failures[first], _LostServer)
            raise (WorkerLostServer if lost else WorkerFailed)(first, failures[first])
        return answers


def _work(
    config: DeepCFRConfig,
    owner: Connection,
    weights: SharedObject,
    samples: SharedObject,
    client: InferenceClient | None,
) -> None:
    """Answer messages by (result, None) or (None, traceback) until the owner's pipe closes.

    The result of traversals is the receipt of their samples.
    """
    torch.set_num_threads(1)
    forward: Forward = client.forward if client is not None else local_forward([])
    buffers = TraversalBuffers()
    version = 0
    while True:
        try:
            message = owner.recv()
            result: Receipt | None = None
            failure: str | None = None
            try:
                if isinstance(message, _Weights):
                    arrays = weights.get(message.receipt)
                    networks = load_networks(config, [_tensors(network) for network in arrays])
                    if client is None:
                        forward = local_forward(networks, config.run.precision)
                    version = message.version
                elif message.version != version:
                    raise RuntimeError(f"has weights {version}, expected {message.version}")
                else:
                    result = samples.put(run_with_networks(config, message.spec, forward, buffers))
            except InferenceServerLost:
                failure = _LostServer(traceback.format_exc())
            except Exception:
                failure = traceback.format_exc()
            owner.send((result, failure))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return


def _tensors(arrays: Mapping[str, NDArray[Any]]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array) for name, array in arrays.items()}
