"""The report as it is kept with its branch: a git note on the branch's tip."""

from __future__ import annotations

import dataclasses
import shlex
import time

from porttool.coding import ReportError
from porttool.errors import RepositoryError
from porttool.git.commits import CommitId
from porttool.git.publish import NOTES, publish_with_note
from porttool.git.quarantine import Quarantine
from porttool.git.repo import Repository
from porttool.ownership import Made, find_made, spare_name
from porttool.plan.plan import Plan
from porttool.report import Commit, Report, from_json, to_json
from porttool.standing import Standing, remake_command


def find_report(repo: Repository, tip: CommitId, port: str) -> Report | None:
    """Return the report stored for a commit or for one that it was built on, brought up to date.

    A person may have added commits to the branch: then the report's tip and series are extended by
    them, and its checks and verdict, which speak of the older tip, are dropped.

    Raises ReportError where this version cannot read it.
    """
    made = find_made(repo, tip, port)
    if made is None:
        return None
    report = read_report(made, port)
    if made.noted == tip:
        return report
    above = ("--first-parent", "--reverse", f"{made.noted}..{tip}", "--")
    added = repo.git.run("rev-list", *above).out.decode().split()
    commits = (repo.commit(CommitId(id)) for id in added)
    return dataclasses.replace(
        report,
        tip=tip,
        series=(*report.series, *(Commit(commit.id, commit.subject) for commit in commits)),
        checks=(),
        evidence=None,
        verdict="unverified",
        basis=None,
    )


def read_report(made: Made, port: str) -> Report:
    """Return the report in a branch's note; raises ReportError with the command for a new one."""
    try:
        return from_json(made.note)
    except ReportError as error:
        raise ReportError(
            error.what,
            where=f"the note of {made.noted[:12]} in {NOTES}"
            + (f", {error.where}" if error.where else ""),
            why=error.why or "another version of porttool stored it",
            next=f"porttool refresh {shlex.quote(port)} && porttool verify {shlex.quote(port)}",
        ) from error


def readable_report(made: Made, port: str) -> Report | None:
    """Return the report in a branch's note, None where another version of porttool stored it."""
    try:
        return read_report(made, port)
    except ReportError:
        return None


def load_report(repo: Repository, plan: Plan) -> Report:
    """Return the report of a plan's branch.

    Raises RepositoryError where there is no such branch, or no report came with it.
    """
    branch, port = plan.review_branch, plan.name
    make = f"porttool apply {port} --onto {shlex.quote(plan.onto)}"
    tip = repo.find(branch)
    if tip is None:
        onto_id = repo.find(plan.onto)
        merged = onto_id and repo.find_ported(
            onto_id, CommitId(plan.experiment.commits[-1]), plan.name
        )
        if merged:
            raise RepositoryError(
                f"{port} is merged: {plan.onto} has it since {merged[:12]}",
                where=repo.commit(merged).subject,
                why=f"the branch `{branch}` is gone, and its report is not shown without it",
                next=f"nothing; to look at it: git show {merged[:12]}",
            )
        raise RepositoryError(f"there is no branch `{branch}` yet", next=make)
    report = find_report(repo, tip, port)
    if report is None:
        again = remake_command(port, branch, plan.onto, unreported(repo, plan))
        remote = next(iter(repo.remotes()), "")
        fetch = f"git fetch {shlex.quote(remote)} {NOTES}:{NOTES}, or make the branch again: "
        raise RepositoryError(
            f"no report came with the branch `{branch}`",
            where=tip,
            why=f"porttool keeps it in {NOTES}, which git does not fetch by itself; an amended or "
            "rebased commit has none",
            next=(fetch if remote else "") + again,
        )
    return report


def standing_of(repo: Repository, plan: Plan, report: Report) -> Standing:
    """Return how the branch of a stored report stands to its plan and its onto now.

    An onto that is not there any more has gained nothing.
    """
    tip, made_on = CommitId(report.tip), CommitId(report.onto_id)
    made = find_made(repo, tip, report.port)
    standing = Standing(
        edited=made is None or made.tip != tip,
        outdated=report.digest != plan.digest,
        elsewhere=report.onto != plan.onto,
        spare=spare_name(repo, report.branch),
    )
    onto = repo.find(report.onto)
    if onto is None:
        return standing
    merged = repo.find_ported(onto, CommitId(plan.experiment.commits[-1]), report.port)
    if merged is not None:
        return dataclasses.replace(standing, merged=merged)
    _, behind = repo.ahead_behind(tip, onto)
    return dataclasses.replace(
        standing, stale=behind, took_in=_taken_in(repo, report, made_on, tip, onto)
    )


def unreported(repo: Repository, plan: Plan) -> Standing:
    """Return what is known of a branch that no report came with: not even whose commits it has."""
    local = repo.ref(f"refs/heads/{plan.review_branch}") is not None
    return Standing(unreported=True, spare=spare_name(repo, plan.review_branch) if local else "")


def _taken_in(
    repo: Repository, report: Report, made_on: CommitId, tip: CommitId, onto: CommitId
) -> int:
    base = repo.merge_base(tip, onto)
    own = {tip, made_on, *(commit.id for commit in report.series)}
    # A branch that was merged and reverted shares its own commits with onto.
    if base is None or base in own or not repo.is_ancestor(made_on, base):
        return 0
    return repo.ahead_behind(base, made_on)[0]


def store_report(repo: Repository, report: Report) -> None:
    """Store a report with its branch's tip, instead of the one that is there."""
    with Quarantine(repo) as quarantine:
        by = repo.identity().at(int(time.time()))
        publish_with_note(
            repo,
            quarantine,
            [],
            commit=CommitId(report.tip),
            text=to_json(report).encode(),
            by=by,
            reason=f"porttool: report of {report.port}",
        )
