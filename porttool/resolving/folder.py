"""The folder in which a person resolves conflicts: outside of the repository, whole or not there.

It lies beside the working trees that checks run in, holds the files with conflict markers and
nothing else of the project, and a list of the conflicts that it was made for.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from porttool.errors import NeedsPerson, RepositoryError
from porttool.frozen import dataclass
from porttool.git.checkout import pool_folder
from porttool.git.paths import unsafe_path
from porttool.git.repo import Repository
from porttool.git.scratch import scratch_folder, sweep
from porttool.plan.plan import Plan
from porttool.resolving.conflicts import Question

_LIST = "conflicts.json"
_FILES = "files"
_BASE = re.compile(rb"^(\|{7,}) [0-9a-f]+(\r?)$", re.MULTILINE)


@dataclass(frozen=True)
class Opened:
    """An open folder: what it was made on, and the keys of its conflicts."""

    folder: Path
    onto: str
    keys: tuple[str, ...]

    @property
    def files(self) -> Path:
        """Return the folder with the files to edit."""
        return self.folder / _FILES

    def read(self, question: Question) -> bytes | None:
        """Return what a person has made of a conflict's file, or None where it is not there."""
        path = self.files / question.paths[0]
        there = Path(os.path.realpath(path))  # `Path.resolve` may fail on a circle of links
        if path.is_symlink() or not there.is_relative_to(os.path.realpath(self.files)):
            raise NeedsPerson(
                f"{question.paths[0]} leads out of the folder",
                where=str(path),
                why="only files in the folder itself are read",
                next="put a plain file there",
            )
        return path.read_bytes() if path.is_file() else None


def resolve_folder(repo: Repository, plan: Plan) -> Path:
    """Return where the folder of a port is, whether it is open or not."""
    return pool_folder(repo) / "resolve" / plan.name


def make_folder(
    folder: Path, onto: str, questions: Sequence[Question], contents: Mapping[str, bytes]
) -> Opened:
    """Make the folder with files that hold markers, at once and whole.

    Raises NeedsPerson where it is open already: what a person did in it would be lost.
    """
    keys = [question.key for question in questions]
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        sweep(folder.parent)
        with scratch_folder(folder.parent) as scratch:
            made = scratch / folder.name
            for path, data in contents.items():
                problem = unsafe_path(path)
                if problem is not None:
                    raise RepositoryError(f"`{path}` cannot be written: {problem}")
                file = made / _FILES / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(_BASE.sub(rb"\1 base of the experiment\2", data))
            (made / _FILES).mkdir(parents=True, exist_ok=True)
            (made / _LIST).write_text(json.dumps({"onto": onto, "conflicts": keys}, indent=1))
            try:
                made.rename(folder)
            except OSError:
                if not folder.is_dir():
                    raise
                raise _open_already(folder) from None
    except OSError as error:
        raise RepositoryError(
            "the folder for conflicts cannot be written",
            where=str(folder),
            why=error.strerror,
            next="set XDG_CACHE_HOME to a folder that can be written",
        ) from error
    return Opened(folder, onto, tuple(keys))


def find_folder(folder: Path, plan: Plan) -> Opened:
    """Return the open folder of a port; raises NeedsPerson where there is none."""
    sweep(folder.parent)
    try:
        data = json.loads((folder / _LIST).read_text())
        return Opened(folder, str(data["onto"]), tuple(map(str, data["conflicts"])))
    except FileNotFoundError:
        raise NeedsPerson(
            f"no conflict of {plan.name} is open",
            where=str(folder),
            why="no folder was made, or it was removed",
            next=f"porttool resolve {shlex.quote(plan.name)}",
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NeedsPerson(
            f"the folder of {plan.name} cannot be read",
            where=str(folder / _LIST),
            why=str(error),
            next=f"porttool resolve {shlex.quote(plan.name)} --abort",
        ) from error


def remove_folder(folder: Path) -> bool:
    """Remove the folder at once and whole; return whether it was there.

    Raises RepositoryError where it cannot be removed.
    """
    sweep(folder.parent)
    if not folder.is_dir():
        return False
    with scratch_folder(folder.parent) as scratch:
        try:
            folder.rename(scratch / folder.name)
        except OSError as error:
            raise RepositoryError(
                "the folder for conflicts cannot be removed",
                where=str(folder),
                why=error.strerror,
                next="look at the rights of the folder that it is in",
            ) from error
    return True


def _open_already(folder: Path) -> NeedsPerson:
    name = shlex.quote(folder.name)
    return NeedsPerson(
        f"the conflicts of {folder.name} are open already",
        where=str(folder / _FILES),
        why="making the folder again would lose what was edited in it",
        next=f"porttool resolve {name} --done, or porttool resolve {name} --abort",
    )
