"""Many commits picked onto many trees, in one process: which merge clean, and what does not.

`merge-tree --stdin` of git 2.39 takes two commits a line and finds the base itself. So the tree to
pick onto is put into a throw-away commit on top of the base, dated so late that git need not walk
any further to see that.
"""

from __future__ import annotations

import hashlib
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from porttool.errors import RepositoryError
from porttool.frozen import dataclass
from porttool.git.commits import CommitId, TreeId, commit_bytes
from porttool.git.merge import Conflict, MergeResult, exactly, parse_merge
from porttool.git.objects import Entry
from porttool.git.quarantine import Quarantine

_NOBODY = b"porttool <porttool> 4102444800 +0000"  # the year 2100
_COMMIT_IN_PACK = 1
_SIDE = re.compile(r"~[0-9a-f]{40,64}$")


@dataclass(frozen=True)
class Pick:
    """Everything that a history gained from `base` to `commit`, to be picked onto a tree.

    `base` is in the commit's history; where it is the parent, this is a cherry-pick.
    """

    base: CommitId
    commit: CommitId
    onto: TreeId


@dataclass(frozen=True)
class Picked:
    """What a pick gives: whether it changes the tree at all, and what git cannot merge."""

    changes: bool
    conflicts: tuple[Conflict, ...] = ()

    @property
    def clean(self) -> bool:
        """Tell whether nobody has to decide anything."""
        return not self.conflicts


def pick_many(
    quarantine: Quarantine, picks: Sequence[Pick], *, told: bool = True
) -> tuple[Picked, ...]:
    """Return what each pick gives; without `told`, conflicts are known by their paths alone.

    The attributes that hold are those that the quarantine uses at the time.
    """
    meeting = [at for at, pick in enumerate(picks) if not _apart(quarantine, pick)]
    found = [Picked(changes=True)] * len(picks)
    merged = _merge(quarantine, [picks[at] for at in meeting], told=told)
    for at, result in zip(meeting, merged, strict=True):
        found[at] = Picked(result.tree != picks[at].onto, result.conflicts)
    return tuple(found)


def deciding_entries(
    quarantine: Quarantine, pick: Pick, onto: TreeId
) -> tuple[Entry | None, ...] | None:
    """Return the entries of a tree on which alone it depends whether a pick onto it is clean.

    They are those of the files that it modifies. None where it does more than that or the tree
    lacks one of them: then renamed files and folders may count, and git has to look at all of it.
    """
    base = quarantine.tree_of(pick.base)
    changes = quarantine.changed(base, quarantine.tree_of(pick.commit))
    if any(change.status != "modified" for change in changes):
        return None
    found = tuple(quarantine.entry(onto, change.path) for change in changes)
    return found if found and None not in found else None


def _apart(quarantine: Quarantine, pick: Pick) -> bool:
    """Tell whether all that a pick modifies is in the tree as the base has it.

    Git would write whole trees to say so.
    """
    there = deciding_entries(quarantine, pick, pick.onto)
    return there is not None and there == deciding_entries(
        quarantine, pick, quarantine.tree_of(pick.base)
    )


def _merge(quarantine: Quarantine, picks: Sequence[Pick], *, told: bool) -> tuple[MergeResult, ...]:
    if not picks:
        return ()
    tops = _on_top(quarantine, picks)
    lines = [f"{top} {pick.commit}\n".encode() for top, pick in zip(tops, picks, strict=True)]
    options = ("--messages",) if told else ("--no-messages",)
    done = quarantine.git.run(
        # What is written here is read once, if at all.
        *("-c", "core.looseCompression=0", "-c", "merge.conflictStyle=merge"),
        *("merge-tree", "--write-tree", "--stdin", *options),
        input=b"".join(lines),
        ok=(0, 129),
    )
    if done.status == 129:
        raise RepositoryError(
            "this git cannot merge many trees at once",
            why=done.words,
            next="install git 2.39 or newer",
        )
    fields = iter(done.out.split(b"\0"))
    return tuple(_next(quarantine, fields, told=told) for _ in picks)


def _next(quarantine: Quarantine, fields: Iterator[bytes], *, told: bool) -> MergeResult:
    clean = next(fields, b"")
    if clean not in (b"0", b"1"):
        raise RepositoryError(
            "git merge-tree answered less than it was asked",
            why=f"where a merge should begin, it said {clean[:80]!r}",
            next="git --version; porttool is tested with git 2.39",
        )
    merged = parse_merge(fields, conflicted=clean == b"0", with_messages=told)
    return _without_ids(exactly(quarantine, merged)) if told else merged


def _without_ids(merged: MergeResult) -> MergeResult:
    """Return the result with paths as they are in the trees.

    Where a file and a folder meet, git adds to the file's name the side that it is of, and no side
    has a name here.
    """
    conflicts = tuple(
        replace(clash, paths=tuple(dict.fromkeys(_SIDE.sub("", path) for path in clash.paths)))
        for clash in merged.conflicts
    )
    return replace(merged, conflicts=conflicts)


def _on_top(quarantine: Quarantine, picks: Sequence[Pick]) -> list[CommitId]:
    """Write a commit for each pick, with the tree to pick onto on top of the base.

    All of them as one pack: a file for each took longer than the merges.
    """
    found: dict[CommitId, bytes] = {}
    ids = []
    for pick in picks:
        data = commit_bytes(
            pick.onto, [pick.base], author=_NOBODY, committer=_NOBODY, message=b"merge\n"
        )
        head = f"commit {len(data)}\0".encode()
        ids.append(CommitId(hashlib.new(quarantine.object_format, head + data).hexdigest()))
        found[ids[-1]] = data
    pack = b"PACK" + struct.pack(">LL", 2, len(found)) + b"".join(map(_packed, found.values()))
    pack += hashlib.new(quarantine.object_format, pack).digest()
    quarantine.git.run("index-pack", "--stdin", input=pack)
    return ids


def _packed(commit: bytes) -> bytes:
    """Return a commit as an entry of a pack: its kind and its length, seven bits a byte."""
    size = len(commit)
    head = [_COMMIT_IN_PACK << 4 | size & 15]
    size >>= 4
    while size:
        head[-1] |= 128
        head.append(size & 127)
        size >>= 7
    return bytes(head) + zlib.compress(commit, 1)
