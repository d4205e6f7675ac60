"""Every port case with a switch put in front of it: ported and proven, or refused with a reason."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from porttool.apply import apply
from porttool.errors import NeedsPerson
from porttool.git.repo import open_repository
from porttool.plan.plan import load_plan
from porttool.series import Applied

CASES = Path(__file__).parent / "cases" / "ports"
NAMES = sorted(path.name for path in CASES.iterdir() if (path / "expect.json").is_file())
NESTED = """\
switch:
  module: switches.py
  root: Settings
  key: perf
  class: Perf
  gate: perf.comp.enabled
  sections:
    - key: comp
      class: Comp
      fields:
        - {name: enabled, type: bool, default: false}
"""
FROM_CLASS = ["from switches import Settings", "SETTINGS: Settings = Settings()"]
DATACLASS = """\
from dataclasses import dataclass, field


@dataclass
class Inner:
    size: int = 4


@dataclass
class Settings:
    inner: Inner = field(default_factory=Inner)
"""
PYDANTIC = """\
from pydantic import BaseModel, Field


class Inner(BaseModel):
    size: int = 4


class Settings(BaseModel):
    inner: Inner = Field(default_factory=Inner)
"""
ARGPARSE = """\
import argparse


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=1)
    return parser.parse_args()


ARGS = parse()
"""
# What the plan says of the switch, what a file of the project reads it from, and what declares it.
KINDS = (
    (NESTED, FROM_CLASS, DATACLASS),
    (
        "switch: {idiom: argparse, module: switches.py, name: compile_it}\n",
        ["from switches import ARGS"],
        ARGPARSE,
    ),
    (NESTED, FROM_CLASS, PYDANTIC),
    ("switch: {idiom: env, name: compile_it}\n", [], None),
)


def plan_of(name: str) -> str:
    extra = CASES / name / "port_extra.yaml"
    return extra.read_text() if extra.exists() else ""


def is_ported(name: str) -> bool:
    """Tell whether a case is one of a branch: it asks nothing, and main does not have it all."""
    asks = json.loads((CASES / name / "expect.json").read_text())["asks"]
    here, there = CASES / name / "main", CASES / name / "expected"
    files = [path.relative_to(there) for path in there.rglob("*") if path.is_file()]
    return not asks and any(
        not (here / file).is_file() or (here / file).read_bytes() != (there / file).read_bytes()
        for file in files
    )


GATED = [name for name in NAMES if "switch:" in plan_of(name)]
PORTED = [name for name in NAMES if name not in GATED and is_ported(name)]
# All that bring a helper, and of the others as many as the time of a run allows.
UNASKED = [name for name in PORTED if "helper" in name] + [
    name for name in PORTED if "helper" not in name
][::3]


def side(name: str, which: str, lines: list[str], switches: str | None) -> dict[str, bytes]:
    """Return one side of a case, with lines at the top of each file, and what declares them."""
    folder = CASES / name / which
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    for path, data in files.items():
        if path.endswith(".py") and lines:
            files[path] = with_lines(data, lines)
    return files | ({"switches.py": switches.encode()} if switches else {})


def with_lines(data: bytes, lines: list[str]) -> bytes:
    """Put lines behind a file's docstring; one with a byte-order mark or a coding is left."""
    try:
        body = ast.parse(data.decode("ascii")).body
    except (SyntaxError, ValueError):
        return data
    first = 0
    for statement in body:
        docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not docstring and getattr(statement, "module", None) != "__future__":
            break
        first = statement.end_lineno or 0
    end = "\r\n" if b"\r\n" in data else "\n"
    old = data.decode("ascii").split(end)
    return end.join([*old[:first], *lines, *old[first:]]).encode()


def ported(make_repo, name: str, switch: str, lines: list[str], switches: str | None):
    """Apply a case's port with a plan's switch; nothing is written."""
    parts: list[bytes] = []
    for mark, which in enumerate(("base", "experiment", "main"), start=1):
        head = f"commit refs/heads/{which}\nmark :{mark}\ncommitter A <a@b> 1 +0000\ndata 1\nx\n"
        parts.append((head + ("from :1\n" if mark > 1 else "") + "deleteall\n").encode())
        for path, data in side(name, which, lines, switches).items():
            parts.append(f'M 644 inline "{path}"\ndata {len(data)}\n'.encode() + data + b"\n")
    repo = make_repo()
    repo.git("fast-import", "--quiet", input=b"".join(parts))
    plan = f"name: x\nexperiment: {{branch: experiment, commits: [{repo.id('experiment')}]}}\n"
    repo.write({"patches/x/port.yaml": plan + plan_of(name).split("switch:")[0] + switch})
    with open_repository(repo.path) as opened:
        plan = load_plan(repo.path / "patches/x/port.yaml")
        return apply(opened, plan, onto="main", dry_run=True, progress=lambda step: None)


def ported_or_refused(make_repo, name: str, *switch) -> Applied | NeedsPerson:
    try:
        return ported(make_repo, name, *switch)
    except NeedsPerson as refusal:
        return refusal


@pytest.mark.parametrize(("number", "name"), [*enumerate(UNASKED)])
def test_a_case_behind_a_switch_is_proven_or_needs_a_person(make_repo, number, name):
    found = ported_or_refused(make_repo, name, *KINDS[number % len(KINDS)])
    if isinstance(found, NeedsPerson):
        assert all((found.where, found.why, found.next))
    else:
        assert found.outcome == "dry-run", found.message
        assert found.report.proof.holds


@pytest.mark.parametrize("name", GATED)
def test_a_case_with_a_switch_ports_without_it(make_repo, name):
    applied = ported(make_repo, name, "", [], None)
    assert applied.outcome == "dry-run"
    assert applied.report.gate is None
