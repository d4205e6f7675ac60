"""A refresh that is killed or interrupted: the branch is the old one or the new one, whole."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from porttool.cli import app
from porttool.git.commits import CommitId
from porttool.git.repo import open_repository
from porttool.record import find_report

BRANCH = "refs/heads/port/compile-it"
PORTTOOL = [sys.executable, "-c", "from porttool.cli import main; main()"]

# A git that ends whoever started it, once, at the call that the trap names.
GIT = """\
#!/bin/sh
set -u
if [ -s "$TRAP" ]; then
    read -r word when number <"$TRAP"
    case " $* " in *" $word "*)
        : >"$TRAP"
        if [ "$when" = before ]; then
            kill -s "$number" "$PPID"
            exec {git} "$@"
        fi
        {git} "$@"
        code=$?
        kill -s "$number" "$PPID"
        exit $code
    esac
fi
exec {git} "$@"
"""


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file that names the call at which git ends its parent."""
    git = shutil.which("git")
    assert git is not None
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "git").write_text(GIT.format(git=git))
    (folder / "git").chmod(0o755)
    file = tmp_path / "trap"
    file.write_text("")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("TRAP", str(file))
    return file


def porttool(work: Any, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PORTTOOL, *words], cwd=work.path, capture_output=True, text=True, check=False
    )


def here(work: Any, *words: str) -> Result:
    """Run porttool in this process, which nothing is to end."""
    return CliRunner().invoke(app, [*words, "--repo", str(work.path)])


def seen(work: Any) -> dict[str, object]:
    """Return what no run may change: everything but the branch, its note, and objects."""
    refs = [line.split() for line in work.git("for-each-ref").splitlines()]
    git_dir = work.path / ".git"
    return {
        "refs": [line for line in refs if line[2] not in (BRANCH, "refs/notes/porttool")],
        "index": (git_dir / "index").read_bytes(),
        "status": work.git("--no-optional-locks", "status", "--porcelain", "-z"),
        "locks": sorted(git_dir.rglob("*.lock")),
    }


def reported(work: Any) -> tuple[str, str]:
    """Return the commit that the branch's report says it was made on, and the one that it is on."""
    with open_repository(work.path) as repo:
        report = find_report(repo, CommitId(work.id(BRANCH)), "compile-it")
        assert report is not None
        return report.onto_id, work.git("merge-base", "main", BRANCH)


@pytest.mark.parametrize(
    "when",
    [
        "unpack-objects after KILL",
        "update-ref after KILL",
        "update-ref after INT",
    ],
)
def test_ended_while_the_branch_moves(
    make_port: Callable[[], Any], tmp: Path, trap: Path, when: str
) -> None:
    work = make_port()
    assert here(work, "apply").exit_code == 0
    work.switch("port/compile-it")
    old = work.commit({"docs.md": "why\n"}, "mine")
    work.switch("main")
    onto = work.commit({"more.md": "more\n"}, "go on")
    work.write({"src/config.py": "dirty\n", "untracked": "mine\n"})
    before = seen(work)
    made_on = reported(work)[0]

    trap.write_text(f"{when}\n")
    ended = porttool(work, "refresh", "--keep")
    assert trap.read_text() == "", ended
    assert ended.returncode == (-9 if when.endswith("KILL") else 130), ended
    assert seen(work) == before
    stands = work.id(BRANCH)
    assert reported(work) in ([(made_on, made_on)] if stands == old else [(onto, onto)])
    if when.endswith("INT"):
        assert stands != old
        said = "interrupted; port/compile-it was moved before that"
        assert ended.stderr.splitlines()[-1] == said

    again = here(work, "refresh", "--keep")
    assert again.exit_code == 0, again.output
    assert reported(work) == (onto, onto)
    assert work.git("log", "-1", "--format=%s", BRANCH) == "mine"
    assert work.show(BRANCH, "docs.md") == b"why\n"
    assert seen(work) == before
    assert list(tmp.iterdir()) == []
