"""A throw-away object store in front of the user's: everything is made here, and seen by nobody.

A bare repository in a temporary folder, with the user's objects as alternates and no configuration
but its own. Blobs, trees and commits are written without a process; `publish` later copies what a
branch needs. Two quarantines cannot collide, and an interrupted one leaves nothing behind in the
user's repository.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import zlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from email.utils import mktime_tz, parsedate_tz
from pathlib import Path

from porttool.errors import NeedsPerson, RepositoryError
from porttool.frozen import dataclass
from porttool.git.commits import BlobId, CommitId, Signature, TreeId, commit_bytes
from porttool.git.objects import (
    EXECUTABLE,
    FILE,
    FOLDER,
    SUBMODULE,
    SYMLINK,
    Entry,
    Objects,
    alternates,
    quoted,
    tree_bytes,
)
from porttool.git.paths import unsafe_path, unsafe_ref
from porttool.git.plumbing import Git
from porttool.git.repo import Repository
from porttool.git.scratch import scratch_folder

_HERMETIC = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
}

# The defaults of git, written down: the same inputs give the same tree whatever the user has set.
_CONFIG = f"""\
[core]
	repositoryFormatVersion = {{version}}
	bare = true
	protectHFS = true
	protectNTFS = true
	attributesFile = {os.devnull}
	logAllRefUpdates = false
[merge]
	conflictStyle = merge
	directoryRenames = conflict
	renames = true
	renormalize = false
[diff]
	renames = true
[transfer]
	fsckObjects = true
