"""Temporary folders that are gone with the process that made them, however it ends.

The kernel keeps the record of who lives: the owner holds a lock on its folder from the first
moment, and a lock ends with its process, even under `kill -9`. What no one holds is left over, and
the next run removes it.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from porttool.errors import RepositoryError
from porttool.interruption import uninterrupted

PREFIX = "porttool-scratch-"

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PRIVATE = 0o700
_TRIES = 100

_live: dict[Path, int] = {}


@contextlib.contextmanager
def scratch_folder(at: Path | None = None) -> Iterator[Path]:
    """Lend an empty folder that nobody else may read; it is removed at the end of the block.

    It lies in `at`, else in the system's folder for temporary files. Raises RepositoryError where
    it cannot be made.
    """
    path = _make(_root() if at is None else at)
    try:
        yield path
    finally:
        _remove(path)


def sweep(at: Path | None = None) -> None:
    """Remove what killed runs of this user left; a folder whose owner lives is never touched."""
    with contextlib.suppress(OSError):
        root = _root() if at is None else at
        with os.scandir(root) as entries:
            names = [entry.name for entry in entries if entry.name.startswith(PREFIX)]
        for name in names:
            _sweep_one(root / name)


def _root() -> Path:
    """Return what `tempfile.gettempdir` does, which tries a folder by a file that may stay."""
    named = [os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP")]
    folders = [tempfile.tempdir, *named, "/tmp", "/var/tmp"]
    for folder in folders:
        if folder and os.access(folder, os.W_OK | os.X_OK):
            return Path(folder).absolute()
    return Path("/tmp")


def _make(root: Path) -> Path:
    try:
        with uninterrupted():
            for _ in range(_TRIES):
                path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=root))
                with contextlib.suppress(FileNotFoundError):
                    file = os.open(path, _FOLDER)
                    if _lock(file) and _is_at(path, file):
                        _live[path] = file
                        return path
                    # A sweep came in before the lock and took the folder for a dead one's.
                    os.close(file)
    except OSError as error:
        raise RepositoryError(
            "no temporary folder can be made, and nothing can be made without one",
            where=str(error.filename or root),
            why=error.strerror or str(error),
            next="set TMPDIR to a folder that can be written and is not full",
        ) from error
    raise RepositoryError(
        "no temporary folder can be made: other processes remove each at once",
        where=str(root),
        next="run the same command again, or set TMPDIR to a folder of your own",
    )


def _remove(path: Path) -> None:
    with uninterrupted():
        _remove_all_of(path)
        file = _live.pop(path, None)
        if file is not None:
            os.close(file)


def _sweep_one(path: Path) -> None:
    with contextlib.suppress(OSError):
        file = os.open(path, _FOLDER)
        try:
            status = os.fstat(file)
            made_here = status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) == _PRIVATE
            if made_here:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(path, file):
                    _remove_all_of(path)
        finally:
            os.close(file)


def _lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks: no sweep can have one there either
    return True


def _is_at(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(file))
    except FileNotFoundError:
        return False


def _remove_all_of(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        # A check may leave folders behind that even their owner must not change.
        for folder, _, _ in os.walk(path):
            with contextlib.suppress(OSError):
                os.chmod(folder, _PRIVATE)
        shutil.rmtree(path, ignore_errors=True)


def _remove_live() -> None:
    for path in list(_live):
        _remove(path)


# An interruption may come between the making of a folder and the block that removes it.
atexit.register(_remove_live)
os.register_at_fork(after_in_child=_live.clear)
