"""Whose commits a review branch holds: those that porttool made, and those that people put on top.

The notes tell: porttool leaves one on the last commit of each series, in one transaction with the
branch. Trailers tell nothing, for a commit that somebody amends or copies keeps them.
"""

from __future__ import annotations

import itertools
import json
import shlex
from collections.abc import Sequence

from porttool.errors import RepositoryError
from porttool.frozen import dataclass
from porttool.git.commits import BlobId, CommitFacts, CommitId
from porttool.git.publish import NOTES
from porttool.git.repo import Repository
from porttool.plan.plan import Plan
from porttool.report import counted

MAX_ADDED = 100


@dataclass(frozen=True)
class Made:
    """What porttool made of a branch, as far as any version of it can read its note.

    `tip` is the last commit that it made, on `onto_id`, a commit of `onto`. `noted` is the last
    commit with a note, `note` that note: `verify` leaves one on a person's commit too.
    """

    tip: CommitId
    onto: str
    onto_id: CommitId
    noted: CommitId
    note: bytes


def find_made(
    repo: Repository, tip: CommitId, port: str, *, notes_at: CommitId | None = None
) -> Made | None:
    """Return what porttool made of the branch with this tip, None where no note tells.

    A note that git has copied onto an amended commit speaks of another, and does not count. The
    notes are this repository's, or those of the commit `notes_at`.
    """
    notes = _notes(repo, notes_at or repo.ref(NOTES))
    if not notes:
        return None
    listing = repo.git.run("rev-list", "--first-parent", f"--max-count={MAX_ADDED}", tip, "--").out
    found: Made | None = None
    for id in map(CommitId, listing.decode().split()):
        if found is not None and id == found.onto_id:
            break
        if id not in notes:
            continue
        note = repo.blobs([notes[id]])[notes[id]]
        onto = _onto(note, id, port)
        if onto is not None:
            # The lowest counts: whatever is above it came later.
            noted, text = (found.noted, found.note) if found else (id, note)
            found = Made(id, *onto, noted, text)
    return found


def added_to(repo: Repository, made: Made, tip: CommitId) -> tuple[CommitFacts, ...]:
    """Return the commits that people have put on top of porttool's, oldest first."""
    listing = repo.git.run("rev-list", "--reverse", "--topo-order", f"{made.tip}..{tip}", "--").out
    return tuple(repo.commit(CommitId(id)) for id in listing.decode().split())


def merges(commits: Sequence[CommitFacts]) -> tuple[CommitFacts, ...]:
    """Return those of the commits that cannot be picked, for they have not one parent."""
    return tuple(commit for commit in commits if len(commit.parents) != 1)


def spare_name(repo: Repository, branch: str) -> str:
    """Return a free name for a branch that is to be set aside."""
    names = (f"{branch}-mine{number or ''}" for number in itertools.count())
    return next(name for name in names if repo.ref(f"refs/heads/{name}") is None)


def set_aside(repo: Repository, plan: Plan, onto: str) -> str:
    """Return the commands that keep a branch under another name and make the port's anew."""
    branch = plan.review_branch
    return (
        f"git branch -m {shlex.quote(branch)} {shlex.quote(spare_name(repo, branch))} && "
        f"porttool apply {shlex.quote(plan.name)} --onto {shlex.quote(onto)}"
    )


def picking(repo: Repository, plan: Plan, made: Made, onto: str) -> str:
    """Return the commands that set a branch aside and pick what is on top of it by hand."""
    branch = plan.review_branch
    mine = shlex.quote(f"{made.tip[:12]}..{spare_name(repo, branch)}")
    return (
        f"{set_aside(repo, plan, onto)} && git switch {shlex.quote(branch)} && "
        f"git cherry-pick {mine}"
    )


def nobody_knows(repo: Repository, plan: Plan, tip: CommitId, onto: str) -> RepositoryError:
    """Return the refusal to move a branch of which no note tells whose it is."""
    remotes = repo.remotes()
    fetch = f"git fetch {shlex.quote(remotes[0])} {NOTES}:{NOTES}, or " if remotes else ""
    return RepositoryError(
        f"nothing tells which commits of {plan.review_branch} are porttool's; nothing was changed",
        where=f"{tip[:12]} {repo.commit(tip).subject}",
        why="a commit of porttool's was amended or rebased, or the branch came without "
        f"{NOTES}: moving it could lose somebody's work",
        next=f"{fetch}{set_aside(repo, plan, onto)}, and pick your own commits onto it",
    )


def left_behind(
    repo: Repository,
    plan: Plan,
    made: Made,
    added: Sequence[CommitFacts],
    onto: str,
    *,
    keep: str,
) -> RepositoryError:
    """Return the refusal to leave people's commits behind; `keep` is the command that does not."""
    commits = counted(len(added), "commit")
    merged = merges(added)
    if merged:
        return RepositoryError(
            f"{plan.review_branch} holds a merge, which cannot be kept; nothing was changed",
            where=f"{merged[0].id[:12]} {merged[0].subject}",
            why="only commits with one parent can be picked onto the new branch",
            next=f"{set_aside(repo, plan, onto)}, and pick your own commits onto it",
        )
    return RepositoryError(
        f"{plan.review_branch} holds {commits} that porttool did not make; nothing was changed",
        where="; ".join(f"{commit.id[:12]} {commit.subject}" for commit in added),
        why="making the branch again would leave them behind",
        next=keep or picking(repo, plan, made, onto),
    )


def _notes(repo: Repository, at: CommitId | None) -> dict[CommitId, BlobId]:
    """Return the note of each commit that has one; git lays them out in folders by their ids."""
    if at is None:
        return {}
    files = repo.paths(at).items()
    return {CommitId(path.replace("/", "")): BlobId(entry.id) for path, entry in files}


def _onto(note: bytes, commit: CommitId, port: str) -> tuple[str, CommitId] | None:
    """Return what a note says the commit was made on; None where it is not about this one.

    These few names are all that a report of any version has in common.
    """
    try:
        data = json.loads(note)
    except ValueError:
        return None
    if not isinstance(data, dict) or (data.get("port"), data.get("tip")) != (port, commit):
        return None
    onto, onto_id = data.get("onto"), data.get("onto_id")
    return (onto, CommitId(onto_id)) if isinstance(onto, str) and isinstance(onto_id, str) else None
