"""Start the project's own programs, and end them; no other module does.

A program leads a process group of its own, so that what it started can be ended with it, by its
id. Its surroundings are made here: no git variable of the caller's, the project's interpreter first
on PATH, imports from the checkout, and none of the variables that would let a check pass without
checking (`PYTHONOPTIMIZE` removes assertions, `PYTEST_ADDOPTS` may deselect tests).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO

from porttool.frozen import dataclass
from porttool.git.repo import environment
from porttool.report import Check

TAIL_LINES = 40
LINE_CHARS = 400
GRACE_S = 5.0
START_S = 60.0

WATCH = Path(__file__).parent / "probes" / "end_orphans.py"

_DROPPED = (
    "PYTHONDONTWRITEBYTECODE",  # bytecode and numba caches make the second program start faster
    "PYTHONHOME",
    "PYTHONOPTIMIZE",
    "PYTHONPATH",
    "PYTHONSAFEPATH",
    "PYTEST_ADDOPTS",
    "VIRTUAL_ENV",
)
# The folders in which packages keep their name and version; to read them is ten times as slow.
_INSTALLED = """\
import os, sys
print(sys.version, sys.prefix)
for path in filter(os.path.isdir, sys.path[1:]):
    names = sorted(os.listdir(path))
    print(path, [name for name in names if name.endswith(("-info", "-link", ".pth"))])
"""
_TIME_LIMIT = "ended after its time limit"
_KILLED = "killed by"
_PLAIN_OUTPUT = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100", "PYTHONUNBUFFERED": "1"}
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")


@dataclass(frozen=True)
class Workplace:
    """Where programs run: the folder, the project's interpreter, and all of their environment."""

    folder: Path
    python: Path
    variables: Mapping[str, str]


@dataclass(frozen=True)
class Finished:
    """How a program ended; `exit_code` is None when it was ended here, `problem` says why."""

    command: tuple[str, ...]
    exit_code: int | None
    seconds: float
    tail: tuple[str, ...]
    problem: str = ""

    @property
    def passed(self) -> bool:
        """Whether it ended by itself with exit code 0."""
        return self.exit_code == 0

    @property
    def detail(self) -> str:
        """How it ended, in a few words."""
        return self.problem or f"exit code {self.exit_code}"


def find_python(root: Path) -> Path:
    """Return the project's interpreter: the active environment's, the repository's, or this one."""
    active = os.environ.get("VIRTUAL_ENV")
    for home in (Path(active) if active else None, root / ".venv"):
        if home is not None and (home / "bin" / "python").exists():
            return home / "bin" / "python"
    return Path(sys.executable)


