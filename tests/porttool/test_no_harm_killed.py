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
EVERY_STEP = bool(os.environ.get("PORTTOOL_EVERY_STEP"))
BRANCH = "refs/heads/port/compile-it"
NOTES = "refs/notes/porttool"

# Reads jobs; for each it forks a process that runs porttool and ends itself at one step. It also
# waits for what that process left running, so that everything stands still when it answers.
PARENT = """\
import ctypes, json, os, signal, sys
import porttool.apply, porttool.calls.command, porttool.cli, porttool.resolving.resolve
import porttool.status, porttool.verifying.verify
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
    words, folder, end_at, number, variables = json.loads(line)
    said, steps = (os.memfd_create(name) for name in ("said", "steps"))
    child = os.fork()
    if not child:
        os.environ.clear()
        os.environ.update(variables)
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
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file that names the call at which the git on PATH ends its parent."""
    folder = tmp_path / "bin"
    folder.mkdir()
    git = shutil.which("git")
    assert git is not None
    (folder / "git").write_text(GIT.format(git=git))
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("TRAP", str(tmp_path / "trap"))
    (tmp_path / "trap").write_text("")
    return tmp_path / "trap"


@pytest.fixture(scope="module")
def parent() -> Iterator[Callable[..., list[Any]]]:
    """Return `parent(*job)`: porttool is imported once, and forked for every run."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout
        assert stdout.readline() == "ready\n"

        def ask(*job: object) -> list[Any]:
            stdin.write(json.dumps(job) + "\n")
            stdin.flush()
            answer: list[Any] = json.loads(stdout.readline())
            return answer

        yield ask
        stdin.close()


@pytest.fixture
def run(parent: Callable[..., list[Any]], tmp: Path) -> Run:
    """Return `run(folder, *words, end_at=0, number=SIGKILL)`."""

    def make(folder: Path, *words: str, end_at: int = 0, number: int = signal.SIGKILL) -> Ended:
        variables = {**os.environ, "TMPDIR": str(tmp)}
        code, said, steps = parent(words, str(folder), end_at, number, variables)
        return Ended(code, said, tuple(steps.split()))

    return make


def harmless(repo: Any) -> dict[str, object]:
    """Return what no run may change, and whether its references stand or fall together."""
    git_dir = repo.path / ".git"
    # Read here: a process for each fact would take most of the time of these tests.
    refs = {
        str(path.relative_to(git_dir)): path.read_text()
        for path in (git_dir / "refs").rglob("*")
        if path.is_file()
    }
    both = (refs.pop(BRANCH, None) is None) == (refs.pop(NOTES, None) is None)
    return {
        "refs": refs,
        "both": both,
        "HEAD": (git_dir / "HEAD").read_bytes(),
        "index": (git_dir / "index").read_bytes(),
        "config": (git_dir / "config").read_bytes(),
        "status": repo.git("--no-optional-locks", "status", "--porcelain", "-z"),
        "packed": (git_dir / "packed-refs").exists(),
        "stash": (git_dir / "logs" / "refs" / "stash").read_bytes(),
        "hooks": {hook: hook.read_bytes() for hook in (git_dir / "hooks").glob("*")},
        "locks": sorted(map(str, git_dir.rglob("*.lock"))),
        "worktrees": (git_dir / "worktrees").exists(),
    }


@pytest.fixture
def busy(make_port: Callable[[], Any]) -> Any:
    repo = make_port()
    repo.write({"README": "stashed\n"})
    repo.git("stash", "-u")
    repo.write({"src/config.py": "dirty\n", "new.py": "staged\n", "untracked": "mine\n"})
    repo.git("add", "new.py")
    return repo


def steps_of(first: Ended, *, few: int) -> list[int]:
    """Return the steps at which a run is ended when it is made again.

    All of them, or for CI a few that are spread over it and those where something is moved into
    its place: what is seen before is not what is seen after.
    """
    steps = range(1, len(first.steps) + 1)
    if EVERY_STEP:
        return [*steps]
    moves = (at for at in steps if first.steps[at - 1] == "os.rename")
    return sorted({*steps[few :: len(steps) // few], *moves})


def _forget(repo: Any) -> None:
    lines = f"delete {BRANCH}\ndelete {NOTES}\n"
    repo.git("update-ref", "--stdin", input=lines.encode())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_apply_ended_at_any_step(run: Run, busy: Any, tmp: Path, number: signal.Signals) -> None:
    first = run(busy.path, "apply")
    assert first.code == 0, first.said
    tip, num_steps = busy.id(BRANCH), len(first.steps)
    assert num_steps > 40
    assert list(tmp.iterdir()) == []
    before = harmless(busy)
    assert before["both"] is True

    last_processes = [n for n, step in enumerate(first.steps, 1) if step == "subprocess.Popen"][-2:]
    chosen = {*steps_of(first, few=3 if number == signal.SIGKILL else 1), *last_processes}
    for step in sorted(chosen):
        _forget(busy)
        ended = run(busy.path, "apply", end_at=step, number=number)
        at = f"step {step} of {num_steps} ({first.steps[step - 1]}): {ended}"
        after = harmless(busy)
        assert after == before, at
        file = busy.path / ".git" / BRANCH
        made = file.read_text().strip() if file.exists() else ""
        assert made in ("", tip), at
        if len(ended.steps) < step:
            assert ended.code == 0, at  # it took fewer steps than the first one
        elif number == signal.SIGKILL:
            assert ended.code == -number, at
        else:
            assert ended.code in (0, 130), at
            last = ended.said.splitlines()[-1]
            if ended.code == 130:
                words = "the branch was made before that" if made else "no branch was made"
                assert last in (f"interrupted; {words}", "interrupted; nothing was changed"), at
                assert not (made and last.endswith("nothing was changed")), at
            assert "Traceback" not in ended.said, at
        again = run(busy.path, "apply")
        assert (again.code, busy.id(BRANCH)) == (0, tip), (at, again.said)
        assert list(tmp.iterdir()) == [], at


COMBINED = [*itertools.product(("before", "after"), ("KILL", "INT"), ("one", "group"))]
CHOSEN = [*COMBINED[::3], ("after", "KILL", "group")]


@pytest.mark.parametrize("word", ["unpack-objects", "update-ref"])
def test_ended_while_git_does_what_everybody_sees(
    run: Run, busy: Any, tmp: Path, trap: Path, word: str
) -> None:
    """By a signal to porttool alone, or to all that a terminal runs: all or nothing, no lock."""
    before = harmless(busy)
    for when, number, who in COMBINED if EVERY_STEP else CHOSEN:
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


GATED = {
    name: f"import torch\n\n\ndef make_{name}(net):\n    return torch.compile(net)\n"
    for name in "ab"
}


def _python(repo: Any) -> dict[str, str]:
    return {name: (repo.path / f"{name}.py").read_text() for name in GATED}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_gate_ended_at_any_step(run: Run, busy: Any, tmp: Path, number: signal.Signals) -> None:
    """All files as they were, or all as they are to be; a process that only moves files as well."""
    busy.write({f"{name}.py": text for name, text in GATED.items()})
    words = ("gate", "a.py", "b.py")
    first = run(busy.path, *words)
    assert first.code == 0, first.said
    new = _python(busy)
    assert all(new[name] != text for name, text in GATED.items())
    before = harmless(busy)
    for step in steps_of(first, few=2 if number == signal.SIGKILL else 1):
        busy.write({f"{name}.py": text for name, text in GATED.items()})
        ended = run(busy.path, *words, end_at=step, number=number)
        at = f"step {step} ({first.steps[step - 1]}): {ended}"
        assert harmless(busy) == before, at
        now = _python(busy)
        assert now in (GATED, new), at
        if ended.code == 130:
            told = "nothing was changed" if now == GATED else "the files were written before that"
            assert ended.said.splitlines()[-1] == f"interrupted; {told}", at
        again = run(busy.path, *words)
        assert (again.code, _python(busy)) == (0, new), (at, again.said)
        assert list((busy.path / ".git").glob("porttool-*")) == list(tmp.iterdir()) == [], at


@pytest.fixture
def conflicting(busy: Any) -> Any:
    """Return a repository whose port brings a note that main has written otherwise."""
    busy.git("stash", "-u")
    for branch, text in (("experiments/compile", "theirs\n"), ("main", "ours\n")):
        busy.switch(branch)
        old = busy.id("HEAD")
        busy.write({"note": text})
        busy.git("add", "note")
        busy.git("commit", "--quiet", "--no-verify", "--amend", "--no-edit")
        if branch != "main":
            experiment = busy.id("HEAD"), old
    new, old = experiment
    plan = busy.path / "patches" / "compile-it" / "port.yaml"
    plan.write_text(plan.read_text().replace(old, new))
    busy.git("stash", "pop", "--index")
    return busy


@pytest.mark.parametrize("command", ["open", "done", "abort"])
def test_resolve_ended_at_any_step(
    run: Run, conflicting: Any, tmp: Path, sealed_git: Path, command: str
) -> None:
    """The folder is there, whole, or it is not; answers are kept, all of them, or none is."""
    repo, cache, kept_cache = conflicting, sealed_git / "cache", sealed_git / "as-opened"
    answers = repo.path / "patches" / "compile-it" / "resolutions"
    before = harmless(repo)
    words = ("resolve",) if command == "open" else ("resolve", f"--{command}")

    def prepare() -> None:
        shutil.rmtree(cache, ignore_errors=True)
        shutil.rmtree(answers, ignore_errors=True)
        if command != "open":
            shutil.copytree(kept_cache, cache)

    def state() -> tuple[list[str], list[str]]:
        kept = sorted(answers.iterdir()) if answers.exists() else []
        folders = [
            path for path in cache.glob("porttool/*/resolve/*") if "scratch" not in path.name
        ]
        files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
        return [path.name for path in kept], sorted(path.name for path in files)

    if command != "open":
        assert run(repo.path, "resolve").code == 0
        (note,) = cache.rglob("note")
        note.write_text("both\n")
        cache.rename(kept_cache)
    prepare()
    was = state()
    first = run(repo.path, *words)
    assert first.code == 0, first.said
    done = state()
    assert was != done
    between = [was, done, (done[0], was[1])]  # kept, and the folder not yet removed
    for number in (signal.SIGKILL, signal.SIGINT):
        for step in steps_of(first, few=2 if number == signal.SIGKILL else 1):
            prepare()
            ended = run(repo.path, *words, end_at=step, number=number)
            at = f"step {step} of {len(first.steps)} ({first.steps[step - 1]}): {ended}"
            now = state()
            assert now in between, at
            shown = {**harmless(repo), "status": ""}
            assert shown == {**before, "status": ""}, at
            if ended.code == 130:
                says_nothing = ended.said.endswith("interrupted; nothing was changed\n")
                assert says_nothing == (now == was), at
            again = run(repo.path, *words)
            if now == done and command != "abort":  # it had come to its end
                assert again.code == 3, (at, again.said)
            else:
                assert again.code == 0, (at, again.said)
            assert state() == done, at
            left = [*cache.glob("porttool/*/resolve/porttool-*"), *tmp.iterdir()]
            assert [*left, *(repo.path / ".git").glob("porttool-*")] == [], at


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_verify_ended_at_any_step(run: Run, busy: Any, tmp: Path, number: signal.Signals) -> None:
    """The branch stays; its report is the one before or the one after."""
    assert run(busy.path, "apply").code == 0
    tip, unverified = busy.id(BRANCH), busy.id(NOTES)
    first = run(busy.path, "verify")
    assert first.code == 0, first.said
    before = harmless(busy)
    for step in steps_of(first, few=2 if number == signal.SIGKILL else 1):
        busy.git("update-ref", NOTES, unverified)
        ended = run(busy.path, "verify", end_at=step, number=number)
        at = f"step {step} of {len(first.steps)} ({first.steps[step - 1]}): {ended}"
        assert (harmless(busy), busy.id(BRANCH)) == (before, tip), at
        if ended.code == 130:
            made = busy.id(NOTES) != unverified
            told = "the report was stored before that" if made else "nothing was changed"
            assert ended.said.splitlines()[-1] == f"interrupted; {told}", at
        again = run(busy.path, "verify")
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
