"""From checks and measurements to a verdict, the exit code, and what is said in one line."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from porttool.errors import EXIT_CHECK_FAILED, EXIT_DONE, EXIT_PARKED
from porttool.evidence import WORDS, Evidence, decide
from porttool.frozen import dataclass
from porttool.plan.plan import Plan
from porttool.report import Check, Precondition, Proof, Report, Verdict, counted
from porttool.standing import UP_TO_DATE, Standing, next_step
from porttool.verifying.measures import Measured
from porttool.verifying.trial import ON_ONTO, SAME

PRECONDITION = "precondition"
EXITS: dict[Verdict, int] = {
    "ready": EXIT_DONE,
    "parked": EXIT_PARKED,
    "failed": EXIT_CHECK_FAILED,
}


@dataclass(frozen=True)
class Verified:
    """The report with its checks and verdict, as it was stored, and what to tell the user.

    `advice` is the next step where the report alone does not know it. `kept` is when the verdict
    was given, where it was taken as it was kept and nothing was run.
    """

    report: Report
    exit_code: int
    message: str
    standing: Standing = UP_TO_DATE
    advice: str = ""
    kept: str = ""

    @property
    def next(self) -> str:
        """The command to type next."""
        return self.advice or next_step(self.report, self.standing)


def precondition_check(precondition: Precondition) -> Check:
    """Return the precondition as a line of the report."""
    shown = [f"{c.text}: {c.seen}" for c in precondition.conditions]
    met = [line for line, c in zip(shown, precondition.conditions, strict=True) if c.met]
    detail = f"{precondition.config}: {(met or shown)[0]}"
    if precondition.measured is not None and precondition.measured.fault:
        detail += f"; measuring it gave nothing: {precondition.measured.fault}"
    return Check(
        PRECONDITION, "passed" if precondition.met else "failed", 0.0, detail, (), tuple(shown)
    )


def evidence_of(precondition: Precondition, before: Evidence | None, now: Measured) -> Evidence:
    """Return what is known now, and what follows: what was measured before goes on to count."""
    bench = now.bench or (before.bench if before else None)
    drift = now.drift or (before.drift if before else None)
    return Evidence(decide(precondition.met, bench, drift), bench, drift)


def has_failed(checks: Sequence[Check]) -> bool:
    """Tell whether anything failed but the precondition, which parks."""
    return any(c.status == "failed" and c.name != PRECONDITION for c in checks)


def verdict_of(
    precondition: Precondition, proof: Proof, checks: Sequence[Check], evidence: Evidence | None
) -> Verdict:
    """Return the verdict."""
    if has_failed(checks):
        return "failed"
    if not precondition.met:
        return "parked"
    if evidence is not None and evidence.decision.outcome in ("parked", "do not ship"):
        return "parked"
    return "ready" if proof.holds else "failed"


def mending(plan: Plan, checks: Sequence[Check], measured: Measured) -> str:
    """Return what to do where it is not the port that failed, "" where it may be."""
    verify = f"porttool verify {shlex.quote(plan.name)}"
    if any(check.name == ON_ONTO and check.status == "failed" for check in checks):
        return (
            f"{plan.onto} itself does not run so, and the port is not to blame: mend that, "
            f"verify.run in {plan.path} or the interpreter (--python), then: {verify}"
        )
    if not measured.missing:
        return ""
    options = " ".join(f"--{name}" for name in measured.missing)
    keys = " and ".join(f"verify.{name}" for name in measured.missing)
    return (
        f"mend {keys} in {plan.path} or the program, then: {verify} {options}; "
        f"or verify without {options}"
    )


def message_of(report: Report, standing: Standing = UP_TO_DATE) -> str:
    """Return the verdict and what it rests on, in one line."""
    failed = [c for c in report.checks if c.status == "failed" and c.name != PRECONDITION]
    passed = sum(check.status == "passed" for check in report.checks)
    left_out = sum(check.status == "skipped" for check in report.checks)
    if failed:
        checks = counted(len(report.checks), "check")
        facts = [f"{len(failed)} of {checks} ({failed[0].name})"]
    elif report.verdict == "parked" and not report.precondition.met:
        facts = [f"{report.precondition.config} does not meet the precondition"]
        facts += [f"{counted(passed, 'check')} passed"] if passed else []
    else:
        facts = [f"{counted(passed, 'check')} passed"]
    facts += [f"{left_out} skipped"] if left_out else []
    if not report.tip:
        facts.append("there is no branch")
    elif not any(check.name == SAME and check.status != "skipped" for check in report.checks):
        facts.append("no run was compared")
    facts += [f"stale by {counted(standing.stale, 'commit')}"] if standing.stale else []
    if report.evidence is not None and report.precondition.met:
        decision = report.evidence.decision
        facts.append(f"{WORDS[decision.outcome]}: {decision.branch}")
    branch = f"{report.branch} on {report.onto}" if standing.elsewhere else report.branch
    return f"{branch} {report.verdict}: {', '.join(facts)}"
