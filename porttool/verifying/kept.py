"""A verdict given before, taken once more where nothing that it rests on has changed.

It is kept with the branch's report, which says what it is about. Whatever might come out otherwise
another time is not: a program that was ended at its time limit, or a measurement without a result.
"""

from __future__ import annotations

import dataclasses
import datetime
from pathlib import Path

from porttool.account import tool_version
from porttool.evidence import Basis
from porttool.git.commits import CommitId
from porttool.git.objects import Objects
from porttool.plan.plan import Plan
from porttool.report import Report
from porttool.standing import Standing
from porttool.verifying.checks import surroundings_of, was_ended
from porttool.verifying.verdict import EXITS, PRECONDITION, Verified, message_of


def basis_of(objects: Objects, plan: Plan, report: Report, python: Path) -> Basis:
    """Return what a verdict about the branch, given now, is about."""
    return Basis(
        onto_tree=objects.tree_of(CommitId(report.onto_id)),
        tree=objects.tree_of(CommitId(report.tip)),
        digest=plan.digest,
        version=tool_version(),
        surroundings=surroundings_of(python),
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def kept_basis(report: Report, basis: Basis) -> Basis | None:
    """Return the basis to keep with a report, None where its verdict is not to be kept."""
    if not basis.surroundings or any(was_ended(check) for check in report.checks):
        return None
    measured = report.precondition.measured
    return None if measured is not None and measured.fault else basis


def kept_verdict(
    report: Report, basis: Basis, standing: Standing, *, despite_precondition: bool
) -> Verified | None:
    """Return the verdict that a report holds, None where it is about something else.

    One that the precondition parked before anything was run does not answer for what
    `despite_precondition` would run.
    """
    then = report.basis
    if then is None or dataclasses.replace(then, date=basis.date) != basis:
        return None
    ran = any(check.name != PRECONDITION for check in report.checks)
    if not ran and (despite_precondition or report.precondition.met):
        return None
    message = (
        f"{message_of(report, standing)}; kept from {then.date[:16].replace('T', ' ')} UTC, of the "
        "same trees, plan, tool and interpreter: --fresh runs it anew"
    )
    return Verified(report, EXITS[report.verdict], message, standing, kept=then.date)
