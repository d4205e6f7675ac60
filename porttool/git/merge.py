"""Three trees in, one tree out, and what a person has to decide, typed; nothing is checked out.

`git merge-tree` of git 2.38 and later takes commits and finds the base itself, so the three trees
are put into throw-away commits of which one is the parent of both others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal

from porttool.errors import RepositoryError
from porttool.frozen import dataclass
from porttool.git.commits import BlobId, CommitId, TreeId
from porttool.git.objects import SUBMODULE, Entry
from porttool.git.paths import unsafe_path
from porttool.git.quarantine import Quarantine

Kind = Literal[
    "content",
    "binary",
    "add/add",
    "modify/delete",
    "rename/rename",
    "rename/delete",
    "rename collision",
    "directory rename",
    "file/directory",
    "mode",
    "submodule",
    "LFS pointer",
    "other",
]
_KINDS: Mapping[str, Kind] = {
    "contents": "content",
    "binary": "binary",
    "modify/delete": "modify/delete",
    "rename/rename": "rename/rename",
    "rename/delete": "rename/delete",
    "rename involved in collision": "rename collision",
    "file/directory": "file/directory",
    "distinct modes": "mode",
    "distinct types": "mode",
}
_NOBODY = b"porttool <porttool> 0 +0000"
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"

Style = Literal["merge", "zdiff3"]


@dataclass(frozen=True)
class Stage:
    """One side's version of a path in conflict: 1 is the base, 2 ours, 3 theirs."""

    number: int
    mode: str
    id: BlobId


@dataclass(frozen=True)
class Conflict:
    """What git could not merge: the kind, the paths that it is about, and git's sentence."""

    kind: Kind
    paths: tuple[str, ...]
    message: str


@dataclass(frozen=True)
class MergeResult:
    """A merged tree, in which conflicts stand between markers, and the conflicts.

    `stages` has the sides of every path in conflict; `messages` what else git had to say, such as a
    renamed folder that new files were moved into.
    """

    tree: TreeId
    conflicts: tuple[Conflict, ...]
    stages: Mapping[str, tuple[Stage, ...]]
    messages: tuple[str, ...]

    @property
    def clean(self) -> bool:
        """Tell whether nobody has to decide anything."""
        return not self.conflicts


def merge_trees(
    quarantine: Quarantine,
    *,
    base: TreeId,
    ours: TreeId,
    theirs: TreeId,
    labels: tuple[str, str] = ("onto", "experiment"),
    style: Style = "merge",
) -> MergeResult:
    """Return what `git cherry-pick` would make of applying base..theirs to ours.

    `labels` name the sides in conflict markers. The attributes that hold are those of ours; a merge
    driver that they name is not run, and the file is merged as text.
    """
    if ours in (base, theirs) or base == theirs:
        return MergeResult(theirs if ours == base else ours, (), {}, ())
    quarantine.use_attributes(ours)
    root = _commit(quarantine, base)
    sides = [_commit(quarantine, tree, root) for tree in (ours, theirs)]
    quarantine.name_commits(dict(zip(labels, sides, strict=True)))
    done = quarantine.git.run(
        *("-c", f"merge.conflictStyle={style}", "merge-tree", "--write-tree", "-z", *labels),
        ok=(0, 1, 129),
    )
    if done.status == 129:
        raise RepositoryError(
            "this git cannot merge trees", why=done.words, next="install git 2.38 or newer"
        )
    merged = parse_merge(iter(done.out.split(b"\0")), conflicted=done.status == 1)
    return exactly(quarantine, merged)


def replace_entries(
    quarantine: Quarantine, tree: TreeId, entries: Mapping[str, Entry | None]
) -> TreeId:
    """Return a tree with whole entries put at paths, links and submodules too; None removes one.

    Raises RepositoryError for a path that leaves the repository or reaches into .git.
    """
    lines = []
    for path, entry in sorted(entries.items(), key=lambda item: item[1] is not None):
        reason = unsafe_path(path)
        if reason is not None:
            raise RepositoryError(f"`{path}` cannot be written: {reason}")
        facts = f"{entry.mode} {entry.id}" if entry else f"0 {'0' * len(tree)}"
        lines.append(f"{facts}\t{path}".encode("utf-8", "surrogateescape") + b"\0")
    variables = {"GIT_INDEX_FILE": str(quarantine.path / "index")}
    quarantine.git.run("read-tree", tree, variables=variables)
    quarantine.git.run(
        "update-index", "-z", "--index-info", input=b"".join(lines), variables=variables
    )
    return TreeId(quarantine.git.run("write-tree", variables=variables).out.decode().strip())


