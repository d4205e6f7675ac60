"""The files that a report speaks of, as they were and as they became, where they can be read.

A report says what was decided and why; the lines around a place are read from the repository. Where
it does not have them, the report is shown without.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from porttool.errors import RepositoryError
from porttool.frozen import dataclass
from porttool.git.commits import CommitId
from porttool.git.repo import Repository
from porttool.report import Report

MAX_BYTES = 1 << 20


@dataclass(frozen=True)
class Sides:
    """A file's lines before and after, empty where it is not there."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sources:
    """Files by path: what the experiment made of its parent, and the branch of onto.

    `changed` are all paths that differ between onto and the branch, text or not.
    """

    experiment: Mapping[str, Sides]
    branch: Mapping[str, Sides]
    changed: tuple[str, ...] = ()


NO_SOURCES = Sources({}, {})


def read_sources(repo: Repository, report: Report) -> Sources:
    """Read the files that a report names, and those that the branch changes, as far as they are."""
    theirs = {entry.path for entry in report.ledger}
    ours = {site.path for site in report.sites}
    ours |= {step.path for site in report.sites for step in site.steps}
    ours |= {seed.path for seed in report.seeds}
    ours |= {path for entry in report.ledger for path in (entry.path, entry.path_now)}
    onto, tip = CommitId(report.onto_id), CommitId(report.tip)
    changed = _changed(repo, onto, tip)
    return Sources(
        _sides(repo, _parent(repo, report), _last(report), theirs),
        _sides(repo, onto, tip, {*ours, *changed} - {""}),
        changed,
    )


def _changed(repo: Repository, onto: CommitId, tip: CommitId) -> tuple[str, ...]:
    if not (repo.has(onto) and repo.has(tip)):
        return ()
    try:
        return tuple(change.path for change in repo.changed(onto, tip))
    except RepositoryError:
        return ()  # a partial clone may be without these folders


def _last(report: Report) -> CommitId:
    return CommitId(report.experiment[-1].id if report.experiment else "")


def _parent(repo: Repository, report: Report) -> CommitId | None:
    """Return what the experiment was made on; None where its commits are not one chain."""
    parent: CommitId | None = None
    for number, commit in enumerate(report.experiment):
        id = CommitId(commit.id)
        parents = repo.commit(id).parents if repo.has(id) else ()
        if not parents or (number and parents[0] != report.experiment[number - 1].id):
            return None
        parent = parent or parents[0]
    return parent


def _sides(
    repo: Repository, before: CommitId | None, after: CommitId, paths: Iterable[str]
) -> dict[str, Sides]:
    wanted = sorted(paths)
    old = _lines(repo, before, wanted) if before else {}
    new = _lines(repo, after, wanted) if after else {}
    return {
        path: Sides(old.get(path, ()), new.get(path, ()))
        for path in wanted
        if path in old or path in new
    }


def _lines(repo: Repository, commit: CommitId, paths: Iterable[str]) -> dict[str, tuple[str, ...]]:
    if not repo.has(commit):
        return {}
    try:
        found = repo.read_many(commit, paths)
    except RepositoryError:
        return {}  # a partial clone may be without these files
    return {path: _split(data) for path, data in found.items() if _is_text(data)}


def _is_text(data: bytes) -> bool:
    return len(data) <= MAX_BYTES and b"\0" not in data


def _split(data: bytes) -> tuple[str, ...]:
    text = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    return tuple(line.removesuffix("\r") for line in text.removesuffix("\n").split("\n"))
