"""The reference's table of what `--json` prints is true, key by key."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

from porttool.cli import app
from porttool.report import Report

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "json.md"
TABLE = PAGE.read_text(encoding="utf-8").split("\n## ")[0]
ROWS = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|$", TABLE, re.MULTILINE))
COMPILED = "import torch\n\n\ndef f(net):\n    return torch.compile(net)\n"


def printed(folder, *words, code=0):
    """Return the keys of the object that a command prints."""
    with contextlib.chdir(folder):
        done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == code, done.output
    return set(json.loads(done.stdout))


def shown(command):
    """Return the keys that the table has, each part of its row apart."""
    return [
        set(re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)|`--[^`]*`", "", part)))
        for part in ROWS[command].split(";")
    ]


def test_every_command_with_json_has_a_row():
    commands = typer.main.get_command(app).commands.items()
    with_json = [
        name for name, one in commands if "--json" in [w for p in one.params for w in p.opts]
    ]
    assert sorted(ROWS) == sorted(with_json)


def test_the_table_says_what_a_port_prints(make_port):
    repo = make_port()
    remote = repo.path.parent / "remote.git"
    repo.git("clone", "-q", "--bare", ".", str(remote))
    repo.git("remote", "add", "origin", str(remote))
    for words in (
        ("apply",),
        ("verify",),
        ("status",),
        ("precondition",),
        ("refresh",),
        ("radar",),
        ("resolve",),
        ("publish",),
    ):
        assert [printed(repo.path, *words)] == shown(words[0]), words[0]
    assert set(Report.__dataclass_fields__) < printed(repo.path, "review")


@pytest.mark.parametrize(("words", "part"), [(("--dry-run",), 0), (("--check",), 1)])
def test_the_table_says_what_gate_prints(make_repo, words, part):
    repo = make_repo({"a.py": COMPILED})
    code = 4 if part else 0
    assert printed(repo.path, "gate", *words, "a.py", code=code) == shown("gate")[part]


def test_the_table_says_what_init_and_demo_print(make_port, tmp_path):
    repo = make_port()
    assert [printed(tmp_path, "demo", str(tmp_path / "lab"))] == shown("demo")
    branch = repo.git("for-each-ref", "--format=%(refname:short)", "refs/heads").split()
    [experiment] = [name for name in branch if name != "main"]
    assert [printed(repo.path, "init", experiment, "--name", "again")] == shown("init")