def exactly(quarantine: Quarantine, merged: MergeResult) -> MergeResult:
    """Return the result with the kinds of its conflicts that only the files themselves tell."""
    conflicts = tuple(_exactly(quarantine, merged, conflict) for conflict in merged.conflicts)
    return replace(merged, conflicts=conflicts)


def _exactly(quarantine: Quarantine, merged: MergeResult, conflict: Conflict) -> Conflict:
    """Tell a file that git-lfs keeps elsewhere from text: markers in its pointer help nobody."""
    if conflict.kind not in ("content", "add/add"):
        return conflict
    sides = [side for path in conflict.paths for side in merged.stages.get(path, ())]
    contents = quarantine.blobs(side.id for side in sides if side.mode != SUBMODULE)
    if any(data.startswith(_LFS_POINTER) for data in contents.values()):
        return replace(conflict, kind="LFS pointer")
    return conflict


def _commit(quarantine: Quarantine, tree: TreeId, *parents: CommitId) -> CommitId:
    return quarantine.write_commit(
        tree, parents, author=_NOBODY, committer=_NOBODY, message=b"merge\n"
    )


def parse_merge(
    fields: Iterator[bytes], *, conflicted: bool, with_messages: bool = True
) -> MergeResult:
    """Take one merge off the fields that `merge-tree -z` printed."""
    tree = next(fields)
    stages: dict[str, list[Stage]] = {}
    for record in fields:
        facts, tab, path = record.partition(b"\t")
        if not tab:
            break  # the empty field between stages and messages
        mode, id, number = facts.decode().split(" ")
        stages.setdefault(_name(path), []).append(Stage(int(number), mode, BlobId(id)))
    conflicts: list[Conflict] = []
    messages: list[str] = []
    while with_messages:
        count = next(fields, b"")
        if not count.isdigit():
            break  # git 2.39 prints advice about submodules here, outside of any record
        paths = tuple(_name(next(fields, b"")) for _ in range(int(count)))
        kind, message = _name(next(fields, b"")), _name(next(fields, b"")).strip()
        if kind.startswith("CONFLICT"):
            _add(conflicts, Conflict(_kind(kind, paths, stages), paths, message))
        else:
            messages.append(message)
    if conflicted:
        told = {path for conflict in conflicts for path in conflict.paths}
        for name, sides in stages.items():
            if name not in told:
                conflicts.append(Conflict(_kind_of_sides(sides), (name,), f"{name}: not merged"))
    return MergeResult(
        TreeId(tree.decode()),
        tuple(conflicts),
        {path: tuple(sides) for path, sides in stages.items()},
        tuple(messages),
    )


def _add(conflicts: list[Conflict], new: Conflict) -> None:
    """Add a conflict, or its sentence to the one that git has already named more exactly."""
    for at, old in enumerate(conflicts):
        if old.paths == new.paths and new.kind in (old.kind, "content"):
            message = f"{old.message}; {new.message}"
            conflicts[at] = Conflict(old.kind, old.paths, message)
            return
    conflicts.append(new)


def _kind(label: str, paths: tuple[str, ...], stages: Mapping[str, list[Stage]]) -> Kind:
    inside = label.partition("(")[2].rstrip(")").split(")")[0]
    sides = [side for path in paths for side in stages.get(path, [])]
    if "submodule" in inside or any(side.mode == SUBMODULE for side in sides):
        return "submodule"
    if "directory rename" in inside:
        return "directory rename"
    if inside in ("contents", "binary") and sides:
        exact = _kind_of_sides(sides)
        if exact == "mode" or (exact == "add/add" and inside == "contents"):
            return exact
    return _KINDS.get(inside, "other")


def _kind_of_sides(sides: list[Stage]) -> Kind:
    numbers = {side.number for side in sides}
    if any(side.mode == SUBMODULE for side in sides):
        return "submodule"
    changed = [side for side in sides if side.number != 1]
    if len(changed) == 2 and changed[0].id == changed[1].id and changed[0].mode != changed[1].mode:
        return "mode"
    if numbers == {2, 3}:
        return "add/add"
    return "modify/delete" if numbers in ({1, 2}, {1, 3}) else "content"


def _name(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
