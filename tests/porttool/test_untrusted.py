"""A repository from anybody: nothing in it is run, and nothing in it leads out of it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from porttool.cli import app
from porttool.errors import PlanError
from porttool.plan.plan import load_plan

BRANCH = "refs/heads/port/compile-it"
PLAN = "patches/compile-it/port.yaml"


def porttool(repo: Any, *words: str) -> Result:
    with contextlib.chdir(repo.path):
        result = CliRunner().invoke(app, words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def started(repo: Any, *words: str, module: bool = True) -> subprocess.CompletedProcess[str]:
    """Run porttool in a process of its own."""
    start = ["-m", "porttool"] if module else ["-P", "-c", "from porttool.cli import main; main()"]
    return subprocess.run(
        [sys.executable, *start, *words],
        cwd=repo.path,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        check=False,
        timeout=120,
    )


def _set_traps(repo: Any, marks: Path) -> None:
    """Have everything that git or Python may run for a repository leave a mark."""

    def program(name: str) -> str:
        file = marks.parent / "programs" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"#!/bin/sh\ntouch '{marks / name}'\ncat\n")
        file.chmod(0o755)
        return str(file)

    for name in ("typer", "rich", "shlex", "pydantic", "ruamel", "subprocess", "difflib", "json"):
        for at in ("", "src/"):
            repo.write({f"{at}{name}.py": f"open({str(marks / name)!r}, 'w')\n"})
    for name in ("conftest", "sitecustomize", "usercustomize", "setup", "porttool_plugin"):
        repo.write({f"{name}.py": f"open({str(marks / name)!r}, 'w')\n"})
    for name in ("git", "python", "ls", "sh"):
        (repo.path / name).write_bytes(Path(program(f"{name}-of-the-repository")).read_bytes())
        (repo.path / name).chmod(0o755)
    repo.write(
        {
            ".gitattributes": "* filter=trap diff=trap merge=trap\n*.yaml text eol=crlf\n",
            ".gitmodules": '[submodule "x"]\n\tpath = x\n\turl = ext::sh -c true\n',
            "pyproject.toml": "[tool.ruff]\nline-length = 100\n",
        }
    )
    repo.git("add", "-A")
    repo.commit_staged("traps")
    for key in ("clean", "smudge", "process"):
        repo.git("config", f"filter.trap.{key}", program(f"filter-{key}"))
    repo.git("config", "filter.trap.required", "true")
    for key, name in {
        "diff.trap.command": "diff-command",
        "diff.trap.textconv": "textconv",
        "diff.external": "diff-external",
        "merge.trap.driver": "merge-driver",
        "core.fsmonitor": "fsmonitor",
        "core.sshCommand": "ssh",
        "core.pager": "pager",
        "core.editor": "editor",
        "core.askPass": "askpass",
        "sequence.editor": "sequence-editor",
        "credential.helper": "credential",
        "gpg.program": "gpg",
        "interactive.diffFilter": "diff-filter",
        "pager.grep": "pager-grep",
        "core.gitProxy": "proxy",
        "remote.origin.uploadpack": "uploadpack",
        "trailer.x.command": "trailer",
        "uploadpack.packObjectsHook": "pack-objects-hook",
        "core.alternateRefsCommand": "alternate-refs",
        "notes.displayRef": "notes",
    }.items():
        repo.git("config", key, program(name))
    repo.git("config", "remote.origin.url", f"ext::{program('remote-ext')} %S")
    repo.git("config", "protocol.ext.allow", "always")
    repo.git("config", "commit.gpgSign", "true")
    repo.git("config", "log.showSignature", "true")
    for alias in ("grep", "notes", "rev-parse", "cat-file", "merge-tree"):
        repo.git("config", f"alias.{alias}", f"!{program(f'alias-{alias}')}")
    hooks = repo.path / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in (
        *("applypatch-msg", "pre-applypatch", "pre-commit", "commit-msg", "post-commit"),
        *("reference-transaction", "post-checkout", "post-index-change", "fsmonitor-watchman"),
        *("pre-auto-gc", "post-rewrite", "update", "pre-receive", "post-merge", "pre-push"),
    ):
        (hooks / name).write_text(f"#!/bin/sh\ntouch '{marks / f'hook-{name}'}'\n")
        (hooks / name).chmod(0o755)
    (repo.path / ".git" / "included").write_text(
        f"[core]\n\tfsmonitor = {program('included-fsmonitor')}\n"
    )
    repo.git("config", f"includeIf.gitdir:{repo.path}/.git.path", "included")


def test_nothing_of_the_repository_is_run(make_port: Callable[[], Any], tmp_path: Path) -> None:
    repo = make_port()
    marks = tmp_path / "marks"
    marks.mkdir()
    _set_traps(repo, marks)
    repo.try_git("status")
    assert {"fsmonitor", "included-fsmonitor"} & {mark.name for mark in marks.iterdir()}
    for mark in marks.iterdir():
        mark.unlink()
    for module, words in (
        (True, ("status",)),
        (True, ("apply",)),
        (True, ("review",)),
        (False, ("apply", "--dry-run")),
    ):
        done = started(repo, *words, module=module)
        assert done.returncode == 0, done.stderr
        assert sorted(mark.name for mark in marks.iterdir()) == [], words


UNSAFE_PATHS = (
    "../config.py",
    "/etc/config.py",
    "src/../../config.py",
    ".git/config.py",
    ".GIT/config.py",
    "src/.git/hooks/config.py",
    "git~1/config.py",
    "GIT~1/config.py",
    ".git./config.py",
    ".git /config.py",
    ".git::$INDEX_ALLOCATION/config.py",
    ".g\u200cit/config.py",
    "src\\..\\config.py",
    "C:/config.py",
    "src//config.py",
    "./config.py",
    "src/\x1b[2Jconfig.py",
)
CLAUSES = "any: [{all: [{key: a, at_least: 1}]}]"


@pytest.mark.parametrize("path", UNSAFE_PATHS)
def test_no_path_of_a_plan_leads_out(make_port: Callable[[], Any], path: str) -> None:
    repo = make_port()
    text = (repo.path / PLAN).read_text()
    written = json.dumps(path)
    for old, new in (
        ("src/config.py", written),
        ("[big.yaml]", f"[{written}]"),
        ("pythonpath: [src]", f"pythonpath: [{written}]"),
        ("switch:", f"exclude: [{written}]\nswitch:"),
        ("switch:", f"patches: [{written}]\nswitch:"),
        ("switch:", f"variants: [{{path: {written}, from: big.yaml}}]\nswitch:"),
        ("switch:", f"precondition: {{config: {written}, {CLAUSES}}}\nswitch:"),
    ):
        (repo.path / PLAN).write_text(text.replace(old, new, 1))
        with pytest.raises(PlanError):
            load_plan(repo.path / PLAN)
    done = porttool(repo, "apply")
    assert (done.exit_code, "\x1b" in done.output) == (2, False)
    assert repo.try_git("rev-parse", "--verify", BRANCH).returncode != 0


@pytest.mark.parametrize(
    "path", ["src/config.py", "big.yaml", "src", "src/learner.py", "patches/compile-it/0001.patch"]
)
def test_no_link_on_the_way_is_followed(
    make_port: Callable[[], Any], tmp_path: Path, path: str
) -> None:
    """In the tree that is ported onto, and beside the plan."""
    repo = make_port()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "config.py").write_bytes(repo.show("main", "src/config.py"))
    (outside / "0001.patch").write_text("secret\n")
    if path == "src":
        repo.git("rm", "-r", "-q", "src")
        (repo.path / "src").symlink_to(outside)
    else:
        (repo.path / path).unlink(missing_ok=True)
        (repo.path / path).symlink_to(outside / Path(path).name)
    if path.endswith(".patch"):
        text = (repo.path / PLAN).read_text()
        repo.write({PLAN: text.replace("switch:", "patches: [0001.patch]\nswitch:", 1)})
    repo.git("add", "-A")
    repo.commit_staged()
    before = {file: file.read_bytes() for file in outside.iterdir()}
    done = porttool(repo, "apply")
    assert done.exit_code in (2, 3), done.output
    assert "secret" not in done.output
    assert {file: file.read_bytes() for file in outside.iterdir()} == before
    assert repo.try_git("rev-parse", "--verify", BRANCH).returncode != 0


@pytest.mark.parametrize("path", ["patches", "patches/compile-it"])
def test_a_port_whose_folder_is_a_link_out(
    make_port: Callable[[], Any], tmp_path: Path, path: str
) -> None:
    """Neither read nor written, however it is named; named where it is, it is the user's own."""
    repo = make_port()
    outside = tmp_path / "outside"
    (repo.path / path).rename(outside)
    (repo.path / path).symlink_to(outside)
    before = {file: file.read_bytes() for file in outside.rglob("*.*")}
    plan = outside / Path(PLAN).relative_to(path)
    for words in (
        *(("apply",), ("apply", "compile-it"), ("apply", PLAN), ("apply", str(repo.path / PLAN))),
        *(("review",), ("verify",), ("resolve",), ("resolve", "--done"), ("resolve", "--abort")),
    ):
        done = porttool(repo, *words)
        assert (done.exit_code, "leads out of the repository" in done.stderr) == (2, True), words
        assert str(plan) in done.stderr or path == "patches"
    done = porttool(repo, "status")
    assert "leads out of the repository" in done.output
    assert {file: file.read_bytes() for file in outside.rglob("*.*")} == before
    assert repo.try_git("rev-parse", "--verify", BRANCH).returncode != 0
    assert porttool(repo, "apply", str(plan)).exit_code == 0


