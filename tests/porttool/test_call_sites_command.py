"""`porttool gate` from outside: which files, what is said, the exit code, and what is written."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner, Result

from porttool.calls.working_files import alone, place_of, write_files
from porttool.cli import app
from porttool.errors import PortError

ROOT = Path(__file__).resolve().parents[2]
PLAIN = "import torch\n\nnet = torch.compile(torch.nn.Linear(3, 3))\n"
CLEAN = "import re\n\npattern = re.compile('a')\n"
TWICE = "import torch\n\nnet = torch.compile(torch.compile(torch.nn.Linear(3, 3)))\n"
Gate = Callable[..., Result]


@pytest.fixture
def gate(make_repo: Any, monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Return a function that runs `porttool gate` at the root of a repository with one commit."""
    repo = make_repo({"a.py": PLAIN, "clean.py": CLEAN, ".gitignore": "ignored/\n"})
    monkeypatch.chdir(repo.path)

    def run(*words: str) -> Result:
        return CliRunner().invoke(app, ["gate", *words], catch_exceptions=False)

    return run


def test_gates_and_is_done(gate: Gate) -> None:
    done = gate(".")
    assert done.exit_code == 0
    assert "a.py:3:7: in place, on with COMPILE_MODEL=1: torch.compile(" in done.stdout
    assert "1 call behind `compile_model`, 1 file changed, nothing for a person" in done.stdout
    text = Path("a.py").read_text()
    assert text.endswith("net = _maybe_compile(torch.nn.Linear(3, 3))\n")
    again = gate(".")
    assert (again.exit_code, again.stdout) == (0, "nothing to gate\n")
    assert Path("a.py").read_text() == text


def test_check_lists_and_changes_nothing(gate: Gate) -> None:
    done = gate("--check", ".")
    assert done.exit_code == 4
    assert done.stdout == "a.py:3:7: `torch.compile(torch.nn.Linear(3, 3))` is behind no switch\n"
    assert Path("a.py").read_text() == PLAIN
    assert gate(".").exit_code == 0
    assert (gate("--check", ".").exit_code, gate("--check", ".").stdout) == (0, "")


def test_columns_count_characters_from_one(gate: Gate) -> None:
    Path("b.py").write_text(PLAIN.replace("net = ", 'ä = "é"; net = '))
    assert gate("--check", "b.py").stdout.startswith("b.py:3:16: ")


def test_what_is_for_a_person(gate: Gate) -> None:
    Path("twice.py").write_text(TWICE)
    done = gate(".")
    assert done.exit_code == 3
    assert "twice.py:3:7: compiled twice" in done.stdout
    assert "  next: drop one of the two calls" in done.stdout
    assert Path("twice.py").read_text() == TWICE
    assert "_maybe_compile" in Path("a.py").read_text()
    assert gate("--check", "twice.py").exit_code == 4


def test_dry_run_shows_a_diff(gate: Gate) -> None:
    done = gate("--dry-run", "a.py")
    assert done.exit_code == 0
    assert done.stdout.startswith("--- a/a.py\n+++ b/a.py\n@@ ")
    assert "-net = torch.compile(torch.nn.Linear(3, 3))\n" in done.stdout
    assert "+net = _maybe_compile(torch.nn.Linear(3, 3))\n" in done.stdout
    assert "1 file would be changed" in done.stdout
    assert Path("a.py").read_text() == PLAIN


def test_json(gate: Gate) -> None:
    Path("twice.py").write_text(TWICE)
    data = json.loads(gate("--json", ".").stdout)
    assert (data["exit_code"], data["env"], data["changed"]) == (3, "COMPILE_MODEL", ["a.py"])
    assert data["gated"] == [
        {
            "path": "a.py",
            "line": 3,
            "column": 7,
            "form": "in place",
            "switch": "COMPILE_MODEL",
            "text": "torch.compile(torch.nn.Linear(3, 3))",
        }
    ]
    assert {(one["kind"], one["path"], one["line"]) for one in data["findings"]} == {
        ("flag", "twice.py", 3)
    }
    checked = json.loads(gate("--check", "--json", ".").stdout)
    assert checked["exit_code"] == 4
    assert {one["path"] for one in checked["ungated"]} == {"twice.py"}


def test_names_of_the_switch(gate: Gate) -> None:
    assert gate("--switch", "fast", "--env", "GO", ".").exit_code == 0
    assert 'os.environ.get("GO", "0")' in Path("a.py").read_text()
    for words in (("--switch", "a b"), ("--env", 'X", ""); import os')):
        refused = gate(*words, "clean.py")
        assert refused.exit_code == 2


