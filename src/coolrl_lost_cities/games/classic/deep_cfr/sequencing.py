"""In which order bigger networks, dense evaluation and compile are judged, and what they took.

Each step builds on the one before, so what a step took says nothing of the plan as long as that
one was not measured: it is not called done.
"""

from collections.abc import Mapping
from dataclasses import dataclass

SMALL, LARGER, DENSE, COMPILED = "small", "larger", "dense evaluation", "compile"
STEPS = {
    SMALL: "Small model, no compile",
    LARGER: "+ larger model, no compile",
    DENSE: "+ dense evaluation",
    COMPILED: "+ compile of the trainer",
}
DENSE_EVERY, DENSE_GAMES = 5, 1000


@dataclass(frozen=True)
class Measured:
    """Mean seconds of an iteration at one step, and what was run there."""

    seconds: float
    what: str


@dataclass(frozen=True)
class Step:
    """One row: what was measured if anything was, and the step before whose absence undoes it."""

    name: str
    measured: Measured | None
    waits_for: str

    @property
    def done(self) -> bool:
        """Whether it was measured, and all before it."""
        return self.measured is not None and not self.waits_for


def sequence(measured: Mapping[str, Measured]) -> tuple[Step, ...]:
    """Return all steps in order. `measured` holds those that were measured, by name."""
    found: list[Step] = []
    missing = ""
    for name in STEPS:
        found.append(Step(name, measured.get(name), missing))
        if name not in measured and not missing:
            missing = name
    return tuple(found)


def sequence_table(steps: tuple[Step, ...]) -> str:
    """Return the steps as a table in Markdown."""
    rows = ["| Configuration | Iter time | Step |", "|---|---:|---|"]
    for step in steps:
        if step.measured is None:
            time, said = "not measured", "not measured"
        else:
            time = f"{step.measured.seconds:.3g} s ({step.measured.what})"
            said = "done"
        if step.waits_for:
            said = f"not done: `{step.waits_for}` was not measured"
        rows.append(f"| {STEPS[step.name]} | {time} | {said} |")
    rows.append("")
    rows.append(
        f"Dense evaluation is {DENSE_GAMES} games a match every {DENSE_EVERY} iterations, its time "
        "spread over them. TensorRT is not part of this."
    )
    return "\n".join(rows)