def test_a_port_whose_folder_is_a_link_within(make_port: Callable[[], Any]) -> None:
    repo = make_port()
    (repo.path / "docs").mkdir()
    (repo.path / "patches").rename(repo.path / "docs" / "ports")
    (repo.path / "patches").symlink_to("docs/ports")
    assert porttool(repo, "apply", "--dry-run").exit_code == 0
    (repo.path / "patches").unlink()
    (repo.path / "patches").symlink_to("patches")
    assert porttool(repo, "apply").exit_code == 2


@pytest.mark.parametrize(
    "kind", ["folder", "fifo", "large", "loop", "dangling", "device", "secret"]
)
def test_a_plan_that_is_no_plain_file(
    make_port: Callable[[], Any], tmp_path: Path, kind: str
) -> None:
    repo = make_port()
    plan = repo.path / PLAN
    text = plan.read_text()
    plan.unlink()
    (tmp_path / "secret").write_text("secret: [")
    links = {
        "loop": "port.yaml",
        "dangling": "nothing",
        "device": "/dev/zero",
        "secret": str(tmp_path / "secret"),
    }
    if kind == "folder":
        plan.mkdir()
    elif kind == "fifo":
        os.mkfifo(plan)
    elif kind == "large":
        plan.write_text(text + "#" * 5_000_000)
    else:
        plan.symlink_to(links[kind])
    for words in (("apply",), ("apply", str(plan)), ("review",), ("verify",)):
        done = porttool(repo, *words)
        assert done.exit_code == 2, (words, done.output)
    assert porttool(repo, "status").exit_code == 0


