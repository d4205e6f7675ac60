"""The user's repository, read only: what a name means, what is in it, what has been ported already.

Nothing here writes. Work happens in a quarantine, and `publish` alone touches the repository.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
from collections.abc import Iterable
from pathlib import Path

from porttool.errors import RepositoryError
from porttool.frozen import dataclass
from porttool.git.commits import (
    PORT,
    PORTED_FROM,
    CommitFacts,
    CommitId,
    Signature,
    trailers,
)
from porttool.git.objects import Objects
from porttool.git.paths import unsafe_ref
from porttool.git.plumbing import Git, environment
from porttool.git.scratch import sweep

__all__ = ["Branch", "Identity", "Repository", "environment", "open_repository"]

_REVERTED = re.compile(
    rb"This reverts commit ([0-9a-f]{40,64})"
    rb"(?:,\s+reversing\s+changes\s+made\s+to\s+([0-9a-f]{40,64}))?"
)


@dataclass(frozen=True)
class Identity:
    """Who the user is to git."""

    name: str
    email: str

    def at(self, seconds: int, offset: str = "+0000") -> Signature:
        """Return this person's signature at a moment."""
        return Signature(self.name, self.email, seconds, offset)


@dataclass(frozen=True)
class Branch:
    """A local or remote-tracking branch, and the working tree that has it checked out."""

    name: str
    ref: str
    tip: CommitId
    committed: int
    checked_out: str | None


