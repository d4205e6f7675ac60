"""Medians of what pieces of work take, measured in turn so that a busy machine slows all alike."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Spent:
    """Seconds on the clock, and of processor time in this process and those it was told of."""

    wall_s: float
    cpu_s: float


def cpu_clock(pid: int) -> int:
    """Return the clock of another process's processor time, as clock_getcpuclockid does."""
    return (~pid << 3) | 2  # 2: what the scheduler has counted, user and system together


def running(*pids: int | None) -> list[int]:
    """Return the processes whose time counts as well; one that was never started has none."""
    return [pid for pid in pids if pid is not None]


def spent(work: Callable[[], object], pids: Iterable[int] = ()) -> Spent:
    clocks = [time.CLOCK_PROCESS_CPUTIME_ID, *(cpu_clock(pid) for pid in pids)]
    wall, cpu = time.perf_counter(), sum(map(time.clock_gettime, clocks))
    work()
    cpu = sum(map(time.clock_gettime, clocks)) - cpu
    return Spent(time.perf_counter() - wall, cpu)


def in_turn(
    works: Mapping[str, Callable[[], object]],
    rounds: int,
    pids: Mapping[str, Iterable[int]] | None = None,
) -> dict[str, Spent]:
    """Return the medians of each work; a first round, which is not counted, warms caches up."""
    found: dict[str, list[Spent]] = {name: [] for name in works}
    for number in range(rounds + 1):
        for name, work in works.items():
            seconds = spent(work, (pids or {}).get(name, ()))
            if number:
                found[name].append(seconds)
    return {name: median(seconds) for name, seconds in found.items()}


def repeated(work: Callable[[], object], times: int) -> Callable[[], None]:
    """Return what does a work several times in a row."""

    def works() -> None:
        for _ in range(times):
            work()

    return works


def median(rounds: Iterable[Spent]) -> Spent:
    rounds = list(rounds)
    return Spent(
        statistics.median(one.wall_s for one in rounds),
        statistics.median(one.cpu_s for one in rounds),
    )


def compared(
    benchmark: str,
    *,
    unit: str,
    count: float,
    ours: Spent,
    against: str,
    theirs: Spent,
    their_count: float | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return one line: what a unit takes, and the ratio to what the other way takes for it.

    A ratio is our time over theirs, each for one unit: above 1 where the other is a floor, below 1
    where it is the naive way.
    """
    their_count = count if their_count is None else their_count
    return {
        "benchmark": benchmark,
        "unit": unit,
        "count": count,
        "wall_us": microseconds(ours.wall_s / count),
        "cpu_us": microseconds(ours.cpu_s / count),
        "per_s": round(count / ours.wall_s),
        "per_cpu_s": round(count / ours.cpu_s),
        "against": against,
        "against_wall_us": microseconds(theirs.wall_s / their_count),
        "against_cpu_us": microseconds(theirs.cpu_s / their_count),
        "ratio_wall": ratio(ours.wall_s / count, theirs.wall_s / their_count),
        "ratio_cpu": ratio(ours.cpu_s / count, theirs.cpu_s / their_count),
        **more,
    }


def microseconds(seconds: float) -> float:
    return float(f"{seconds * 1e6:.4g}")


def ratio(over: float, under: float) -> float:
    return float(f"{over / under:.3g}")


def load() -> list[float]:
    """Return how many processes wanted the machine over the last 1, 5 and 15 minutes."""
    return [round(value, 2) for value in os.getloadavg()]
