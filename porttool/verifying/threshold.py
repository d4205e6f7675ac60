"""The precondition as a program of the project measures it, on the device that trains."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path, PurePosixPath

from porttool.errors import EXIT_CHECK_FAILED, PortError
from porttool.gating.settings import evaluate_clauses
from porttool.git.commits import CommitId
from porttool.git.repo import Repository
from porttool.git.scratch import scratch_folder
from porttool.plan.plan import Plan, ThresholdPlan
from porttool.precondition import read_precondition, with_measured
from porttool.report import Clause, Precondition, Threshold
from porttool.verifying.checks import check_without_places, without_places
from porttool.verifying.measures import (
    THRESHOLD,
    Progress,
    measuring_alone,
    run_measure,
    surroundings,
    taken_elsewhere,
)
from porttool.verifying.results import read_threshold


class NothingMeasured(PortError):
    """What was to be measured for the precondition was not: its program is missing, or failed."""

    exit_code = EXIT_CHECK_FAILED


def judged_precondition(
    repo: Repository,
    plan: Plan,
    at: CommitId,
    interpreter: Path,
    before: Threshold | None,
    *,
    measure: bool,
    progress: Progress,
) -> Precondition:
    """Return whether a commit meets the rule, by its config or else by what is measured.

    What was measured `before` at the same commit goes on to count. With `measure` it is measured
    whatever the config says, and a program that fails is refused (NothingMeasured).
    """
    precondition = read_precondition(repo, plan, at)
    if before is not None and before.at == at:
        precondition = with_measured(precondition, before)
    planned = plan.precondition is not None and plan.precondition.measure is not None
    if measure or (planned and not precondition.met):
        threshold = measure_threshold(repo, plan, at, interpreter, progress=progress)
        if measure:
            refuse_fault(plan, threshold)
        precondition = with_measured(precondition, threshold)
    return precondition


def measure_threshold(
    repo: Repository,
    plan: Plan,
    at: CommitId,
    interpreter: Path,
    *,
    derived: bytes | None = None,
    progress: Progress,
) -> Threshold:
    """Run `precondition.measure` in a checkout of a commit; a program that fails is an answer.

    `derived` is the targeted config where the commit does not have it yet.
    """
    rule = plan.precondition
    assert rule is not None
    assert rule.measure is not None
    progress("precondition, measured")
    with (
        measuring_alone(repo, plan),
        scratch_folder() as out,
        surroundings(repo, plan, at, interpreter, out) as around,
    ):
        config = rule.config
        if derived is not None:
            written = out / PurePosixPath(rule.config).name
            written.write_bytes(derived)
            config = str(written)
        check, data = run_measure(THRESHOLD, rule.measure, around, out / THRESHOLD, config=config)
        check = check_without_places(check, around.folders)
        if not data:
            return _fault(rule.measure, at, check.detail)
        try:
            found = read_threshold(data, rule.measure, at=at)
        except ValueError as error:
            wrong = without_places(str(error), around.folders)
            return _fault(rule.measure, at, f"its result is not one: {wrong}")
        assert found.taken is not None
        return dataclasses.replace(found, taken=taken_elsewhere(found.taken, around.folders))


def refuse_fault(plan: Plan, threshold: Threshold) -> None:
    """Raise NothingMeasured where the program gave no result."""
    if not threshold.fault:
        return
    assert plan.precondition is not None
    assert plan.precondition.measure is not None
    raise NothingMeasured(
        f"nothing was measured for the precondition of {plan.name}",
        where=f"{plan.path} (precondition.measure), run at {threshold.at[:12]}: "
        f"{shlex.join(plan.precondition.measure.command)}",
        why=threshold.fault,
        next="mend the command or its program, or leave --measure out: then the config alone "
        "decides",
    )


def measured_condition(plan: ThresholdPlan) -> str:
    """Return what has to hold of the result, in words."""
    return evaluate_clauses({}, plan.all_of, plan.result).text


def _fault(plan: ThresholdPlan, at: CommitId, fault: str) -> Threshold:
    clause = Clause(measured_condition(plan), "not measured", met=False)
    return Threshold(at, met=False, clause=clause, fault=fault)
