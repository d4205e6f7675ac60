"""What was measured of a port, as values, and the decision that follows from it.

A bench says how much time the switch saves, a drift check whether training comes out the same. The
tree of `decide` is the plan's own; nothing is shipped on what was not measured.
"""

from __future__ import annotations

from typing import Literal

from porttool.frozen import dataclass

DriftVerdict = Literal["no drift", "drift", "not enough"]
Outcome = Literal["ship", "do not ship", "parked", "open"]
WORDS: dict[Outcome, str] = {
    "ship": "ship",
    "do not ship": "do not ship",
    "parked": "parked",
    "open": "not decided",
}


@dataclass(frozen=True)
class Basis:
    """What a verdict is about: the trees of both ends, the plan, the tool and the interpreter.

    `surroundings` tells an interpreter with its packages from others; `date` is when it was given.
    """

    onto_tree: str
    tree: str
    digest: str
    version: str
    surroundings: str
    date: str


@dataclass(frozen=True)
class Measurement:
    """When, where and on what something was measured, one line each, and its table.

    `date` is an ISO date or time, `table` Markdown; all of it is what the measuring program says.
    """

    date: str
    machine: str = ""
    what: str = ""
    table: str = ""


@dataclass(frozen=True)
class Bench:
    """One comparison of the switch on and off, taken in turn on one machine.

    `effect` is the share of the time that the switch saves, below 0 where it costs; `low` and
    `high` are the ends of its interval. `failed` says why the figures count for nothing.
    """

    effect: float
    low: float
    high: float
    at_least: float
    taken: Measurement
    failed: str = ""


@dataclass(frozen=True)
class Drift:
    """Whether training with the switch on comes out as it does with the switch off."""

    verdict: DriftVerdict
    taken: Measurement
    detail: str = ""


@dataclass(frozen=True)
class Decision:
    """What is to be done with the port, the branch of the tree that says so, and the next step."""

    outcome: Outcome
    branch: str
    next: str = ""


@dataclass(frozen=True)
class Evidence:
    """What was measured at one tip, and what follows."""

    decision: Decision
    bench: Bench | None = None
    drift: Drift | None = None


def decide(met: bool, bench: Bench | None, drift: Drift | None) -> Decision:
    """Walk the decision tree: the threshold, the bench, then drift; the first that says no counts.

    `met` says whether the precondition holds. An effect is an improvement only where its whole
    interval lies at or above what was asked for, and a regression only where it lies below 0.
    """
    if not met:
        return Decision(
            "parked",
            "the threshold rule fails on the targeted config",
            "measure again when the model has grown",
        )
    if bench is None:
        return Decision("open", "the threshold rule holds, and no bench was run", "--bench")
    if bench.failed:
        return Decision(
            "do not ship",
            f"the threshold rule holds, and the bench counts for nothing: {bench.failed}",
            "mend that, then measure again",
        )
    asked = f"{bench.at_least:.0%}"
    if bench.low < bench.at_least:
        return _not_enough(bench, asked)
    if drift is None:
        return Decision(
            "open", f"at least {asked} faster, and drift was not checked", "--bench --drift"
        )
    if drift.verdict == "drift":
        return Decision(
            "do not ship",
            f"at least {asked} faster, and the learning curves drift apart",
            "look into determinism: the mode, the backward pass, the order of optimizer updates; "
            "park it if no cause is found",
        )
    if drift.verdict == "not enough":
        return Decision(
            "open",
            f"at least {asked} faster, and the drift check cannot tell yet",
            drift.detail or "more seeds",
        )
    return Decision(
        "ship",
        f"at least {asked} faster, and no drift",
        "merge it with the switch off, and turn it on in the larger config",
    )


def _not_enough(bench: Bench, asked: str) -> Decision:
    if bench.high < 0:
        return Decision(
            "parked",
            f"slower by {-bench.effect:.1%}: a regression at this size",
            "record it with the size at which it was seen, and name the next threshold to try",
        )
    if bench.high < bench.at_least:
        return Decision(
            "do not ship", f"less than {asked} faster: what it costs is not justified", "park it"
        )
    return Decision(
        "do not ship",
        f"{asked} are not shown: the interval {shown_interval(bench)} holds values below",
        "park it, or measure more iterations on a quieter machine",
    )


def shown_interval(bench: Bench) -> str:
    """Return the ends of the effect's interval, as a report shows them."""
    return f"{bench.low:+.1%} to {bench.high:+.1%}"