def python_fault(python: Path) -> str:
    """Return why a path is no Python that starts, or "" where it is one."""
    if not os.path.exists(python):
        return "there is no such file"
    if not python.is_file() or not os.access(python, os.X_OK):
        return "it is not a program"
    try:
        done = subprocess.run(
            [python, "-S", "-c", "print('started')"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=START_S,
        )
    except OSError as error:
        return f"it cannot be started: {error.strerror}"
    except subprocess.TimeoutExpired:
        return f"it did not run one line within {START_S:g} s"
    if done.stdout.strip() == b"started":
        return ""
    words = [_plain(line) for line in done.stderr.splitlines() if line.strip()]
    return f"it does not run Python: {words[-1] if words else f'exit code {done.returncode}'}"


def workplace(
    folder: Path, python: Path, *, pythonpath: Iterable[str], variables: Mapping[str, str]
) -> Workplace:
    """Return surroundings in which imports come from `folder`; `variables` are set last."""
    kept = {key: value for key, value in environment().items() if key not in _DROPPED}
    paths = [str(folder / part) for part in pythonpath]
    return Workplace(
        folder,
        python,
        {
            **kept,
            **_PLAIN_OUTPUT,
            # String hashes order sets; two runs that are to be equal must not differ by them.
            "PYTHONHASHSEED": "0",
            **({"PYTHONPATH": os.pathsep.join(paths)} if paths else {}),
            "PATH": os.pathsep.join([str(python.parent), kept.get("PATH", os.defpath)]),
            **variables,
        },
    )


def surroundings_of(python: Path) -> str:
    """Return a digest of an interpreter, its version and its installed packages, "" for none."""
    variables = {key: value for key, value in environment().items() if key not in _DROPPED}
    try:
        done = subprocess.run(
            [python, "-c", _INSTALLED],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=START_S,
            env=variables,
            cwd=python.parent,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return hashlib.sha256(done.stdout).hexdigest()[:32] if done.returncode == 0 else ""


def was_ended(check: Check) -> bool:
    """Tell whether a check failed because a program was ended: another time it may not be."""
    return check.status == "failed" and any(
        words in check.detail for words in (_TIME_LIMIT, _KILLED)
    )


def as_check(name: str, finished: Finished) -> Check:
    """Return how a program ended as a line of the report."""
    return Check(
        name=name,
        status="passed" if finished.passed else "failed",
        seconds=round(finished.seconds, 3),
        detail=finished.detail,
        command=finished.command,
        tail=finished.tail,
    )


def without_places(text: str, folders: Iterable[Path]) -> str:
    """Take folders of this machine out of what programs said: a report is read elsewhere."""
    for folder in folders:
        text = text.replace(f"{folder}/", "")
    return text.replace(f"{Path.home()}/", "~/")


def check_without_places(check: Check, folders: Sequence[Path]) -> Check:
    """Return a check whose texts name no folder of this machine."""
    command = tuple(without_places(word, folders) for word in check.command)
    tail = tuple(without_places(line, folders) for line in check.tail)
    detail = without_places(check.detail, folders)
    return replace(check, command=command, detail=detail, tail=tail)


class Processes:
    """The programs that are running now; leaving the block ends those that still do.

    One more process watches a pipe that closes with this one, so that they end even if it is
    killed and can do nothing any more.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._live: set[subprocess.Popen[bytes]] = set()
        self._closed = False
        self._watch: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Processes:
        self._watch = subprocess.Popen(
            [sys.executable, "-S", "-E", str(WATCH)],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._closed = True
            live = list(self._live)
        for process in live:
            _signal(process, signal.SIGTERM)
        for process in live:
            _end(process)
        if self._watch is not None:
            assert self._watch.stdin is not None
            # It holds the ids of what was ended here; they may be another's soon.
            self._watch.kill()
            self._watch.stdin.close()
            self._watch.wait()

    def _tell(self, word: str, process: subprocess.Popen[bytes]) -> None:
        if self._watch is not None and self._watch.stdin is not None:
            # Without its watch a program still runs as well.
            with contextlib.suppress(OSError, ValueError):
                self._watch.stdin.write(f"{word}{process.pid}\n".encode())

    def run(self, command: Sequence[str], place: Workplace, *, timeout_s: float) -> Finished:
        """Run a program to its end or to the time limit; what it started ends with it.

        `python` as the first word means the project's interpreter. A program that cannot be
        started is an answer like any other: exit code 127. May be called from several threads.
        """
        first = str(place.python) if command[0] in ("python", "python3") else command[0]
        words = (first, *command[1:])
        shown = tuple(command)
        begun = time.monotonic()
        with self._lock:
            if self._closed:
                return Finished(shown, None, 0.0, (), "not started: the others were ended")
            try:
                process = subprocess.Popen(
                    words,
                    cwd=place.folder,
                    env=place.variables,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                problem = f"`{command[0]}` cannot be started: {error.strerror}"
                return Finished(shown, 127, time.monotonic() - begun, (), problem)
            self._live.add(process)
            self._tell("+", process)
        tail = _Tail()
        assert process.stdout is not None
        reader = threading.Thread(target=tail.read, args=(process.stdout,), daemon=True)
        reader.start()
        problem = ""
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            problem = f"{_TIME_LIMIT} of {timeout_s:g} s"
            _end(process)
        seconds = time.monotonic() - begun
        # What it left behind goes too; otherwise that could hold the pipe open for ever.
        _signal(process, signal.SIGKILL)
        reader.join(GRACE_S)
        with self._lock:
            self._live.discard(process)
            self._tell("-", process)
        code = None if problem else process.returncode
        if code is not None and code < 0:
            problem = f"{_KILLED} {signal.Signals(-code).name}"
        return Finished(shown, code, seconds, tail.lines(), problem)


class _Tail:
    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=TAIL_LINES)
        self._rest = b""
        self._lock = threading.Lock()

    def read(self, stream: IO[bytes]) -> None:
        with stream:
            while data := os.read(stream.fileno(), 1 << 16):
                with self._lock:
                    *whole, self._rest = (self._rest + data).split(b"\n")
                    self._rest = self._rest[-(1 << 16) :]
                    self._lines.extend(_plain(line) for line in whole)

    def lines(self) -> tuple[str, ...]:
        with self._lock:
            last = [_plain(self._rest)] if self._rest else []
            return tuple([*self._lines, *last][-TAIL_LINES:])


def _plain(line: bytes) -> str:
    # A progress bar rewrites its line after each carriage return; the last state is what counts.
    text = _ESCAPES.sub("", line.decode("utf-8", "replace")).rstrip("\r").rpartition("\r")[2]
    return text if len(text) <= LINE_CHARS else text[: LINE_CHARS - 3] + "..."


def _end(process: subprocess.Popen[bytes]) -> None:
    _signal(process, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_S)
    _signal(process, signal.SIGKILL)
    process.wait()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
