"""Processes that traverse and share nothing: what two workers could reach at most."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

import torch

from benchmarks.workload import some_networks
from coolrl_lost_cities.games.classic.deep_cfr.config import DeepCFRConfig
from coolrl_lost_cities.games.classic.deep_cfr.lockstep import TraversalBuffers
from coolrl_lost_cities.games.classic.deep_cfr.traversal import TraversalSpec
from coolrl_lost_cities.games.classic.deep_cfr.workers import local_forward, run_with_networks


class Unrelated:
    """So many processes, each with networks of its own; nothing comes back but how many states."""

    def __init__(self, config: DeepCFRConfig, count: int) -> None:
        context = get_context("spawn")
        self._processes, self._connections = [], []
        for _ in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_traverse, args=(config, theirs), daemon=True)
            process.start()
            theirs.close()
            self._processes.append(process)
            self._connections.append(ours)

    @property
    def pids(self) -> list[int | None]:
        return [process.pid for process in self._processes]

    def traverse(self, specs: Sequence[TraversalSpec]) -> int:
        """Give a spec to each of the first processes; return the states when all are done."""
        for connection, spec in zip(self._connections, specs, strict=False):
            connection.send(spec)
        return sum(connection.recv() for connection in self._connections[: len(specs)])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for connection in self._connections:
            connection.close()
        for process in self._processes:
            process.join()


def _traverse(config: DeepCFRConfig, owner: Connection) -> None:
    torch.set_num_threads(1)
    forward = local_forward(some_networks(config), config.run.precision)
    buffers = TraversalBuffers()
    with suppress(EOFError):
        while True:
            found = run_with_networks(config, owner.recv(), forward, buffers)
            owner.send(found.counters.infostates)
