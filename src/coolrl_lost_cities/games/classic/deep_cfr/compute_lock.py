"""One measurement at a time on a machine: a lock that says who holds it, gone with its process."""

import fcntl
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coolrl_lost_cities.games.classic.deep_cfr.errors import DeepCFRError

LOCK = ".compute.lock"


class ComputeLocked(DeepCFRError):
    """Somebody else measures on this machine."""

    def __init__(self, path: Path, holder: dict[str, object]) -> None:
        who = f"process {holder['pid']}" if "pid" in holder else "a process"
        since = f" since {holder['since']}" if "since" in holder else ""
        doing = f" ({holder['command']})" if "command" in holder else ""
        super().__init__(
            f"{path}: {who}{doing} has been measuring on this machine{since}, and two measurements "
            "would be of each other; wait until it has ended"
        )


def lock_path() -> Path:
    """Return the machine's lock; everybody who measures here has to be able to open it."""
    return Path(tempfile.gettempdir()) / LOCK


@contextmanager
def compute_lock(path: Path | None = None) -> Iterator[None]:
    """Hold the lock for a measurement. Raises ComputeLocked with the name of who holds it."""
    path = lock_path() if path is None else path
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ComputeLocked(path, _holder(file)) from None
        holder = {
            "pid": os.getpid(),
            "command": " ".join(sys.argv)[:200],
            "since": time.strftime("%Y-%m-%d %H:%M:%S"),
        }
        os.ftruncate(file, 0)
        os.pwrite(file, json.dumps(holder).encode(), 0)
        yield
        os.ftruncate(file, 0)
    finally:
        os.close(file)


def _holder(file: int) -> dict[str, object]:
    try:
        found = json.loads(os.pread(file, 4096, 0))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