def test_names_that_a_terminal_would_obey(make_port: Callable[[], Any]) -> None:
    repo = make_port()
    repo.commit(
        {
            "src/\x1b]0;owned\x07\u202egnp.py": "def f(net):\n    return net.state_dict()\n",
            "src/\x1b[2J.py": "state_dict = (\n",
        },
        "subject \x1b[31m red",
    )
    repo.git("config", "user.name", "Eve \x1b[2J")
    asked = porttool(repo, "apply")
    assert asked.exit_code == 3
    key = next(line for line in asked.stdout.splitlines() if line.endswith("# or: skip"))
    answers = f"answers:\n{key.replace('rewrite', 'skip')}\n"
    (repo.path / PLAN).write_text((repo.path / PLAN).read_text() + answers)
    for words in (("apply",), ("review",), ("review", "--markdown"), ("status",)):
        done = porttool(repo, *words)
        assert done.exit_code == 0, done.output
        assert not set("\x1b\x07\u202e") & {*done.output, *asked.output}, words


@pytest.mark.parametrize(
    "words",
    [
        ("apply", "--onto", "-rf"),
        ("apply", "--onto", "--upload-pack=touch marked"),
        ("apply", "--onto", "main..main"),
        ("apply", "--onto", "HEAD^{tree}"),
        ("apply", "--onto", ":/(a+)+$"),
        ("apply", "--onto", "main\nmain"),
        ("apply", "--onto", "main\0"),
        ("apply", "--onto", ""),
        ("apply", "--onto", "\udcff"),
        ("apply", "--onto", "x" * 100_000),
        ("apply", "../../etc"),
        ("apply", "x" * 10_000),
        ("apply", "\0"),
        ("apply", ""),
        ("apply", "/dev/zero"),
        ("status", "--repo", "x" * 10_000),
        ("status", "--repo", "\0"),
        ("review", "-", "--markdown"),
    ],
)
def test_words_that_mean_nothing(make_port: Callable[[], Any], words: tuple[str, ...]) -> None:
    repo = make_port()
    (repo.path / "empty").mkdir()
    done = porttool(repo, *words)
    assert done.exit_code == 2, done.output
    assert not (repo.path / "marked").exists()
    assert len(done.output) < 250_000
