"""The files that a person works on: which ones paths mean, and all of them written or none.

In a git repository a folder means the files that git knows or would add; elsewhere all but hidden
ones. Nothing outside of that root is read or written, and nothing under `.git`.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from porttool.errors import PortError, RepositoryError
from porttool.frozen import dataclass
from porttool.git.plumbing import Finished, Git
from porttool.git.replacing import replace_files
from porttool.git.scratch import sweep

KINDS = (".py", ".ipynb", ".yaml", ".yml")
_SKIPPED = {"__pycache__", "node_modules", "site-packages", "venv", "env"}


@dataclass(frozen=True)
class Place:
    """The folder that all paths are relative to, and git's own where git looks after it."""

    root: Path
    git_dir: Path | None = None

    @property
    def in_git(self) -> bool:
        """Whether the folder is a working tree."""
        return self.git_dir is not None


class Contents(Mapping[str, bytes]):
    """The Python files below a root, each read when it is asked for."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._paths: dict[str, None] | None = None
        self._read: dict[str, bytes] = {}

    def _listed(self) -> dict[str, None]:
        if self._paths is None:
            found = _listed(self._place, ".")
            self._paths = dict.fromkeys(path for path in found if path.endswith(".py"))
        return self._paths

    def __getitem__(self, path: str) -> bytes:
        if path not in self._listed():
            raise KeyError(path)
        if path not in self._read:
            try:
                self._read[path] = (self._place.root / path).read_bytes()
            except OSError:
                raise KeyError(path) from None
        return self._read[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._listed())

    def __len__(self) -> int:
        return len(self._listed())


def place_of(folder: Path) -> Place:
    """Return the working tree that a folder is in, or the folder itself where there is none."""
    if not folder.is_dir():
        raise RepositoryError(
            "there is no such folder",
            where=str(folder),
            next="name an existing one with --repo PATH",
        )
    git = Git(folder)
    found = git.run("rev-parse", "--show-toplevel", ok=range(256))
    if found.status == 0 and found.out.strip():
        own = git.run("rev-parse", "--absolute-git-dir")
        return Place(_folder(found).resolve(), _folder(own))
    if "safe.directory" in found.words:
        raise RepositoryError(
            "git does not trust the owner of this repository",
            where=str(folder),
            why=found.words,
            next=f"git config --global --add safe.directory {shlex.quote(str(folder.resolve()))}",
        )
    return Place(folder.resolve())


def _folder(found: Finished) -> Path:
    return Path(os.fsdecode(found.out.removesuffix(b"\n")))


def paths_meant(place: Place, given: Sequence[Path]) -> tuple[str, ...]:
    """Return the files that paths mean, relative to the root, sorted.

    A file counts whatever its name; in a folder the kinds that can hold a call do. Raises PortError
    for what is not there, and for what lies outside of the root or under `.git`.
    """
    found: set[str] = set()
    for path in given:
        inside = _inside(place, path)
        if (place.root / inside).is_dir():
            found |= {one for one in _listed(place, inside) if one.endswith(KINDS)}
        else:
            found.add(inside)
    return tuple(sorted(found))


def _inside(place: Place, path: Path) -> str:
    if not path.exists():
        raise PortError(
            "there is no such file or folder", where=str(path), next="name an existing one"
        )
    try:
        inside = path.resolve().relative_to(place.root)
    except ValueError:
        raise PortError(
            "this path leads out of the repository"
            if place.in_git
            else "this path leads out of here",
            where=str(path),
            why=f"only what is below {place.root} is changed",
            next="name its own repository with --repo PATH",
        ) from None
    if any(part.lower() == ".git" for part in inside.parts):
        raise PortError(
            "this path is git's own", where=str(path), next="name files of the working tree"
        )
    if not (path.is_dir() or stat.S_ISREG(path.stat().st_mode)):
        raise PortError("this is no file", where=str(path), next="name a file or a folder")
    return inside.as_posix()


def _listed(place: Place, folder: str) -> Iterator[str]:
    """Yield the files below a folder: those that git tracks or would add, links left out."""
    if place.in_git:
        listing = Git(place.root).run(
            *("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", folder),
            variables={"GIT_LITERAL_PATHSPECS": "1"},
        )
        names: Iterable[str] = dict.fromkeys(map(os.fsdecode, listing.out.split(b"\0")[:-1]))
    else:
        names = _walked(place.root, folder)
    for name in names:
        try:
            mode = (place.root / name).lstat().st_mode
        except OSError:
            continue  # deleted, but not in git's index yet
        if stat.S_ISREG(mode):
            yield name


def _walked(root: Path, folder: str) -> Iterator[str]:
    for here, folders, files in os.walk(root / folder):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name not in _SKIPPED
        )
        for name in sorted(files):
            yield (Path(here) / name).relative_to(root).as_posix()


def read_files(place: Place, paths: Iterable[str]) -> dict[str, bytes]:
    """Return the contents of files; raises PortError for one that cannot be read."""
    found = {}
    for path in paths:
        try:
            found[path] = (place.root / path).read_bytes()
        except OSError as error:
            raise PortError(
                "this file cannot be read",
                where=path,
                why=error.strerror,
                next="look at its rights",
            ) from error
    return found


@contextmanager
def alone(place: Place) -> Iterator[None]:
    """Be the only such command below a root, and remove what a killed one has left there."""
    folder = os.open(place.root, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PortError(
                "another porttool gate is at work here",
                where=str(place.root),
                next="run this again when it is done",
            ) from None
        for left in (place.root, place.git_dir):
            if left is not None:
                sweep(left)
        yield
    finally:
        os.close(folder)


def write_files(place: Place, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> None:
    """Replace files by their new contents, all or none; `before` is what they have to hold still.

    Raises PortError when one cannot be written or was changed meanwhile.
    """
    prepare_in = () if place.git_dir is None else (place.git_dir,)
    replace_files(place.root, before, after, prepare_in=prepare_in)