"""

# What git needs to know to fetch an object that a partial clone left out.
_REMOTE_SECTIONS = ("remote", "url", "http", "credential", "ssh")
_FAILED_HUNK = re.compile(r"patch failed: (?P<path>.+):(?P<line>\d+)")
_FAILED_FILE = re.compile(r"error: (?P<path>.+): (?P<reason>[a-z][^:]*)$", re.MULTILINE)


class PatchConflict(NeedsPerson):
    """A patch does not apply; `path` and `line` say where, as far as git says it."""

    def __init__(self, patch: str, path: str | None, line: int | None, why: str) -> None:
        self.patch = patch
        self.path = path
        self.line = line
        at = "" if path is None else path if line is None else f"{path}:{line}"
        super().__init__(
            f"{patch} does not apply",
            where=at or None,
            why=why,
            next=f"make {patch} anew on today's tree: git format-patch -1 COMMIT",
        )


@dataclass(frozen=True)
class Patch:
    """A mailed patch taken apart: the author's line, the commit's message, and the diff."""

    author: bytes
    message: bytes
    diff: bytes


class Quarantine(Objects):
    """A temporary store on top of a repository's objects; closing it removes it."""

    def __init__(self, repo: Repository) -> None:
        self._closing = ExitStack()
        self.path = self._closing.enter_context(scratch_folder())
        self.object_folder = self.path / "objects"
        self.object_format = repo.object_format
        self._null = "0" * hashlib.new(self.object_format).digest_size * 2
        (self.object_folder / "info").mkdir(parents=True)
        (self.path / "refs").mkdir()
        (self.path / "info").mkdir()
        (self.path / "HEAD").write_text("ref: refs/heads/none\n")
        (self.object_folder / "info" / "alternates").write_bytes(alternates(repo.object_folder))
        remotes, self.promisors = _promisor_config(repo)
        extended = bool(remotes) or self.object_format != "sha1"
        config = _CONFIG.format(version=int(extended))
        if self.object_format != "sha1":
            config += f"[extensions]\n\tobjectFormat = {self.object_format}\n"
        (self.path / "config").write_bytes(config.encode() + remotes)
        # A partial clone fetches with the user's own credentials and proxies.
        variables = {"GIT_ATTR_NOSYSTEM": "1"} if remotes else _HERMETIC
        super().__init__(Git(self.path, git_dir=self.path, variables=variables))
        self._attributes_of: str | None = None
        self._indexed: TreeId | None = None  # what the index of `apply_patch` holds

    def close(self) -> None:
        """End the reading process and remove the folder."""
        try:
            super().close()
        finally:
            self._closing.close()

    def write_blob(self, data: bytes) -> BlobId:
        """Write a file's content and return its id."""
        return BlobId(self._write(b"blob", data))

    def write_tree(
        self,
        base: TreeId,
        changes: Mapping[str, bytes | None],
        *,
        modes: Mapping[str, str] | None = None,
    ) -> TreeId:
        """Return `base` with files replaced, added, or (None) removed.

        A file keeps its mode, and a new one is a plain file, unless `modes` says otherwise. Raises
        RepositoryError for a path that leaves the repository or reaches into .git, that lies under
        a file or a link, that is a folder, a link or a submodule, or is removed and not there.
        """
        nested: dict[str, object] = {}
        for path, data in changes.items():
            reason = unsafe_path(path)
            if reason is not None:
                raise _refused(path, reason)
            folder = nested
            *parents, name = path.split("/")
            for part in parents:
                inner = folder.setdefault(part, {})
                if not isinstance(inner, dict):
                    raise _refused(path, f"{part} is a file in the same change")
                folder = inner
            if name in folder:
                raise _refused(path, "it is a folder in the same change")
            folder[name] = (path, data)
        written = self._edit_tree(base, nested, modes or {})
        return TreeId(written or self._write(b"tree", b""))

    def write_commit(
        self,
        tree: TreeId,
        parents: Sequence[CommitId],
        *,
        author: bytes,
        committer: bytes,
        message: bytes,
        encoding: bytes | None = None,
    ) -> CommitId:
        """Write a commit whose lines are taken as they are, so that equal inputs have equal ids."""
        data = commit_bytes(
            tree,
            parents,
            author=author,
            committer=committer,
            message=message,
            encoding=encoding,
        )
        return CommitId(self._write(b"commit", data))

    def unbundle(self, bundle: Path) -> dict[str, CommitId]:
        """Take in a bundle's objects and return its references.

        Raises RepositoryError where it is not there or builds on commits that are not.
        """
        if not bundle.is_file():
            raise RepositoryError(
                "the bundle does not exist",
                where=str(bundle),
                why="no file of that name is there",
                next="make it where the branch is: "
                f"git bundle create {shlex.quote(bundle.name)} BRANCH",
            )
        done = self.git.run("bundle", "unbundle", str(bundle.resolve()), ok=range(256))
        if done.status:
            raise RepositoryError(
                f"the bundle {bundle.name} cannot be read",
                where=str(bundle),
                why=done.words,
                next="git fetch, when it builds on commits that are missing; else make it anew",
            )
        lines = done.out.decode("utf-8", "surrogateescape").removesuffix("\n").split("\n")
        return {ref: CommitId(id) for id, _, ref in (line.partition(" ") for line in lines)}

    def read_patch(self, data: bytes, *, name: str = "the patch") -> Patch:
        """Take a patch in git's mail format apart; `name` is the path to show to people.

        Raises RepositoryError where it names no author, no date or no subject.
        """
        message, diff = self.path / "mail-message", self.path / "mail-diff"
        if not data.strip():
            raise _no_mail(name, "it is empty")
        done = self.git.run(
            *("mailinfo", "-u", "--no-scissors", str(message), str(diff)),
            input=data,
            ok=range(256),
        )
        if done.status:
            # Git's own words name files of the quarantine, which is gone when a person reads them.
            hidden = not done.words or str(self.path) in done.words
            raise _no_mail(name, "git finds no mail in it" if hidden else done.words)
        found = {}
        for line in done.out.decode("utf-8", "surrogateescape").split("\n"):
            key, _, value = line.partition(": ")
            found[key] = value
        moment = parsedate_tz(found.get("Date", ""))
        missing = [key for key in ("Author", "Email", "Subject") if not found.get(key)]
        if missing or moment is None:
            raise _no_mail(name, f"it has no {missing[0] if missing else 'readable Date'}")
        minutes = (moment[9] or 0) // 60
        offset = f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}{abs(minutes) % 60:02}"
        author = Signature(found["Author"], found["Email"], int(mktime_tz(moment)), offset)
        subject = found["Subject"].encode("utf-8", "surrogateescape")
        body = message.read_bytes().strip(b"\n")
        text = subject + b"\n" + (b"\n" + body + b"\n" if body else b"")
        return Patch(author.raw(), text, diff.read_bytes())

    def apply_patch(self, tree: TreeId, diff: bytes, *, name: str = "the patch") -> TreeId:
        """Return the tree with a patch applied: at an offset if need be, never with less context.

        Raises PatchConflict where it does not apply, and where it would write outside the tree.
        """
        variables = {"GIT_INDEX_FILE": str(self.path / "index")}
        if tree != self._indexed:
            self.git.run("read-tree", tree, variables=variables)
        self._indexed = None
        done = self.git.run(
            *("apply", "--cached", "--whitespace=nowarn", "-"),
            input=diff,
            ok=range(256),
            variables=variables,
        )
        if done.status:
            raise _patch_conflict(name, done.err.decode("utf-8", "replace"))
        written = self.git.run("write-tree", variables=variables).out.decode().strip()
        self._indexed = TreeId(written)
        return self._indexed

    def wrote(self, id: CommitId) -> bool:
        """Tell whether an object was written here one by one, not borrowed and not bundled."""
        return (self.object_folder / id[:2] / id[2:]).exists()

    def name_commits(self, names: Mapping[str, CommitId]) -> None:
        """Give commits names for git to print, in conflict markers and messages.

        Written at once and replacing the last ones; raises RepositoryError for a bad name.
        """
        lines = []
        for name, id in sorted(names.items()):
            reason = unsafe_ref(name)
            if reason is not None:
                raise RepositoryError(f"`{name}` cannot name a commit: {reason}")
            lines.append(f"{id} refs/heads/{name}\n")
        (self.path / "packed-refs").write_text("# pack-refs with: sorted\n" + "".join(lines))

    def use_attributes(self, tree: TreeId) -> None:
        """Make merges obey the `.gitattributes` of a tree, which a bare repository ignores."""
        if tree == self._attributes_of:
            return
        names = [
            path
            for path, entry in self.paths(tree).items()
            if path.endswith(".gitattributes")
            and path.rpartition("/")[2] == ".gitattributes"
            and entry.is_file
        ]
        files = self.read_many(tree, names)
        parts = [
            attributes_in_folder(path.rpartition("/")[0], data)
            for path, data in sorted(files.items(), key=lambda item: item[0].count("/"))
        ]
        (self.path / "info" / "attributes").write_bytes(b"".join(parts))
        self._attributes_of = tree

    def _edit_tree(
        self, base: str | None, nested: Mapping[str, object], modes: Mapping[str, str]
    ) -> str | None:
        entries = dict(self.folder(base)) if base else {}
        for name, change in nested.items():
            old = entries.get(name)
            if isinstance(change, dict):
                if old is not None and old.mode != FOLDER:
                    raise _refused(_some_path(change), f"{name} is not a folder there")
                inner = self._edit_tree(old.id if old else None, change, modes)
                if inner is None:
                    entries.pop(name, None)
                else:
                    entries[name] = Entry(FOLDER, inner)
                continue
            assert isinstance(change, tuple)
            path, data = change
            if old is not None and old.mode in (FOLDER, SUBMODULE):
                raise _refused(path, "it is a folder or a submodule there")
            if data is None:
                if old is None:
                    raise _refused(path, "it is to be removed and is not there")
                del entries[name]
                continue
            if old is not None and old.mode == SYMLINK and modes.get(path) != SYMLINK:
                raise _refused(path, "it is a symbolic link there")
            mode = modes.get(path, old.mode if old else FILE)
            if mode not in (FILE, EXECUTABLE, SYMLINK) and (old is None or mode != old.mode):
                raise _refused(path, f"{mode} is not the mode of a file")
            entries[name] = Entry(mode, self.write_blob(data))
        return self._write(b"tree", tree_bytes(entries)) if entries else None

    def _write(self, kind: bytes, data: bytes) -> str:
        content = kind + b" " + str(len(data)).encode() + b"\0" + data
        id = hashlib.new(self.object_format, content).hexdigest()
        file = self.object_folder / id[:2] / id[2:]
        if not file.exists():
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(zlib.compress(content, 1))
        return id