def test_a_folder_means_what_git_knows_or_would_add(gate: Gate) -> None:
    for name in ("new.py", "ignored/x.py", "deep/er/y.py"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(PLAIN)
    Path("outside-link.py").symlink_to(Path(__file__))
    Path("clean.py").unlink()
    data = json.loads(gate("--json", ".").stdout)
    assert data["changed"] == ["a.py", "deep/er/y.py", "new.py"]
    assert Path("ignored/x.py").read_text() == PLAIN
    assert json.loads(gate("--json", "ignored/x.py").stdout)["changed"] == ["ignored/x.py"]


@pytest.mark.parametrize("name", ["with space.py", 'quo"te.py', "new\nline.py", "-dash.py", "ä.py"])
def test_odd_names(gate: Gate, name: str) -> None:
    Path(name).write_text(PLAIN)
    assert name in json.loads(gate("--json", "--", name).stdout)["changed"]
    assert name not in json.loads(gate("--json", ".").stdout)["changed"]


def test_refuses_what_is_not_of_the_repository(gate: Gate, tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text(PLAIN)
    Path("link.py").symlink_to(outside)
    Path("pipe").symlink_to(os.devnull)
    for path in (str(outside), "../outside.py", "link.py", ".git/config", "missing.py", "pipe"):
        done = gate("a.py", path)
        assert done.exit_code == 2, path
        assert "next:" in done.stderr
    assert outside.read_text() == PLAIN
    assert Path("a.py").read_text() == PLAIN


def test_works_where_there_is_no_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in ("a.py", ".venv/b.py", "pkg/c.py"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(PLAIN)
    done = CliRunner().invoke(app, ["gate", "--json", "."])
    assert json.loads(done.stdout)["changed"] == ["a.py", "pkg/c.py"]


def test_paths_are_shown_as_seen_from_the_current_folder(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("deep").mkdir()
    Path("deep/b.py").write_text(PLAIN)
    monkeypatch.chdir("deep")
    assert gate("--check", ".").stdout.startswith("b.py:3:7: ")
    assert gate("b.py").exit_code == 0
    assert Path("../a.py").read_text() == PLAIN


def test_a_file_that_does_not_parse_stops_no_other(gate: Gate) -> None:
    Path("broken.py").write_text("import torch\ntorch.compile(\n\n")
    done = gate(".")
    assert done.exit_code == 3
    assert "broken.py:2:1: this file does not parse" in done.stdout
    assert "_maybe_compile" in Path("a.py").read_text()
    assert "broken.py:2:1" in gate("--check", ".").stdout


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\xef\xbb\xbf" + PLAIN.encode(), id="byte-order mark"),
        pytest.param(PLAIN.replace("\n", "\r\n").encode(), id="CRLF"),
        pytest.param(f"# coding: latin-1\n{PLAIN}# \xe9\n".encode("latin-1"), id="latin-1"),
        pytest.param(PLAIN.rstrip("\n").encode(), id="no last line end"),
        pytest.param(f"#!/usr/bin/env python\n\f\n{PLAIN}".encode(), id="form feed"),
    ],
)
def test_bytes_around_the_edits_stay(gate: Gate, data: bytes) -> None:
    Path("odd.py").write_bytes(data)
    os.chmod("odd.py", 0o751)
    assert gate("odd.py").exit_code == 0
    after = Path("odd.py").read_bytes()
    assert after[:3] == data[:3]
    assert after.count(b"\r\n") == (after.count(b"\n") if b"\r\n" in data else 0)
    assert after.endswith(b"\n") is data.endswith(b"\n")
    assert (b"\xe9" in after) is (b"\xe9" in data)
    assert Path("odd.py").stat().st_mode & 0o777 == 0o751
    assert gate("--check", "odd.py").exit_code == 0


def test_by_hand(gate: Gate) -> None:
    notebook = {
        "cells": [
            {"cell_type": "markdown", "source": ["torch.compile(x)"]},
            {"cell_type": "code", "source": ["# torch.compile(x)\n", "net = torch.compile(net)\n"]},
        ]
    }
    Path("n.ipynb").write_text(json.dumps(notebook, indent=1))
    Path("conf.yaml").write_text("model:\n  # _target_: torch.compile\n  _target_: torch.compile\n")
    Path("other.yaml").write_text("a: 1\n")
    Path("bad.ipynb").write_text("{")
    before = {path.name: path.read_bytes() for path in Path().iterdir() if path.suffix != ".py"
              and path.is_file()}  # fmt: skip
    data = json.loads(gate("--json", ".").stdout)
    assert data["exit_code"] == 3
    found = [(one["path"], one["line"], one["kind"]) for one in data["findings"]]
    line = Path("n.ipynb").read_text().splitlines().index('    "net = torch.compile(net)\\n"') + 1
    assert found == [("bad.ipynb", 1, "hand"), ("conf.yaml", 3, "hand"), ("n.ipynb", line, "hand")]
    assert {name: Path(name).read_bytes() for name in before} == before


def test_a_notebook_is_read_as_one_program(gate: Gate) -> None:
    cells = [
        ["%matplotlib inline\n", "from torch import compile as fast, nn\n", "USE_COMPILE = False"],
        ["!nvidia-smi\n", "net = fast(nn.Linear(3, 3))\n"],
        ["if USE_COMPILE:\n", "    other = fast(nn.Linear(3, 3))\n", "net.compile()\n"],
    ]
    data = {"cells": [{"cell_type": "code", "source": lines} for lines in cells]}
    Path("n.ipynb").write_text(json.dumps(data, indent=1))
    found = json.loads(gate("--json", "n.ipynb").stdout)["findings"]
    lines = Path("n.ipynb").read_text().splitlines()
    assert [(one["what"][:6], lines[one["line"] - 1].strip()) for one in found] == [
        ("cell 2", '"net = fast(nn.Linear(3, 3))\\n"'),
        ("cell 3", '"net.compile()\\n"'),
    ]


def test_settings_are_named_only_where_something_is_written(gate: Gate) -> None:
    done = gate("--check", "--config", "cfg", ".")
    assert done.exit_code == 2
    assert "--config does not go with --check" in done.stderr
    assert "next:  porttool gate --check PATHS" in done.stderr


def test_all_files_or_none(make_repo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second of two files cannot be written any more when it comes to it."""
    repo = make_repo({"a.py": PLAIN, "b.py": PLAIN, "c.py": PLAIN})
    place = place_of(repo.path)
    before = {name: PLAIN.encode() for name in ("a.py", "b.py", "c.py")}
    after = dict.fromkeys(before, b"x\n")
    (repo.path / "b.py").write_text(CLEAN)
    with pytest.raises(PortError, match="changed meanwhile"):
        write_files(place, before, after)
    (repo.path / "b.py").unlink()
    (repo.path / "b.py").mkdir()
    with pytest.raises(PortError, match="none was changed"):
        write_files(place, before, after)
    assert (repo.path / "a.py").read_text() == (repo.path / "c.py").read_text() == PLAIN
    assert sorted(path.name for path in repo.path.iterdir()) == [".git", "a.py", "b.py", "c.py"]


def test_one_at_a_time(gate: Gate) -> None:
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with alone(place_of(Path())):
            held.set()
            done.wait()

    other = threading.Thread(target=hold)
    other.start()
    held.wait()
    refused = gate("a.py")
    done.set()
    other.join()
    assert refused.exit_code == 2
    assert "at work here" in refused.stderr
    assert Path("a.py").read_text() == PLAIN
    assert gate("a.py").exit_code == 0


def test_nothing_of_git_is_touched(make_repo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = make_repo({"a.py": PLAIN})
    monkeypatch.chdir(repo.path)
    before = repo.git_folder()
    assert CliRunner().invoke(app, ["gate", "."]).exit_code == 0
    assert repo.git_folder() == before


def test_the_hook_runs_as_pre_commit_runs_it(gate: Gate) -> None:
    """Its entry with file names behind it, at the root, and with git's variables of a commit."""
    (hook,) = YAML(typ="safe").load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert (hook["id"], hook["language"], hook["types"]) == ("porttool-gate", "python", ["python"])
    program, *words = shlex.split(hook["entry"])
    assert program == "porttool"
    command = [sys.executable, "-m", "porttool", *words, "a.py", "clean.py"]
    inherited = {**os.environ, "GIT_DIR": ".git", "GIT_INDEX_FILE": ".git/index",
                 "PYTHONPATH": str(ROOT)}  # fmt: skip
    done = subprocess.run(command, env=inherited, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.count("\n")) == (4, 1)
    assert done.stdout.startswith("a.py:3:7: ")
    assert gate("a.py").exit_code == 0
    done = subprocess.run(command, env=inherited, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
