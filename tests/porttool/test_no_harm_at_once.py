"""Several runs at once, in truth at once: all are right, or one is told to run again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from porttool.cli import app

PORTS = ("one", "two")
COMMAND = [sys.executable, "-c", "from porttool.cli import main; main()"]

# Publishes ports of its own, one after the other, as soon as it is told that all have come so far.
PUBLISH = """\
import sys
from pathlib import Path
from porttool.git.commits import Signature
from porttool.git.publish import RefUpdate, publish_with_note
from porttool.git.quarantine import Quarantine
from porttool.git.repo import open_repository

by = Signature("Grace Hopper", "grace@example.org", 1_700_000_000, "+0000")
who = sys.argv[1]
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[2])):
    with open_repository(Path()) as repo, Quarantine(repo) as quarantine:
        main = repo.resolve("main")
        name = f"{who}-{number}"
        tip = quarantine.write_commit(
            repo.tree_of(main), [main], author=by.raw(), committer=by.raw(),
            message=name.encode(),
        )
        ref = RefUpdate(f"refs/heads/port/{name}", None, tip)
        publish_with_note(
            repo, quarantine, [ref], commit=tip, text=name.encode(), by=by, reason="test"
        )
"""


def _start(repo: Any, *words: str, tmp: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        words,
        cwd=repo.path,
        env={**os.environ, "TMPDIR": str(tmp)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_many_branches_published_at_once(make_port: Callable[[], Any], tmp_path: Path) -> None:
    repo, num_each = make_port(), 3
    names = [f"{who}-{number}" for who in "abcd" for number in range(num_each)]
    running = [
        _start(repo, sys.executable, "-c", PUBLISH, who, str(num_each), tmp=tmp_path)
        for who in "abcd"
    ]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    ended = [(process.communicate()[1], process.returncode) for process in running]
    assert ended == [("", 0)] * len(running)
    for name in names:
        assert repo.git("notes", "--ref=porttool", "show", f"refs/heads/port/{name}") == name
    listed = repo.git("for-each-ref", "--format=%(refname:lstrip=3)", "refs/heads/port").split()
    assert sorted(listed) == sorted(names)
    assert list((repo.path / ".git").rglob("*.lock")) == []
    assert list(tmp_path.iterdir()) == []
    assert repo.git("fsck", "--no-dangling", "--no-progress") == ""


@pytest.mark.parametrize("same", [True, False])
def test_ports_applied_at_once(make_port: Callable[[], Any], tmp_path: Path, same: bool) -> None:
    repo = make_port()
    text = (repo.path / "patches" / "compile-it" / "port.yaml").read_text()
    for port in PORTS:
        repo.write({f"patches/{port}/port.yaml": text.replace("compile-it", port, 1)})
    ports = [PORTS[0]] * 2 if same else PORTS
    running = [_start(repo, *COMMAND, "apply", port, tmp=tmp_path) for port in ports]
    ended = [(*process.communicate(), process.returncode) for process in running]
    codes = sorted(code for _, _, code in ended)
    if same:
        assert codes[0] == 0
        assert set(codes) <= {0, 2}
    else:
        assert codes == [0] * len(ports)
    for _, errors, code in ended:
        assert code == 0 or ("run the same command again" in errors and "Traceback" not in errors)
    for port in {*ports}:
        again = CliRunner().invoke(app, ["apply", port, "--repo", str(repo.path)])
        assert again.stdout == f"port/{port} is already what this port gives on main\n"
    assert list((repo.path / ".git").rglob("*.lock")) == []
    assert list(tmp_path.iterdir()) == []


def test_a_folder_whose_owner_lives_is_not_swept(
    make_port: Callable[[], Any], tmp_path: Path
) -> None:
    repo = make_port()
    hold = (
        "from porttool.git.scratch import scratch_folder\n"
        "with scratch_folder() as path: print(path, flush=True); input()\n"
    )
    owner = _start(repo, sys.executable, "-c", hold, tmp=tmp_path)
    assert owner.stdout is not None
    path = Path(owner.stdout.readline().rstrip("\n"))
    (path / "file").write_text("mine")
    others = [tmp_path / "porttool-scratch-mine", tmp_path / "porttool-scratch-link"]
    others[0].mkdir(mode=0o755)  # not made by porttool: its folders are for their owner alone
    (others[0] / "file").write_text("mine")
    others[1].symlink_to(others[0])
    dead = tmp_path / "porttool-scratch-dead"
    dead.mkdir(mode=0o700)
    (dead / "link").symlink_to(others[0])
    (dead / "locked").mkdir(mode=0o000)
    for command in ("status", "review"):
        _start(repo, *COMMAND, command, tmp=tmp_path).communicate()
        assert (path / "file").read_text() == "mine"
        assert (others[0] / "file").read_text() == "mine"
        assert others[1].is_symlink()
        assert not dead.exists()
    owner.communicate("\n")
    assert sorted(tmp_path.iterdir()) == sorted(others)
