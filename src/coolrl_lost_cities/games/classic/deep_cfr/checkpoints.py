"""Checkpoint files: written whole or not at all, checked before they are believed.

A file is what `torch.save` writes for one dictionary: `format`, `version` and the contents given.
Contents are tensors, plain containers, strings and numbers: `weights_only=True` reads them.
"""

import os
import pickle
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from coolrl_lost_cities.games.classic.deep_cfr.errors import DeepCFRError

FORMAT = "lost-cities-deep-cfr"
VERSION = 2


class CheckpointError(DeepCFRError):
    """A checkpoint that cannot be read or written: which file, what is wrong, what to do."""

    def __init__(self, path: Path, problem: str, advice: str) -> None:
        self.path = path
        self.problem = problem
        self.advice = advice
        super().__init__(f"{path}: {problem}; {advice}")


def save_checkpoint(path: Path, contents: dict[str, Any]) -> None:
    """Replace the file in one step; whatever fails, the file before it stays.

    The data and the rename are on disk when this returns. Raises CheckpointError when the system
    refuses (no space left, no permission).
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("wb") as file:
            torch.save({"format": FORMAT, "version": VERSION, **contents}, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        _sync_folder(path.parent)
    except (OSError, RuntimeError) as error:
        # torch 2.13 reports a failed write as a RuntimeError about file positions; the system's
        # own words are in the exception that it was raised from.
        cause = _system_error(error)
        if cause is None:
            raise
        kept = "the checkpoint before it is intact" if path.exists() else "nothing was left behind"
        raise CheckpointError(
            path,
            f"could not be written ({cause.strerror})",
            f"{kept}; free some space or write elsewhere",
        ) from error
    finally:
        partial.unlink(missing_ok=True)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Return the contents, without `format` and `version`, on the CPU.

    Raises CheckpointError when the file is missing, torn, damaged, foreign or of another version.
    """
    require_file(path)
    try:
        _check_archive(path)
        contents = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, EOFError, RuntimeError, ValueError, zipfile.BadZipFile) as error:
        raise CheckpointError(
            path, f"is torn or damaged ({_first_line(error)})", _others(path)
        ) from error
    except (pickle.UnpicklingError, KeyError) as error:
        raise _foreign(path) from error
    if not isinstance(contents, dict) or contents.pop("format", None) != FORMAT:
        raise _foreign(path)
    version = contents.pop("version", None)
    if version != VERSION:
        newer = isinstance(version, int) and version > VERSION
        raise CheckpointError(
            path,
            f"has format version {version}, this program reads version {VERSION}",
            "update the program that reads it" if newer else "go on with the program that wrote it",
        )
    return contents


def require_file(path: Path) -> None:
    """Raise CheckpointError, naming what else the folder holds, where there is no such file."""
    if not path.is_file():
        raise CheckpointError(path, "there is no such checkpoint", _others(path))


def _check_archive(path: Path) -> None:
    """Compare every record with its checksum: torch 2.13 writes them and never looks at them."""
    with zipfile.ZipFile(path) as archive:
        damaged = archive.testzip()
    if damaged is not None:
        raise zipfile.BadZipFile(f"checksum of {damaged} does not match")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _system_error(error: BaseException | None) -> OSError | None:
    """Return the operating system's error behind an exception, if there is one."""
    while error is not None:
        if isinstance(error, OSError) and error.strerror:
            return error
        error = error.__cause__ or error.__context__
    return None


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _foreign(path: Path) -> CheckpointError:
    return CheckpointError(
        path, f"is not a checkpoint of this program (no format {FORMAT!r})", _others(path)
    )


def _others(path: Path) -> str:
    """Advise the other checkpoints of the folder, newest first."""
    if not path.parent.is_dir():
        return f"the folder {path.parent} does not exist either"
    others = sorted(
        (other for other in path.parent.glob("*.pt") if other != path),
        key=lambda other: other.stat().st_mtime,
        reverse=True,
    )
    names = ", ".join(other.name for other in others[:3])
    return f"try {names} in the same folder" if names else "its folder holds no other checkpoint"


def check_same(
    path: Path, stored: Mapping[str, Any], own: Mapping[str, Any], sections: Sequence[str]
) -> None:
    """Raise CheckpointError for the first key of these sections in which two configurations differ.

    `stored` is the configuration in the checkpoint, `own` that of the run that wants to use it.
    """
    for section in sections:
        for key, value in own[section].items():
            was = stored.get(section, {}).get(key)
            if was != value:
                raise CheckpointError(
                    path,
                    f"was written with {section}.{key}: {was}, this run has {value}",
                    f"set {section}.{key} to the stored value, or start afresh",
                )
