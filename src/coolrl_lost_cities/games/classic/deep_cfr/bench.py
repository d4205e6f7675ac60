"""Does compile make iterations faster? Both ways in turn, on one machine, in one run.

Each side is a process of its own. They take turns by the iteration, A B B A, so that whatever slows
the machine for a while meets both; the first iteration of each, which compiles, does not count.
Evaluation and checkpoints are off.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coolrl_lost_cities.games.classic.deep_cfr.bench_arm import Arm, Iteration, running_arm
from coolrl_lost_cities.games.classic.deep_cfr.compiler import require_cpp_compiler
from coolrl_lost_cities.games.classic.deep_cfr.compute_lock import compute_lock
from coolrl_lost_cities.games.classic.deep_cfr.config import (
    DeepCFRConfig,
    config_from_mapping,
    config_to_mapping,
)
from coolrl_lost_cities.games.classic.deep_cfr.errors import DeepCFRError
from coolrl_lost_cities.games.classic.deep_cfr.fingerprint import Fingerprint, take_fingerprint
from coolrl_lost_cities.games.classic.deep_cfr.paired_times import Saving, saving
from coolrl_lost_cities.games.classic.deep_cfr.recompiles import CompileCounts, objection

LEAST_ITERATIONS = 8
MOST_COMPILATIONS = 2  # of a network: with its own shapes, and once more with a part of a batch
_OVERRIDES: dict[str, Any] = {
    "run.iterations": 1_000_000,  # the bench stops it
    "run.minutes": None,
    "run.overwrite": True,
    "checkpoint.save_latest": False,
    "checkpoint.save_every": 0,
    "evaluation.eval_every": 0,
}

Say = Callable[[str], None]


class TooFewIterations(DeepCFRError):
    """Fewer measured iterations than an interval can be made of."""

    def __init__(self, asked: int) -> None:
        super().__init__(
            f"--iterations is {asked}, expected at least {LEAST_ITERATIONS} measured iterations a "
            "side"
        )


@dataclass(frozen=True)
class Side:
    """What one side took: the iteration that was dropped, the measured ones, and its compiling."""

    first: Iteration
    measured: tuple[Iteration, ...]

    @property
    def seconds(self) -> tuple[float, ...]:
        """Seconds of the measured iterations, in order."""
        return tuple(one.seconds for one in self.measured)

    @property
    def mean(self) -> float:
        """Mean seconds of a measured iteration."""
        return sum(self.seconds) / len(self.seconds)

    @property
    def compiled(self) -> CompileCounts:
        """What was compiled by the end."""
        return self.measured[-1].compiled

    def phases(self) -> dict[str, float]:
        """Return the mean seconds of each phase."""
        return _means([one.phases for one in self.measured])

    def parts(self) -> dict[str, float]:
        """Return the mean seconds of each part of a phase."""
        return _means([one.parts for one in self.measured])


@dataclass(frozen=True)
class Bench:
    """Both sides, what the second saves, why that may count for nothing, and where it was."""

    config: DeepCFRConfig
    off: Side
    on: Side
    saving: Saving
    failed: str
    fingerprint: Fingerprint
    load_after: float


def run_bench(
    config: DeepCFRConfig,
    out: Path,
    say: Say,
    *,
    iterations: int = LEAST_ITERATIONS,
    most_compilations: int = MOST_COMPILATIONS,
) -> Bench:
    """Time both sides. `config.compile.trainer` says how the second compiles; it is turned on here.

    Raises TooFewIterations, CompilerMissing, ComputeLocked and ArmEnded.
    """
    check_iterations(iterations)
    with compute_lock():
        return time_both_sides(
            config, out, say, iterations=iterations, most_compilations=most_compilations
        )


def check_iterations(asked: int) -> None:
    """Raise TooFewIterations where no interval could be made of so many."""
    if asked < LEAST_ITERATIONS:
        raise TooFewIterations(asked)


def time_both_sides(
    config: DeepCFRConfig, out: Path, say: Say, *, iterations: int, most_compilations: int
) -> Bench:
    """Do what `run_bench` does, for somebody who holds the lock and has checked the number."""
    if config.run.device == "cpu":
        require_cpp_compiler()
    with ExitStack() as stack:
        fingerprint = take_fingerprint(config)
        arms = [
            stack.enter_context(running_arm(name, side_config(config, out / name, enabled=on)))
            for name, on in (("off", False), ("on", True))
        ]
        sides = _in_turn(arms, iterations, say)
        load_after = take_fingerprint(config).load
    off, on = sides
    return Bench(
        config=config,
        off=off,
        on=on,
        saving=saving(off.seconds, on.seconds),
        failed=objection(on.compiled, num_networks(config), most_compilations),
        fingerprint=fingerprint,
        load_after=load_after,
    )


def side_config(config: DeepCFRConfig, out: Path, *, enabled: bool) -> DeepCFRConfig:
    """Return what one side runs."""
    own = {"run.out": str(out), "run.name": out.name, "compile.trainer.enabled": enabled}
    overrides = [f"{key}={json.dumps(value)}" for key, value in (_OVERRIDES | own).items()]
    return config_from_mapping(config_to_mapping(config), "bench", overrides)


def num_networks(config: DeepCFRConfig) -> int:
    """Return how many networks a run trains."""
    seats = 1 if config.network.shared_seats else 2
    return seats + 1 + (1 if config.estimator.asks_values else 0)


def _in_turn(arms: Sequence[Arm], iterations: int, say: Say) -> list[Side]:
    first = []
    for arm in arms:
        say(f"{arm.name}: first iteration, which is not counted")
        first.append(arm.iterate())
    measured: list[list[Iteration]] = [[], []]
    for number in range(iterations):
        # A B, then B A: a machine that slows down steadily slows both down alike.
        for index in (0, 1) if number % 2 == 0 else (1, 0):
            done = arms[index].iterate()
            measured[index].append(done)
            say(f"{arms[index].name}: iteration {number + 1} of {iterations}, {done.seconds:.2f} s")
    return [Side(one, tuple(rest)) for one, rest in zip(first, measured, strict=True)]


def _means(times: Sequence[dict[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for one in times for name in one)
    return {name: sum(one.get(name, 0.0) for one in times) / len(times) for name in names}