def attributes_in_folder(folder: str, data: bytes) -> bytes:
    """Return a folder's `.gitattributes` as lines that mean the same from the top of the tree."""
    if not folder:
        return data.rstrip(b"\n") + b"\n" if data else b""
    lines = []
    for line in data.split(b"\n"):
        stripped = line.strip()
        if not stripped or stripped.startswith((b"#", b"[attr]")):
            continue  # macros count at the top only, as in git
        if stripped.startswith(b'"'):
            match = re.match(rb'"((?:[^"\\]|\\.)*)"\s*(.*)', stripped)
            if match is None:
                continue
            pattern, rest = _unquoted(match[1]), match[2]
        else:
            pattern, _, rest = stripped.replace(b"\t", b" ").partition(b" ")
        anchored = b"/" in pattern.rstrip(b"/")
        prefix = re.sub(rb"([][*?\\])", rb"\\\1", folder.encode("utf-8", "surrogateescape"))
        whole = prefix + (b"/" if anchored else b"/**/") + pattern.lstrip(b"/")
        lines.append(quoted(whole) + b" " + rest.strip() + b"\n")
    return b"".join(lines)


def _unquoted(raw: bytes) -> bytes:
    simple = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f"}

    def plain(match: re.Match[bytes]) -> bytes:
        code = match[1]
        return bytes([int(code, 8) & 255]) if code[:1].isdigit() else simple.get(code, code)

    return re.sub(rb"\\([0-7]{3}|.)", plain, raw, flags=re.DOTALL)


