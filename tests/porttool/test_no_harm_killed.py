"""Killed or interrupted at any step: nothing is half done, and nothing is in the next run's way.

The steps are what the interpreter's own audit events show of a run: each folder, each file opened
for writing, each lock, each process. No step is made for the test, and none is left out.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

# Every step instead of CI's choice: PORTTOOL_EVERY_STEP=1 pytest THIS_FILE
STRIDE = 1 if os.environ.get("PORTTOOL_EVERY_STEP") else 41
BRANCH = "refs/heads/port/compile-it"
NOTES = "refs/notes/porttool"

# Reads jobs; for each it forks a process that runs porttool and ends itself at one step. It also
# waits for what that process left running, so that everything stands still when it answers.
PARENT = """\
import ctypes, json, os, signal, sys
import porttool.apply, porttool.cli, porttool.status, porttool.verifying.verify
import porttool.review.terminal, porttool.review.text, rich.console
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER

STEPS = {
    "subprocess.Popen", "os.mkdir", "os.rmdir", "os.remove", "os.rename", "os.chmod",
    "shutil.rmtree", "tempfile.mkdtemp", "fcntl.flock", "os.scandir", "os.listdir",
}

def run(words, folder, end_at, number, said, steps):
    count = 0
    def hook(event, args):
        nonlocal count
        if event == "open":
            if not isinstance(args[2], int) or not args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                return
        elif event not in STEPS:
            return
        count += 1
        os.write(steps, f"{event}\\n".encode())
        if count == end_at:
            os.kill(os.getpid(), number)
    os.dup2(said, 1)
    os.dup2(said, 2)
    os.chdir(folder)
    os.setsid()
    sys.argv = ["porttool", *words]
    sys.addaudithook(hook)
    porttool.cli.main()

print("ready", flush=True)
for line in sys.stdin:
    words, folder, end_at, number = json.loads(line)
    said, steps = (os.memfd_create(name) for name in ("said", "steps"))
    child = os.fork()
    if not child:
        run(words, folder, end_at, number, said, steps)
        sys.exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        while True:
            os.wait()
    except ChildProcessError:
        pass
    texts = [os.pread(file, 1 << 20, 0).decode() for file in (said, steps)]
    os.close(said), os.close(steps)
    print(json.dumps([code, *texts]), flush=True)
"""


@dataclass(frozen=True)
class Ended:
    """How a run ended: its exit code (negative for a signal), what it said, the steps it took."""

    code: int
    said: str
    steps: tuple[str, ...]


Run = Callable[..., Ended]


@pytest.fixture
def tmp(tmp_path: Path) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    return folder


# A git that ends whoever started it, when it is called with the words of the trap.
GIT = """\
#!/bin/sh
set -u
if [ -s "$TRAP" ]; then
    read -r word when number who <"$TRAP"
    case " $* " in *" $word "*)
        : >"$TRAP"
        target=$PPID
        [ "$who" = one ] || target=-$PPID
        if [ "$when" = before ]; then
            kill -s "$number" -- "$target"
            exec {git} "$@"
        fi
        {git} "$@"
        code=$?
        kill -s "$number" -- "$target"
        exit $code
    esac
