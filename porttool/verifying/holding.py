"""`porttool precondition` as a value: whether the rule holds, by what, and what to type next."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from porttool.coding import encode
from porttool.errors import EXIT_DONE, EXIT_PARKED
from porttool.frozen import dataclass
from porttool.git.repo import Repository
from porttool.plan.plan import Plan
from porttool.precondition import Targeted, find_precondition, with_measured
from porttool.record import find_report
from porttool.report import Precondition
from porttool.verifying.measures import Progress, check_planned
from porttool.verifying.threshold import measure_threshold, measured_condition, refuse_fault
from porttool.verifying.verify import project_python


@dataclass(frozen=True)
class Holding:
    """Whether a port's precondition holds, and where that was looked at.

    `of` names the commit `at`. `not_measured` is the condition that could still be measured, "" if
    there is none.
    """

    port: str
    precondition: Precondition
    of: str
    at: str
    not_measured: str = ""
    next: str = ""

    @property
    def exit_code(self) -> int:
        """0 where it holds, else that of a parked port."""
        return EXIT_DONE if self.precondition.met else EXIT_PARKED

    @property
    def lines(self) -> list[str]:
        """What to say, one fact a line."""
        found = self.precondition
        if not found.config:
            return [f"{self.port} has no precondition"]
        return [
            f"{self.port}: {found.config} {self.of} {self.at[:12]}",
            *(
                f"  {'holds        ' if c.met else 'does not hold'} {c.text} (is {c.seen})"
                for c in found.conditions
            ),
            *([f"  not measured  {self.not_measured}"] if self.not_measured else []),
            f"the precondition {'holds' if found.met else 'does not hold'}",
            *([f"next: {self.next}"] if self.next else []),
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return the same facts as data, for `--json`."""
        return {
            "port": self.port,
            "met": self.precondition.met,
            "exit_code": self.exit_code,
            "of": self.of,
            "at": self.at,
            "precondition": encode(self.precondition),
            "not_measured": self.not_measured,
            "next": self.next,
        }


def precondition_now(
    repo: Repository, plan: Plan, *, measure: bool, python: Path | None, progress: Progress
) -> Holding:
    """Look at the precondition as far as the port has come, and with `measure` measure it too.

    Without `measure` nothing of the repository is run, and what verify measured on the branch's
    tip counts. Nothing is stored.

    Raises PlanError where the plan does not say how to measure, and NothingMeasured.
    """
    check_planned(plan, bench=False, drift=False, threshold=measure)
    targeted = find_precondition(repo, plan)
    found = targeted.precondition
    if measure:
        interpreter = project_python(repo, python)
        threshold = measure_threshold(
            repo, plan, targeted.at, interpreter, derived=targeted.derived, progress=progress
        )
        refuse_fault(plan, threshold)
        found = with_measured(found, threshold)
    elif targeted.stage == "branch":
        report = find_report(repo, targeted.at, plan.name)
        before = report.precondition.measured if report else None
        if before is not None and before.at == targeted.at:
            found = with_measured(found, before)
    rule = plan.precondition.measure if plan.precondition else None
    left = measured_condition(rule) if rule is not None and found.measured is None else ""
    return Holding(
        plan.name, found, _of(plan, targeted), targeted.at, left, _next(plan, targeted, found, left)
    )


def _of(plan: Plan, targeted: Targeted) -> str:
    if targeted.stage == "branch":
        return f"on {plan.review_branch} at"
    if targeted.stage == "merged":
        return f"on {plan.onto}, which has the port, at"
    return f"as a branch would have it, made on {plan.onto} at"


def _next(plan: Plan, targeted: Targeted, found: Precondition, left: str) -> str:
    port, onto = shlex.quote(plan.name), shlex.quote(plan.onto)
    if not found.met and left:
        return f"porttool precondition {port} --measure, on the machine that trains"
    if not found.met:
        return f"raise one of them in {plan.path} (variants), or leave it parked"
    if targeted.stage == "branch":
        return f"porttool verify {port}"
    if targeted.stage == "merged":
        return ""
    # `apply` runs nothing of the repository, so what was measured is no news to it.
    despite = "" if any(clause.met for clause in found.clauses) else " --despite-precondition"
    return f"porttool apply {port} --onto {onto}{despite} && porttool verify {port}"