class Repository(Objects):
    """The user's repository from `open_repository` until it is closed."""

    def __init__(
        self, git: Git, *, root: Path | None, git_dir: Path, object_folder: Path, object_format: str
    ) -> None:
        super().__init__(git)
        self.root = root
        self.git_dir = git_dir
        self.object_folder = object_folder
        self.object_format = object_format

    def resolve(self, revision: str) -> CommitId:
        """Return the commit that a person means: a branch, any revision, or a remote's branch.

        A branch goes before a tag of the same name. Raises RepositoryError with what to fetch.
        """
        found = self.find(revision)
        if found is not None:
            return found
        remotes = self.remotes()
        branches = self.branches()
        names = {branch.name for branch in branches}
        names |= {b.name.split("/", 1)[1] for b in branches if b.ref.startswith("refs/remotes/")}
        nearest = difflib.get_close_matches(revision, sorted(names), n=1)
        raise RepositoryError(
            f"there is no branch or commit `{revision}`"
            + (f"; did you mean `{nearest[0]}`?" if nearest else ""),
            where=str(self.root or self.git_dir),
            why="it is no local branch, no remote-tracking branch, no tag and no commit id"
            + ("" if remotes else ", and no remote is configured"),
            next=f"git fetch {shlex.quote(remotes[0])} {shlex.quote(revision)}"
            if remotes and unsafe_ref(revision) is None
            else (f"take {nearest[0]}, or another" if nearest else "take a")
            + " name that this lists: git branch --all",
        )

    def remotes(self) -> tuple[str, ...]:
        """Return the names of the remotes, `origin` first."""
        names = _lines(self.git.run("remote").out)
        return tuple(sorted(names, key=lambda name: (name != "origin", name)))

    def is_partial(self) -> bool:
        """Tell whether a remote has promised to send what was left out of this clone."""
        found = self.git.run("config", "--get-regexp", r"^remote\..*\.promisor$", ok=(0, 1))
        return found.status == 0

    def find(self, revision: str) -> CommitId | None:
        """Return what `resolve` returns, or None; raises only where two remotes disagree."""
        if not revision or revision.startswith("-"):
            return None
        for expression in (f"refs/heads/{revision}^{{commit}}", f"{revision}^{{commit}}"):
            found = self._find(expression)
            if found is not None:
                return CommitId(found[0])
        if unsafe_ref(revision) is not None:
            return None
        return self._on_a_remote(revision)

    def ref(self, name: str) -> CommitId | None:
        """Return the commit that a full reference name (`refs/...`) points to, or None."""
        found = self._find(f"{name}^{{commit}}")
        return None if found is None else CommitId(found[0])

    def refs(self, names: Iterable[str]) -> dict[str, str]:
        """Return what those of the full reference names point to that are there.

        Asks a new git each time: an interruption may have ended the one that reads objects.
        """
        found = self.git.run("for-each-ref", "--format=%(objectname) %(refname)", *names).out
        pairs = (line.split(" ", 1) for line in _lines(found))
        return {ref: id for id, ref in pairs}

    def branches(self, *, not_merged_into: CommitId | None = None) -> tuple[Branch, ...]:
        """Return local and remote-tracking branches, the latest commit first."""
        options = [f"--no-merged={not_merged_into}"] if not_merged_into else []
        fields = ("refname", "objectname", "committerdate:unix", "symref", "worktreepath")
        listing = self.git.run(
            "for-each-ref",
            "--sort=-committerdate",
            "--format=" + "".join(f"%({field})%00" for field in fields),
            *options,
            "refs/heads",
            "refs/remotes",
        ).out
        found = []
        # Five fields a record, by number: the folder of a working tree may hold a line feed.
        words = [word.removeprefix("\n") for word in _text(listing).split("\0")]
        for ref, tip, moment, symbolic, folder in zip(*[iter(words)] * 5, strict=False):
            if not symbolic:
                name = ref.split("/", 2)[2]
                found.append(Branch(name, ref, CommitId(tip), int(moment or 0), folder or None))
        return tuple(found)

    def find_ported(self, onto: CommitId, experiment: CommitId, port: str) -> CommitId | None:
        """Return the first commit under onto that carries the port's trailers and still stands.

        Finds them in merged, rebased and squashed history. A commit that was reverted does not
        count, unless its revert was reverted. No commit that the experiment builds on can name its
        id, so that history is not searched.
        """
        known = [f"^{experiment}"] if self._find(f"{experiment}^{{commit}}") else []
        listing = self.git.run(
            "rev-list",
            "--topo-order",
            "--fixed-strings",
            f"--grep={PORTED_FROM}: {experiment}",
            "--grep=This reverts commit ",
            onto,
            *known,
            "--",
        ).out
        undone: set[CommitId] = set()
        standing: list[CommitId] = []
        for word in listing.decode().split():
            commit = self.commit(CommitId(word))
            if commit.id in undone:
                continue
            undone |= self.reverted_by(commit)
            found = trailers(commit.message)
            if (PORTED_FROM, experiment) in found and (PORT, port) in found:
                standing.append(commit.id)
        return standing[-1] if standing else None

    def ahead_behind(self, branch: CommitId, onto: CommitId) -> tuple[int, int]:
        """Return how many commits the branch has that onto lacks, and the other way round."""
        counted = self.git.run(
            "rev-list", "--count", "--left-right", f"{branch}...{onto}", "--"
        ).out
        ahead, behind = counted.split()
        return int(ahead), int(behind)

    def is_ancestor(self, ancestor: CommitId, descendant: CommitId) -> bool:
        """Tell whether one commit is in another's history, or is that other."""
        done = self.git.run("merge-base", "--is-ancestor", ancestor, descendant, ok=(0, 1))
        return done.status == 0

    def merge_base(self, one: CommitId, other: CommitId) -> CommitId | None:
        """Return the best common ancestor, or None where the histories are unrelated."""
        done = self.git.run("merge-base", one, other, ok=(0, 1))
        return CommitId(done.out.decode().strip()) if done.status == 0 else None

    def identity(self) -> Identity:
        """Return who commits here.

        Raises RepositoryError with the commands to type where git would have to guess.
        """
        done = self.git.run(
            "-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT", ok=range(256)
        )
        match = re.match(r"(?P<name>.*) <(?P<email>[^>]*)> \d+ [+-]\d+$", _text(done.out).strip())
        if done.status or match is None:
            raise RepositoryError(
                "git does not know who you are, and a commit needs a committer",
                where=str(self.root or self.git_dir),
                why="user.name and user.email are not both set in git's configuration",
                next='git config --global user.name "Your Name" && '
                'git config --global user.email "you@example.org"',
            )
        return Identity(match["name"], match["email"])

    def _on_a_remote(self, revision: str) -> CommitId | None:
        listing = self.git.run(
            "for-each-ref",
            "--format=%(objectname) %(refname)",
            f"refs/remotes/*/{revision}",
        ).out
        tips: dict[str, str] = {}
        for line in _lines(listing):
            tip, ref = line.split(" ", 1)
            if ref.split("/", 3)[3] == revision:
                tips[tip] = ref.removeprefix("refs/remotes/")
        if len(tips) > 1:
            raise RepositoryError(
                f"`{revision}` means a different commit on each remote",
                where=str(self.root or self.git_dir),
                why=", ".join(f"{ref} is {tip}" for tip, ref in sorted(tips.items())),
                next=f"say which one, for instance {min(tips.values())}",
            )
        return CommitId(next(iter(tips))) if tips else None

    def reverted_by(self, commit: CommitFacts) -> set[CommitId]:
        """Return the commits that a commit says it reverts."""
        reverted: set[CommitId] = set()
        for match in _REVERTED.finditer(commit.message):
            target, kept = match.groups()
            if kept is None:
                reverted.add(CommitId(target.decode()))
            elif self._find(f"{target.decode()}^{{commit}}"):
                # A merge was reverted: what it had brought in is gone, not the merge alone.
                brought = self.git.run("rev-list", target.decode(), f"^{kept.decode()}", "--")
                reverted |= {CommitId(id) for id in brought.out.decode().split()}
        return reverted


