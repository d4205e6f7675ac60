"""The report as it is kept with its branch: a git note on the branch's tip."""

from __future__ import annotations

import dataclasses
import time

from porttool.errors import RepositoryError
from porttool.git.commits import CommitId
from porttool.git.publish import publish, read_note, write_note
from porttool.git.quarantine import Quarantine
from porttool.git.repo import Repository
from porttool.report import Commit, Report, from_json, to_json

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
                report, tip=tip, series=series, checks=(), verdict="unverified"
            )
        facts = repo.commit(commit)
        if not facts.parents:
            return None
        added.append(Commit(commit, facts.subject))
        commit = facts.parents[0]
    return None


def load_report(repo: Repository, branch: str, port: str) -> Report:
    """Return the report of a port's branch.

    Raises RepositoryError where there is no such branch, or no report came with it.
    """
    tip = repo.find(branch)
    if tip is None:
        raise RepositoryError(
            f"there is no branch `{branch}` yet", next=f"porttool apply {port} --onto main"
        )
    report = find_report(repo, tip, port)
    if report is None:
        raise RepositoryError(
            f"no report came with the branch `{branch}`",
            where=tip,
            why="porttool keeps it in refs/notes/porttool, which git does not fetch by itself",
            next="git fetch origin refs/notes/porttool:refs/notes/porttool, "
            f"or make the branch again: porttool apply {port} --replace",
        )
    return report


def store_report(repo: Repository, report: Report) -> None:
    """Store a report with its branch's tip, instead of the one that is there.

    Raises RefMoved when another process stored one at the same moment.
    """
    with Quarantine(repo) as quarantine:
        by = repo.identity().at(int(time.time()))
        note = write_note(repo, quarantine, CommitId(report.tip), to_json(report).encode(), by)
        publish(repo, quarantine, [note], reason=f"porttool: report of {report.port}")
