"""Reading of git objects, many in one process: commits, trees, files, and what differs in trees.

One `git cat-file --batch` answers every request. Commits and trees are kept: they never change.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from porttool.errors import RepositoryError
from porttool.frozen import dataclass
from porttool.git.commits import BlobId, CommitFacts, CommitId, TreeId, parse_commit
from porttool.git.plumbing import Git

FILE = "100644"
EXECUTABLE = "100755"
SYMLINK = "120000"
SUBMODULE = "160000"
FOLDER = "40000"

Status = Literal["added", "deleted", "modified"]

# Requests in flight at once: the pipe to git holds 64 KiB, and a request has at most 65 bytes.
_IN_FLIGHT = 500


@dataclass(frozen=True)
class Entry:
    """What a tree says of one name: its mode (FILE, EXECUTABLE, ...) and the id of its object."""

    mode: str
    id: str

    @property
    def is_file(self) -> bool:
        """Tell a file, executable or not, from links, folders and submodules."""
        return self.mode.startswith("100")


@dataclass(frozen=True)
class Change:
    """One path that differs between two trees; a rename is a deletion and an addition.

    The modes are None where the path is not there. What becomes a link is modified.
    """

    status: Status
    path: str
    mode_before: str | None
    mode: str | None


class Objects:
    """Reads from one object store until closed: the user's repository, or a quarantine."""

    def __init__(self, git: Git) -> None:
        self.git = git
        self._process: subprocess.Popen[bytes] | None = None
        self._commits: dict[CommitId, CommitFacts] = {}
        self._trees: dict[str, dict[str, Entry]] = {}
        self._changes: dict[tuple[TreeId, TreeId], tuple[Change, ...]] = {}
        self._paths: dict[TreeId, dict[str, Entry]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the reading process; a later read starts another one."""
        if self._process is not None:
            process, self._process = self._process, None
            process.communicate()

    def commit(self, id: CommitId) -> CommitFacts:
        """Return a commit's parts; raises RepositoryError where it is not in the store."""
        if id not in self._commits:
            self._commits[id] = parse_commit(id, self._required(id, b"commit"))
        return self._commits[id]

    def commits(self, ids: Iterable[CommitId]) -> dict[CommitId, CommitFacts]:
        """Return the parts of many commits, asked for together."""
        wanted = list(dict.fromkeys(ids))
        for id, answer in self._ask(id for id in wanted if id not in self._commits):
            if answer is None or answer[0] != b"commit":
                raise _missing(id, "commit")
            self._commits[CommitId(id)] = parse_commit(CommitId(id), answer[1])
        return {id: self._commits[id] for id in wanted}

    def holds(self, id: CommitId) -> bool:
        """Tell whether a commit is in the store, its history apart."""
        return self._find(f"{id}^{{commit}}") is not None

    def has(self, id: CommitId) -> bool:
        """Tell whether a commit and its parents are here."""
        found = self._find(f"{id}^{{commit}}")
        return found is not None and all(
            self._find(f"{parent}^{{commit}}") is not None
            for parent in self.commit(CommitId(found[0])).parents
        )

    def tree_of(self, treeish: CommitId | TreeId) -> TreeId:
        """Return a commit's tree, or the tree itself."""
        if treeish in self._trees:
            return TreeId(treeish)
        if treeish in self._commits:
            return self._commits[CommitId(treeish)].tree
        kind, data = self._any(treeish)
        if kind == b"tree":
            self._trees[treeish] = parse_tree(data, len(treeish) // 2)
            return TreeId(treeish)
        return self.commit(CommitId(treeish)).tree

    def folder(self, id: str) -> Mapping[str, Entry]:
        """Return what one tree object holds, by name."""
        if id not in self._trees:
            self._trees[id] = parse_tree(self._required(id, b"tree"), len(id) // 2)
        return self._trees[id]

    def entry(self, treeish: CommitId | TreeId, path: str) -> Entry | None:
        """Return what lies at a path, or None."""
        entry = Entry(FOLDER, self.tree_of(treeish))
        for part in path.split("/"):
            if entry.mode != FOLDER:
                return None
            found = self.folder(entry.id).get(part)
            if found is None:
                return None
            entry = found
        return entry

    def read(self, treeish: CommitId | TreeId, path: str) -> bytes | None:
        """Return a file's bytes (a link's target), or None where no file is."""
        return self.read_many(treeish, [path]).get(path)

    def read_many(self, treeish: CommitId | TreeId, paths: Iterable[str]) -> dict[str, bytes]:
        """Return the bytes of those paths that are files or links."""
        wanted = {}
        for path in paths:
            entry = self.entry(treeish, path)
            if entry is not None and entry.mode not in (FOLDER, SUBMODULE):
                wanted[path] = entry.id
        blobs = self.blobs(wanted.values())
        return {path: blobs[BlobId(id)] for path, id in wanted.items()}

    def blobs(self, ids: Iterable[str]) -> dict[BlobId, bytes]:
        """Return the contents of blobs; raises RepositoryError for one that is not there."""
        found = {}
        for id, answer in self._ask(dict.fromkeys(ids)):
            if answer is None or answer[0] != b"blob":
                raise _missing(id, "blob")
            found[BlobId(id)] = answer[1]
        return found

    def paths(self, treeish: CommitId | TreeId) -> Mapping[str, Entry]:
        """Return every path under a tree except folders: files, links and submodules."""
        tree = self.tree_of(treeish)
        if tree not in self._paths:
            self._paths[tree] = self._list(tree)
        return self._paths[tree]

    def _list(self, tree: TreeId) -> dict[str, Entry]:
        found: dict[str, Entry] = {}
        level = [("", str(tree))]
        while level:
            # A level at a time: git answers for all of its folders together.
            self._fetch(id for _, id in level)
            below = []
            for folder, id in level:
                for name, entry in self._trees[id].items():
                    if entry.mode == FOLDER:
                        below.append((f"{folder}{name}/", entry.id))
                    else:
                        found[f"{folder}{name}"] = entry
            level = below
        return dict(sorted(found.items()))

    def _fetch(self, ids: Iterable[str]) -> None:
        """Read trees that are not known yet."""
        unknown = dict.fromkeys(id for id in ids if id not in self._trees)
        for id, answer in self._ask(unknown):
            if answer is None or answer[0] != b"tree":
                raise _missing(id, "tree")
            self._trees[id] = parse_tree(answer[1], len(id) // 2)

    def changed(self, before: CommitId | TreeId, after: CommitId | TreeId) -> tuple[Change, ...]:
        """Return the paths that differ, sorted."""
        sides = self.tree_of(before), self.tree_of(after)
        if sides not in self._changes:
            found = self._differing(*sides)
            self._changes[sides] = tuple(sorted(found, key=lambda change: change.path))
        return self._changes[sides]

    def read_ahead(self, pairs: Iterable[tuple[TreeId, TreeId]]) -> None:
        """Read together all folders that `changed` is going to ask for, pair by pair."""
        level: set[tuple[str, ...]] = {pair for pair in pairs if pair not in self._changes}
        while level:
            self._fetch(id for pair in level for id in pair)
            below: set[tuple[str, ...]] = set()
            for pair in level:
                sides = [self._trees[id] for id in pair]
                for name in set().union(*sides):
                    entries = [side.get(name) for side in sides]
                    folders = [e.id for e in entries if e is not None and e.mode == FOLDER]
                    if folders and entries.count(entries[0]) < len(pair):
                        below.add(tuple(folders))
            level = {pair for pair in below if len(pair) > 1 or pair[0] not in self._trees}

    def _differing(self, old: TreeId, new: TreeId) -> Iterator[Change]:
        todo: list[tuple[str, str | None, str | None]] = [("", old, new)]
        while todo:
            folder, *ids = todo.pop()
            before, after = (self.folder(id) if id else {} for id in ids)
            for name in {**before, **after}:
                sides = before.get(name), after.get(name)
                if sides[0] == sides[1]:
                    continue
                path = f"{folder}{name}"
                mine, its = (s.id if s and s.mode == FOLDER else None for s in sides)
                if mine or its:
                    todo.append((f"{path}/", mine, its))
                left, right = (None if side and side.mode == FOLDER else side for side in sides)
                modes = _mode(left), _mode(right)
                if left is None or right is None:
                    if left is not right:
                        yield Change("deleted" if left else "added", path, *modes)
                elif left.id != right.id or modes[0] != modes[1]:
                    yield Change("modified", path, *modes)

    def grep(
        self, treeish: CommitId | TreeId, words: Iterable[str], pattern: str = "*.py"
    ) -> tuple[str, ...]:
        """Return the paths that match a pathspec and hold any of the literal words, sorted."""
        options = [option for word in sorted(set(words)) for option in ("-e", word)]
        if not options:
            return ()
        done = self.git.run(
            *("grep", "--no-color", "--full-name", "-F", "-w", "-l", "-z"),
            *options,
            treeish,
            "--",
            pattern,
            ok=(0, 1),
        )
        prefix = f"{treeish}:"
        names = done.out.decode("utf-8", "surrogateescape").split("\0")
        return tuple(sorted(name.removeprefix(prefix) for name in names if name))

    def _find(self, expression: str) -> tuple[str, bytes, bytes] | None:
        """Return id, kind and content of what git finds under any expression, or None."""
        if "\n" in expression or "\0" in expression:
            return None
        self._request(expression.encode("utf-8", "surrogateescape") + b"\n")
        return self._answer(expression)

    def _ask(self, ids: Iterable[str]) -> Iterator[tuple[str, tuple[bytes, bytes] | None]]:
        waiting = list(ids)
        for start in range(0, len(waiting), _IN_FLIGHT):
            part = waiting[start : start + _IN_FLIGHT]
            self._request("".join(f"{id}\n" for id in part).encode())
            for id in part:
                answer = self._answer(id)
                yield id, None if answer is None else answer[1:]

    def _request(self, lines: bytes) -> None:
        if self._process is None:
            self._process = self.git.converse("cat-file", "--batch")
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(lines)
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._stopped() from None

    def _answer(self, asked: str) -> tuple[str, bytes, bytes] | None:
        assert self._process is not None
        assert self._process.stdout is not None
        head = self._process.stdout.readline()
        if not head.endswith(b"\n"):
            raise self._stopped(asked)
        words = head.split()
        if len(words) != 3 or not words[2].isdigit():
            return None  # "NAME missing" or "NAME ambiguous"
        data = self._process.stdout.read(int(words[2]))
        self._process.stdout.read(1)
        return words[0].decode(), words[1], data

    def _stopped(self, asked: str = "objects") -> RepositoryError:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()
        return RepositoryError(
            f"git stopped while it read {asked}",
            where=str(self.git.folder),
            why="the object store may be damaged",
            next="git fsck",
        )

    def _any(self, id: str) -> tuple[bytes, bytes]:
        for _, answer in self._ask([id]):
            if answer is not None:
                return answer
        raise _missing(id, "object")

    def _required(self, id: str, kind: bytes) -> bytes:
        found, data = self._any(id)
        if found != kind:
            raise RepositoryError(f"{id} is a {found.decode()}, not a {kind.decode()}")
        return data


def _mode(entry: Entry | None) -> str | None:
    """Return a mode as git compares it: old programs kept all permissions of a file."""
    if entry is None or not entry.is_file:
        return entry.mode if entry else None
    return EXECUTABLE if int(entry.mode, 8) & 0o100 else FILE


def parse_tree(data: bytes, num_id_bytes: int) -> dict[str, Entry]:
    """Return a tree object's entries by name; bytes that are not UTF-8 become surrogates."""
    entries = {}
    at = 0
    while at < len(data):
        end = data.index(b"\0", at)
        mode, _, name = data[at:end].partition(b" ")
        at = end + 1 + num_id_bytes
        # Old programs wrote folders as 040000.
        entries[_name(name)] = Entry(mode.decode().lstrip("0"), data[end + 1 : at].hex())
    return entries


def tree_bytes(entries: Mapping[str, Entry]) -> bytes:
    """Return a tree object's content in git's order: a folder sorts as if its name ended in `/`."""
    rows = []
    for name, entry in entries.items():
        raw = name.encode("utf-8", "surrogateescape")
        key = raw + b"/" if entry.mode == FOLDER else raw
        rows.append((key, entry.mode.encode() + b" " + raw + b"\0" + bytes.fromhex(entry.id)))
    return b"".join(row for _, row in sorted(rows))


def quoted(raw: bytes) -> bytes:
    """Return a path or a value as git reads it between quotes."""
    escaped = raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"' + escaped + b'"'


def alternates(object_folder: Path) -> bytes:
    """Return the content of `info/alternates` that borrows from one object store."""
    return quoted(os.fsencode(object_folder)) + b"\n"


def _name(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _missing(id: str, kind: str) -> RepositoryError:
    return RepositoryError(
        f"the {kind} {id} is not in this repository",
        why="the clone is incomplete, or an object was removed",
        next="git fetch, and git fsck if that does not bring it",
    )
