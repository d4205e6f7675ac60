"""The only step that anybody can see: objects into the user's store, then references, all or none.

The report of a port lies beside it as a git note, in the same transaction as the branch.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from porttool.errors import PortError, RepositoryError
from porttool.frozen import dataclass
from porttool.git.commits import BlobId, CommitId, Signature
from porttool.git.paths import unsafe_ref
from porttool.git.quarantine import Quarantine
from porttool.git.repo import Repository
from porttool.interruption import uninterrupted

NOTES = "refs/notes/porttool"

_TRIES = 20  # of ports that are published at once, one gets through at each


class RefMoved(RepositoryError):
    """A reference is not what it was when the work began; nothing was changed."""

    def __init__(self, ref: str, expected: CommitId | None, seen: CommitId | None) -> None:
        self.ref = ref
        self.expected = expected
        self.seen = seen
        super().__init__(
            f"{ref} changed while porttool worked, so nothing was published",
            where=ref,
            why=f"expected {expected or 'no such reference'}, found {seen or 'no such reference'}",
            next="run the same command again",
        )


class RefCheckedOut(RepositoryError):
    """A branch to be moved is checked out somewhere, whose files would seem changed."""

    def __init__(self, ref: str, folder: str) -> None:
        self.ref = ref
        self.folder = folder
        at, branch = shlex.quote(folder), shlex.quote(ref.removeprefix("refs/heads/"))
        gone = not os.path.isdir(folder)
        super().__init__(
            f"{ref} is checked out, so it is not moved",
            where=folder,
            why="that working tree is gone, and git still counts it"
            if gone
            else "its working tree would look as if you had undone the new commits",
            next="git worktree prune, then the same command again"
            if gone
            else f"git -C {at} switch --detach, then the same command again; and back with: "
            f"git -C {at} switch {branch}",
        )


@dataclass(frozen=True)
class RefUpdate:
    """A reference from one commit to another.

    `old` None: it must not be there. `new` equal to `old`: it is not written, and must still be so
    when the others are.
    """

    ref: str
    old: CommitId | None
    new: CommitId


def publish(
    repo: Repository, quarantine: Quarantine, updates: Sequence[RefUpdate], *, reason: str
) -> None:
    """Copy what the new commits need and the user lacks, then set all references at once.

    `reason` goes into the reference logs. Raises RefMoved when a reference is not as expected, and
    RefCheckedOut for a branch in use; then no reference has changed, and at most objects that
    nothing refers to were added.
    """
    for update in updates:
        problem = unsafe_ref(update.ref)
        if problem is not None or not update.ref.startswith("refs/"):
            raise RepositoryError(
                f"`{update.ref}` cannot be a reference: {problem or 'it is outside of refs/'}"
            )
    moving = [update for update in updates if update.old != update.new]
    in_use = {branch.ref: branch.checked_out for branch in repo.branches() if branch.checked_out}
    for update in moving:
        if update.ref in in_use:
            raise RefCheckedOut(update.ref, str(in_use[update.ref]))
    _check(repo, updates)
    packed = _pack(repo, quarantine, [update.new for update in moving])
    # Git, ended at once in the middle of this, would leave its locks behind.
    with uninterrupted():
        _unpack(repo, packed)
        # Not as a `verify` in the transaction: for the branch that HEAD is on, git 2.39 would note
        # in HEAD's log that it was deleted.
        _check(repo, updates)
        _set_references(repo, moving, reason)


def publish_with_note(
    repo: Repository,
    quarantine: Quarantine,
    updates: Sequence[RefUpdate],
    *,
    commit: CommitId,
    text: bytes,
    by: Signature,
    reason: str,
) -> None:
    """Publish updates together with a note for a commit.

    All ports share one reference for their notes. When another port's note came in between, this
    one is written anew on top of it; every other reference that moved raises RefMoved, as in
    `publish`.
    """
    for _ in range(_TRIES):
        note = write_note(repo, quarantine, commit, text, by)
        try:
            return publish(repo, quarantine, [*updates, note], reason=reason)
        except RefMoved as moved:
            if moved.ref != NOTES:
                raise
            last = moved
    raise last


def write_note(
    repo: Repository, quarantine: Quarantine, commit: CommitId, text: bytes, by: Signature
) -> RefUpdate:
    """Write a note for a commit and return the update that publishes it with the branch.

    A note that the commit already has is replaced; the notes of other commits stay.
    """
    old = repo.ref(NOTES)
    note_ref = quarantine.path / NOTES
    if old is not None:
        note_ref.parent.mkdir(parents=True, exist_ok=True)
        note_ref.write_text(f"{old}\n")
    else:
        note_ref.unlink(missing_ok=True)  # of a try before this one
    moment = f"@{max(0, by.seconds)} {by.offset}"  # without the @ git reads small numbers as dates
    quarantine.git.run(
        *("notes", f"--ref={NOTES}", "add", "--force", "--allow-empty"),
        *("-C", quarantine.write_blob(text), commit),
        variables=committing(by.name, by.email, moment),
    )
    return RefUpdate(NOTES, old, CommitId(note_ref.read_text().strip()))


def read_note(repo: Repository, commit: CommitId) -> bytes | None:
    """Return the note that porttool stored for a commit, or None."""
    if repo.ref(NOTES) is None:
        return None
    done = repo.git.run("notes", f"--ref={NOTES}", "list", commit, ok=(0, 1))
    if done.status:
        return None
    id = BlobId(done.out.decode().strip())
    return repo.blobs([id])[id]


def _check(repo: Repository, updates: Sequence[RefUpdate]) -> None:
    for update in updates:
        seen = repo.ref(update.ref)
        if seen != update.old:
            raise RefMoved(update.ref, update.old, seen)


def _pack(repo: Repository, quarantine: Quarantine, tips: Sequence[CommitId]) -> bytes:
    wanted: set[CommitId] = set()
    present: set[CommitId] = set()
    waiting = list(tips)
    while waiting:
        id = waiting.pop()
        if id in wanted or id in present:
            continue
        if not quarantine.wrote(id) and repo.holds(id):
            present.add(id)
            continue
        wanted.add(id)
        waiting += quarantine.commit(id).parents
    if not wanted:
        return b""
    lines = [*sorted(wanted), *(f"^{id}" for id in sorted(present))]
    # Not made small: it is unpacked at once.
    return quarantine.git.run(
        *("pack-objects", "--revs", "--stdout", "--quiet", "--window=0", "--compression=0"),
        input="".join(f"{line}\n" for line in lines).encode(),
    ).out


def _unpack(repo: Repository, packed: bytes) -> None:
    if not packed:
        return
    try:
        repo.git.run("unpack-objects", "-q", input=packed, apart=True)
    except RepositoryError as error:
        folder = shlex.quote(str(repo.object_folder))
        raise RepositoryError(
            "the repository's object store cannot be written, so nothing was published",
            where=str(repo.object_folder),
            why=error.why,
            next="see who may write there, and whether it is full: "
            f"ls -ld {folder}; df -h {folder}",
        ) from error


def _set_references(repo: Repository, updates: Sequence[RefUpdate], reason: str) -> None:
    # `start` and `commit` by name: a git that hears no more, because this process was killed, must
    # not take what it has heard so far for the whole.
    parts = ["start"]
    for update in updates:
        if update.old is None:
            parts += [f"create {update.ref}", update.new]
        else:
            parts += [f"update {update.ref}", update.new, update.old]
    try:
        repo.git.run(
            *("update-ref", "--stdin", "-z", "-m", " ".join(reason.split())),
            input="".join(f"{part}\0" for part in [*parts, "commit"]).encode(
                "utf-8", "surrogateescape"
            ),
            apart=True,
        )
    except PortError as error:
        _check(repo, updates)
        raise refused_references(
            [update.ref for update in updates], error.why or "", repo.git_dir
        ) from error


def refused_references(refs: Sequence[str], words: str, git_dir: Path) -> RepositoryError:
    """Return what to say when git, in these words, did not set references."""
    lock = re.search(r"Unable to create '(?P<path>[^']+\.lock)': File exists", words)
    taken = re.search(r"'(?P<ref>refs/[^']+)' exists; cannot create", words)
    what = "git refused to set the references, so nothing was published"
    next = f"see whether the repository is sound: git --git-dir={shlex.quote(str(git_dir))} fsck"
    if lock is not None:
        what = "a reference is locked, so nothing was published"
        next = f"when no other git runs here, remove the lock: rm {shlex.quote(lock['path'])}"
    elif taken is not None and taken["ref"].startswith("refs/heads/"):
        branch = shlex.quote(taken["ref"].removeprefix("refs/heads/"))
        next = f"rename the branch that is in the way: git branch -m {branch} NEW-NAME"
    elif re.search(r"Permission denied|Read-only file system|Operation not permitted", words):
        what = "the repository's references cannot be written, so nothing was published"
        folder = shlex.quote(str(git_dir / "refs"))
        next = f"see who may write there: ls -ldR {folder}"
    # Behind this git has advice of its own, of several lines.
    why = words.partition(".; Another git process")[0] or "git gave no reason"
    return RepositoryError(what, where=", ".join(refs), why=why, next=next)


def committing(name: str, email: str, moment: str) -> dict[str, str]:
    """Return the variables by which git writes a commit in somebody's name at a moment."""
    return {
        f"GIT_{role}_{part}": value
        for role in ("AUTHOR", "COMMITTER")
        for part, value in (("NAME", name), ("EMAIL", email), ("DATE", moment))
    }
