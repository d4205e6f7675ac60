"""A port that onto has already, measured there: is it still worth what its switch costs?"""

from __future__ import annotations

import shlex
from pathlib import Path

from porttool.account import tool_version
from porttool.evidence import WORDS
from porttool.git.commits import CommitId
from porttool.git.repo import Repository
from porttool.plan.plan import Plan
from porttool.report import Proof, Report
from porttool.standing import next_step
from porttool.verifying.measures import BENCH, DRIFT, Measured, Progress, bench_and_drift
from porttool.verifying.threshold import judged_precondition
from porttool.verifying.trial import skipped
from porttool.verifying.verdict import (
    EXITS,
    Verified,
    evidence_of,
    mending,
    precondition_check,
    verdict_of,
)


def measure_merged(
    repo: Repository,
    plan: Plan,
    ends: tuple[CommitId, CommitId],
    interpreter: Path,
    *,
    despite_precondition: bool,
    measure: bool,
    bench: bool,
    drift: bool,
    progress: Progress,
) -> Verified:
    """Measure the switch on onto, off against on; `ends` are onto and what brought the port there.

    Nothing is proven or stored: there is no branch to keep a report with. The result files stay,
    and the next step records them.
    """
    onto, merged = ends
    progress("precondition")
    precondition = judged_precondition(
        repo, plan, onto, interpreter, None, measure=measure, progress=progress
    )
    checks = [precondition_check(precondition)] if plan.precondition else []
    if precondition.met or despite_precondition:
        found = bench_and_drift(
            repo, plan, onto, interpreter, bench=bench, drift=drift, progress=progress
        )
    else:
        names = [name for name, wanted in ((BENCH, bench), (DRIFT, drift)) if wanted]
        found = Measured(tuple(skipped(name, "the precondition parks the port") for name in names))
    checks += found.checks
    evidence = evidence_of(precondition, None, found)
    # It is not the proof that is asked for: what is on onto was proven before it was merged.
    verdict = verdict_of(precondition, Proof(holds=True, tier="none"), checks, evidence)
    report = Report(
        port=plan.name,
        digest=plan.digest,
        version=tool_version(),
        experiment=(),
        onto=plan.onto,
        onto_id=onto,
        branch=plan.onto,
        precondition=precondition,
        checks=tuple(checks),
        evidence=evidence,
        verdict=verdict,
    )
    decision = evidence.decision
    message = (
        f"{plan.name} is merged, {plan.onto} has it since {merged[:12]}; measured on {plan.onto} "
        f"at {onto[:12]}: {WORDS[decision.outcome]}: {decision.branch}"
    )
    return Verified(report, EXITS[verdict], message, advice=_record(plan, found, report))


def _record(plan: Plan, found: Measured, report: Report) -> str:
    if not found.files:
        return mending(plan, found.checks, found) or next_step(report)
    options = " ".join(f"--{name} {shlex.quote(str(path))}" for name, path in found.files)
    return f"porttool record {shlex.quote(plan.name)} {options}"
