"""The report as it is kept with its branch: a git note on the branch's tip."""

from __future__ import annotations

import dataclasses
import itertools
import shlex
import time

from porttool.errors import RepositoryError
from porttool.git.commits import PORT, CommitId, trailers
from porttool.git.publish import NOTES, publish_with_note, read_note
from porttool.git.quarantine import Quarantine
from porttool.git.repo import Repository
from porttool.plan.plan import Plan
from porttool.report import Commit, Report, Standing, from_json, remake_command, to_json

MAX_ADDED = 100


def find_report(repo: Repository, tip: CommitId, port: str) -> Report | None:
    """Return the report stored for a commit or for one that it was built on, brought up to date.

    A person may have added commits to the branch: then the report's tip and series are extended by
    them, and its checks and verdict, which speak of the older tip, are dropped.
    """
    added: list[Commit] = []
    commit = tip
    for _ in range(MAX_ADDED):
        note = read_note(repo, commit)
        if note is not None:
            report = from_json(note)
            if report.port != port:
                return None
            if not added:
                return report
            series = (*report.series, *reversed(added))
            return dataclasses.replace(
                report,
                tip=tip,
                series=series,
                checks=(),
                evidence=None,
                verdict="unverified",
                basis=None,
            )
        facts = repo.commit(commit)
        if not facts.parents:
            return None
        added.append(Commit(commit, facts.subject))
        commit = facts.parents[0]
    return None


def reported_tip(repo: Repository, tip: CommitId) -> CommitId | None:
    """Return the commit that `find_report` finds the report at: the last that porttool made."""
    commit = tip
    for _ in range(MAX_ADDED):
        if read_note(repo, commit) is not None:
            return commit
        parents = repo.commit(commit).parents
        if not parents:
            return None
        commit = parents[0]
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
        again = remake_command(port, branch, plan.onto, unreported(repo, plan, tip))
        remotes = repo.git.run("remote").out.decode("utf-8", "surrogateescape").split()
        remote = "origin" if "origin" in remotes else next(iter(remotes), "")
        fetch = f"git fetch {shlex.quote(remote)} {NOTES}:{NOTES}, or make the branch again: "
        raise RepositoryError(
            f"no report came with the branch `{branch}`",
            where=tip,
            why=f"porttool keeps it in {NOTES}, which git does not fetch by itself",
            next=(fetch if remote else "") + again,
        )
    return report


def standing_of(repo: Repository, plan: Plan, report: Report) -> Standing:
    """Return how the branch of a stored report stands to its plan and its onto now.

    An onto that is not there any more has gained nothing.
    """
    tip, made_on = CommitId(report.tip), CommitId(report.onto_id)
    standing = Standing(
        edited=_edited(repo, report.port, made_on, tip),
        outdated=report.digest != plan.digest,
        elsewhere=report.onto != plan.onto,
        spare=_spare_name(repo, report.branch),
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


def unreported(repo: Repository, plan: Plan, tip: CommitId) -> Standing:
    """Return what is known of a branch that no report came with: whose commits it holds."""
    edited = _edited(repo, plan.name, repo.find(plan.onto), tip)
    return Standing(edited=edited, spare=_spare_name(repo, plan.review_branch))


def _taken_in(
    repo: Repository, report: Report, made_on: CommitId, tip: CommitId, onto: CommitId
) -> int:
    base = repo.merge_base(tip, onto)
    own = {tip, made_on, *(commit.id for commit in report.series)}
    # A branch that was merged and reverted shares its own commits with onto.
    if base is None or base in own or not repo.is_ancestor(made_on, base):
        return 0
    return repo.ahead_behind(base, made_on)[0]


def _edited(repo: Repository, port: str, below: CommitId | None, tip: CommitId) -> bool:
    """Tell whether a commit of the branch is not porttool's: those carry the port's name."""
    options = [f"^{below}"] if below else []
    listing = repo.git.run("rev-list", tip, *options, "--").out.decode().split()
    return any((PORT, port) not in trailers(repo.commit(CommitId(id)).message) for id in listing)


def _spare_name(repo: Repository, branch: str) -> str:
    names = (f"{branch}-mine{number or ''}" for number in itertools.count())
    return next(name for name in names if repo.ref(f"refs/heads/{name}") is None)


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