def open_repository(path: Path) -> Repository:
    """Open the repository that a path is in: a working tree, a linked one, or a bare repository.

    Whatever killed runs left, here and in the folder for temporary files, is removed. Raises
    RepositoryError where there is no repository, where git distrusts its owner, and for a shallow
    clone, whose missing history would make every answer a guess.
    """
    sweep()
    if not os.path.isdir(path):  # not Path.is_dir, which raises for a name that none can have
        raise RepositoryError(
            "there is no such folder",
            where=str(path),
            why="it is not there, or it is a file",
            next="name an existing one with --repo PATH",
        )
    git = Git(path)
    asked = ("rev-parse", "--path-format=absolute")
    facts = ("--is-shallow-repository", "--show-object-format")
    places = (("--absolute-git-dir",), ("--git-path", "objects"), ("--show-toplevel",))
    done = git.run(*asked, *facts, *(word for place in places for word in place), ok=range(256))
    lines = _text(done.out).split("\n")
    if len(lines) < 5:
        owner = "safe.directory" in done.words
        raise RepositoryError(
            "git does not trust the owner of this repository" if owner else "not a git repository",
            where=str(path),
            why=done.words,
            next=f"git config --global --add safe.directory {shlex.quote(str(path.resolve()))}"
            if owner
            else "run this inside a repository, or name one with --repo PATH",
        )
    shallow, object_format, git_dir, objects = lines[:4]
    top = lines[4]
    if len(lines) > 6 - bool(done.status):
        # A folder's name holds a line feed: each is asked for by itself.
        git_dir, objects, top = (
            _text(git.run(*asked, *place, ok=range(256)).out).removesuffix("\n") for place in places
        )
    # Outside of a working tree, in a bare repository for one, nothing stands at the end.
    root = Path(top) if done.status == 0 else None
    if shallow == "true":
        raise RepositoryError(
            "this clone is shallow: part of its history is missing",
            where=str(root or git_dir),
            why="what has been ported, and onto what, is read from history",
            next=f"git -C {shlex.quote(str(root or git_dir))} fetch --unshallow",
        )
    # Nothing is fetched by the way: what a partial clone left out is simply not here.
    local = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}
    sweep(Path(git_dir))
    return Repository(
        Git(root or Path(git_dir), git_dir=Path(git_dir), variables=local),
        root=root,
        git_dir=Path(git_dir),
        object_folder=Path(objects),
        object_format=object_format,
    )


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _lines(data: bytes) -> list[str]:
    # Not splitlines: a reference's name may hold what Unicode counts as the end of a line.
    return [line for line in _text(data).split("\n") if line]