def _promisor_config(repo: Repository) -> tuple[bytes, tuple[str, ...]]:
    """Return what a partial clone's remotes look like, and which have the objects that it lacks.

    Nothing for a whole clone.
    """
    text = (repo.object_folder.parent / "config").read_bytes().lower()
    if b"promisor" not in text and b"partialclone" not in text:
        return b"", ()
    promisors: list[str] = []
    listing = repo.git.run("config", "--local", "--includes", "--list", "-z").out
    lines = []
    for record in listing.split(b"\0"):
        key, separator, value = record.partition(b"\n")
        section, _, rest = key.partition(b".")
        subsection, _, name = rest.rpartition(b".")
        if section == b"remote" and name == b"promisor" and value == b"true":
            promisors.append(os.fsdecode(subsection))
        if key == b"extensions.partialclone":
            promisors.append(os.fsdecode(value))
            lines.append(b"[extensions]\n\tpartialClone = " + quoted(value) + b"\n")
        elif section.decode("utf-8", "replace") in _REMOTE_SECTIONS and separator:
            if name == b"url" and section == b"remote" and b":" not in value:
                value = os.fsencode(repo.git.folder / os.fsdecode(value))
            head = section + (b" " + quoted(subsection) if subsection else b"")
            lines.append(b"[" + head + b"]\n\t" + name + b" = " + quoted(value) + b"\n")
    return b"".join(lines), tuple(dict.fromkeys(promisors))


def _patch_conflict(name: str, words: str) -> PatchConflict:
    hunk = _FAILED_HUNK.search(words)
    file = _FAILED_FILE.search(words)
    why = "; ".join(line.removeprefix("error: ") for line in words.strip().splitlines())
    if "No valid patches in input" in words:
        return PatchConflict(name, name, None, "it holds no diff")
    if hunk is not None:
        return PatchConflict(name, hunk["path"], int(hunk["line"]), why)
    return PatchConflict(name, file["path"] if file else None, None, why)


def _no_mail(name: str, why: str) -> RepositoryError:
    return RepositoryError(
        f"{name} is not a patch in git's mail format",
        where=name,
        why=why,
        next=f"write it anew: git format-patch -1 --stdout COMMIT > {shlex.quote(name)}",
    )


def _refused(path: str, reason: str) -> RepositoryError:
    return RepositoryError(f"`{path}` cannot be written: {reason}")


def _some_path(nested: Mapping[str, object]) -> str:
    change = next(iter(nested.values()))
    if isinstance(change, dict):
        return _some_path(change)
    assert isinstance(change, tuple)
    return str(change[0])