fi
exec {git} "$@"
"""


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """Return the file that names the call at which the git on PATH ends its parent."""
    folder = tmp_path / "bin"
    folder.mkdir()
    git = shutil.which("git")
    assert git is not None
    (folder / "git").write_text(GIT.format(git=git))
    (folder / "git").chmod(0o755)
    (tmp_path / "trap").write_text("")
    return tmp_path / "trap"


@pytest.fixture
def run(tmp: Path, trap: Path) -> Iterator[Run]:
    """Return `run(folder, *words, end_at=0, number=SIGKILL)`."""
    path = f"{trap.parent / 'bin'}:{os.environ['PATH']}"
    with subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp), "PATH": path, "TRAP": str(trap)},
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        stdin, stdout = parent.stdin, parent.stdout
        assert stdout.readline() == "ready\n"

        def make(folder: Path, *words: str, end_at: int = 0, number: int = signal.SIGKILL) -> Ended:
            stdin.write(json.dumps([words, str(folder), end_at, number]) + "\n")
            stdin.flush()
            code, said, steps = json.loads(stdout.readline())
            return Ended(code, said, tuple(steps.split()))

        yield make
        stdin.close()


def harmless(repo: Any) -> dict[str, object]:
    """Return what no run may change, and whether its references stand or fall together."""
    git_dir = repo.path / ".git"
    refs = dict(
        line.split(" ", 1)[::-1]
        for line in repo.git("for-each-ref", "--format=%(objectname) %(refname)").splitlines()
    )
    both = (refs.pop(BRANCH, None) is None) == (refs.pop(NOTES, None) is None)
    return {
        "refs": refs,
        "both": both,
        "HEAD": (git_dir / "HEAD").read_bytes(),
        "index": (git_dir / "index").read_bytes(),
        "config": (git_dir / "config").read_bytes(),
        "status": repo.git("--no-optional-locks", "status", "--porcelain", "-z"),
        "stash": repo.git("stash", "list"),
        "locks": sorted(map(str, git_dir.rglob("*.lock"))),
        "worktrees": repo.git("worktree", "list"),
    }


@pytest.fixture
def busy(make_port: Callable[[], Any]) -> Any:
    repo = make_port()
    repo.write({"README": "stashed\n"})
    repo.git("stash", "-u")
    repo.write({"src/config.py": "dirty\n", "new.py": "staged\n", "untracked": "mine\n"})
    repo.git("add", "new.py")
    return repo


def _forget(repo: Any) -> None:
    for ref in (BRANCH, NOTES):
        repo.git("update-ref", "-d", ref)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_apply_ended_at_any_step(run: Run, busy: Any, tmp: Path, number: signal.Signals) -> None:
    first = run(busy.path, "apply")
    assert first.code == 0, first.said
    tip, num_steps = busy.id(BRANCH), len(first.steps)
    assert num_steps > 40
    assert list(tmp.iterdir()) == []
    before = harmless(busy)
    assert before["both"] is True

    last_processes = [n for n, step in enumerate(first.steps, 1) if step == "subprocess.Popen"][-3:]
    chosen = {*range(1 + number % STRIDE, num_steps + 1, STRIDE), *last_processes}
    for step in sorted(chosen):
        _forget(busy)
        ended = run(busy.path, "apply", end_at=step, number=number)
        at = f"step {step} of {num_steps} ({first.steps[step - 1]}): {ended}"
        after = harmless(busy)
        assert after == before, at
        made = busy.try_git("rev-parse", "--verify", "-q", BRANCH).stdout.decode().strip()
        assert made in ("", tip), at
        if len(ended.steps) < step:
            assert ended.code == 0, at  # it took fewer steps than the first one
        elif number == signal.SIGKILL:
            assert ended.code == -number, at
            assert run(busy.path, "status").code == 0, at
        else:
            assert ended.code in (0, 130), at
            last = ended.said.splitlines()[-1]
            if ended.code == 130:
                words = "the branch was made before that" if made else "no branch was made"
                assert last in (f"interrupted; {words}", "interrupted; nothing was changed"), at
                assert not (made and last.endswith("nothing was changed")), at
            assert "Traceback" not in ended.said, at
        assert list(tmp.iterdir()) == [], at
        again = run(busy.path, "apply")
        assert (again.code, busy.id(BRANCH)) == (0, tip), (at, again.said)


@pytest.mark.parametrize("word", ["unpack-objects", "update-ref"])
def test_ended_while_git_does_what_everybody_sees(
    run: Run, busy: Any, tmp: Path, trap: Path, word: str
) -> None:
    """By a signal to porttool alone, or to all that a terminal runs: all or nothing, no lock."""
    before = harmless(busy)
    for when, number, who in itertools.product(
        ("before", "after"), ("KILL", "INT"), ("one", "group")
    ):
        _forget(busy)
        trap.write_text(f"{word} {when} {number} {who}\n")
        ended = run(busy.path, "apply")
        at = (when, number, who, ended)
        assert trap.read_text() == "", at
        assert harmless(busy) == before, at
        made = BRANCH in busy.git("for-each-ref")
        if number == "KILL":
            assert ended.code == -signal.SIGKILL, at
        else:
            words = "the branch was made before that" if made else "no branch was made"
            assert (ended.code, ended.said.splitlines()[-1]) == (130, f"interrupted; {words}"), at
        # What git has begun it sees through, even by itself.
        assert made or word == "unpack-objects" or (when, number) == ("before", "KILL"), at
        again = run(busy.path, "apply" if who == "group" else "status")
        assert again.code == 0, (at, again.said)
        assert list(tmp.iterdir()) == [], at


LIMITED = """\
import resource, sys
name, limit = sys.argv.pop(1), int(sys.argv.pop(1))
import porttool.apply, porttool.cli
resource.setrlimit(getattr(resource, name), (limit, limit))
porttool.cli.main()
"""


@pytest.mark.parametrize(
    ("name", "limit", "words"),
    [
        ("RLIMIT_FSIZE", 0, "this machine has no room for what has to be written"),
        ("RLIMIT_FSIZE", 300, "git merge-tree was ended by SIGXFSZ"),
        ("RLIMIT_NOFILE", 4, "Too many open files"),
    ],
)
def test_a_machine_without_room_is_a_refusal(
    busy: Any, tmp: Path, name: str, limit: int, words: str
) -> None:
    before = harmless(busy)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, name, str(limit), "apply"],
        cwd=busy.path,
        env={**os.environ, "TMPDIR": str(tmp)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, words in done.stderr, done.stdout) == (2, True, ""), done.stderr
    assert "Traceback" not in done.stderr
    assert harmless(busy) == before
    assert list(tmp.iterdir()) == []


def test_no_place_for_temporary_files(busy: Any, tmp: Path) -> None:
    (tmp / "file").write_text("")
    env = {**os.environ, "TMPDIR": str(tmp / "file")}
    done = subprocess.run(
        [sys.executable, "-c", "from porttool.cli import main; main()", "apply", "--dry-run"],
        cwd=busy.path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr  # the system's own folder is still there
    assert list(tmp.iterdir()) == [tmp / "file"]
