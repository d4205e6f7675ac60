"""Files of a working tree replaced all or none, whoever ends the run and wherever it is then.

New contents are prepared out of sight. The moves into place are made by a process of its own that
no signal to this one, and none to its group, reaches: what it has begun it sees through, even where
this process is gone. What a killed run has prepared is removed by the next one, as `scratch` says.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

from porttool.errors import PortError, RepositoryError
from porttool.frozen import dataclass
from porttool.git.scratch import scratch_folder, sweep
from porttool.interruption import uninterrupted

_Stamp = tuple[int, int, int] | None


@dataclass(frozen=True)
class _Move:
    path: str
    target: Path
    fresh: Path
    old: Path
    stamp: _Stamp
    inode: int = 0

    @property
    def is_made(self) -> bool:
        """Whether the new content is in its place."""
        there = _stamp(self.target)
        return there is not None and there[0] == self.inode


def replace_files(
    root: Path,
    before: Mapping[str, bytes | None],
    after: Mapping[str, bytes],
    *,
    prepare_in: Iterable[Path] = (),
) -> None:
    """Give files below `root` their new contents; `before` is what each has to hold still.

    None there means that a file is new. Modes are kept. Contents are prepared in the first folder
    of `prepare_in` on the same file system, else in `root`, else beside the file. Raises PortError,
    with nothing changed, for a file that cannot be written, has changed, or leads out of `root`.
    """
    with ExitStack() as stack:
        folders: dict[Path, Path] = {}
        moves = []
        try:
            for number, (path, data) in enumerate(after.items()):
                at = _preparing_place(root / path, (*prepare_in, root))
                if at not in folders:
                    sweep(at)
                    folders[at] = stack.enter_context(scratch_folder(at))
                moves.append(_prepared(root, path, before[path], data, folders[at] / str(number)))
        except OSError as error:
            raise _not_written(str(error.filename), error.strerror) from error
        with uninterrupted():
            _see_through(moves, folders.values())


def _preparing_place(target: Path, folders: Iterable[Path]) -> Path:
    parent = _nearest_folder(target)
    device = parent.stat().st_dev
    for folder in folders:
        if os.access(folder, os.W_OK | os.X_OK) and folder.stat().st_dev == device:
            return folder
    return parent


def _nearest_folder(target: Path) -> Path:
    return next(folder for folder in target.parents if folder.is_dir())


def _prepared(root: Path, path: str, before: bytes | None, data: bytes, at: Path) -> _Move:
    target = root / path
    if target.is_symlink() or not _nearest_folder(target).resolve().is_relative_to(root.resolve()):
        raise PortError(
            "this path leads out, or is a link",
            where=str(target),
            why=f"only plain files below {root} are written",
            next="put a plain file or folder there",
        )
    move = _Move(path, target, at.with_suffix(".new"), at.with_suffix(".old"), _stamp(target))
    if (target.read_bytes() if move.stamp else None) != before or not _may_be_written(move):
        raise _changed(path)
    with open(move.fresh, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    if move.stamp:
        move.fresh.chmod(stat.S_IMODE(target.stat().st_mode))
        try:
            os.link(target, move.old)
        except OSError:  # a file system without them
            shutil.copy2(target, move.old)
    return replace(move, inode=move.fresh.stat().st_ino)


def _may_be_written(move: _Move) -> bool:
    return move.stamp is None or os.access(move.target, os.W_OK)


def _stamp(path: Path) -> _Stamp:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _see_through(moves: Sequence[_Move], folders: Iterable[Path]) -> None:
    """Make the moves in a process of its own, and raise what it says.

    It inherits the locks of the folders, so that no sweep takes them for a dead one's.
    """
    absent = {one for move in moves for one in move.target.parents if not one.exists()}
    made = sorted(absent, key=lambda folder: len(folder.parts))
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        status = 1
        try:
            os.setsid()
            said = _moved(moves, made)
            for folder in folders:
                shutil.rmtree(folder, ignore_errors=True)
            os.write(writing, json.dumps(said).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with open(reading, "rb") as file:
        answer = file.read()
    os.waitpid(process, 0)
    if not answer:
        _undo(moves, made)
        raise RepositoryError(
            "what moves the new files into place was ended; none was changed",
            where=", ".join(str(move.target) for move in moves),
            next="run the same command again",
        )
    fault = json.loads(answer)
    if fault is not None:
        raise _changed(fault["path"]) if fault["changed"] else _not_written(**fault["error"])


def _moved(moves: Sequence[_Move], made: Sequence[Path]) -> dict[str, object] | None:
    """Make all moves, or none and return why not."""
    for move in moves:
        if _stamp(move.target) != move.stamp:
            return {"changed": True, "path": move.path}
    move = moves[0]
    try:
        for folder in made:
            folder.mkdir()
        for move in moves:
            os.replace(move.fresh, move.target)
    except OSError as error:
        _undo(moves, made)
        return {"changed": False, "error": {"where": move.path, "why": error.strerror}}
    return None


def _undo(moves: Sequence[_Move], made: Sequence[Path]) -> None:
    for move in moves:
        if move.is_made and move.stamp:
            os.replace(move.old, move.target)
        elif move.is_made:
            move.target.unlink()
    for folder in reversed(made):
        with suppress(OSError):  # never made, or somebody else's by now
            folder.rmdir()


def _changed(path: str) -> PortError:
    return PortError(
        "this file cannot be written, or was changed meanwhile",
        where=path,
        next="look at its rights, then run this again",
    )


def _not_written(where: str, why: str | None) -> PortError:
    return PortError(
        "a file cannot be written; none was changed",
        where=where,
        why=why,
        next="look at its rights, then run this again",
    )
