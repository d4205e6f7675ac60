"""Wherever a repository is and whatever it is called: the same port, and nothing else changes."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from porttool.cli import app

BRANCH = "refs/heads/port/compile-it"


def porttool(*words: str, folder: Path) -> Result:
    with contextlib.chdir(folder):
        result = CliRunner().invoke(app, words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def _all_commands(watched: Any, folder: Path, tip: str) -> None:
    plan = str(watched.repo.path / "patches" / "compile-it")
    for words, code in (
        (("status",), 0),
        (("apply", plan), 0),
        (("review", plan), 0),
        (("verify", plan), 0),
    ):
        done = porttool(*words, folder=folder)
        assert done.exit_code == code, (words, done.output)
        assert watched.harm() == [], words
    assert watched.repo.git("--no-replace-objects", "rev-parse", BRANCH) == tip


def _linked(repo: Any) -> tuple[Any, Path]:
    other = repo.path.parent / "linked"
    repo.git("worktree", "add", "-q", "--detach", str(other), "main~1")
    (other / "big.yaml").write_text("dirty\n")
    return repo, other


def _inside(repo: Any) -> tuple[Any, Path]:
    return repo, repo.path / "src"


def _bare(repo: Any) -> tuple[Any, Path]:
    other = repo.path.parent / "bare.git"
    repo.git("clone", "-q", "--bare", "--no-local", str(repo.path), str(other))
    shutil.copytree(repo.path / "patches", other / "patches")
    return type(repo)(other), other


def _shared(repo: Any) -> tuple[Any, Path]:
    other = repo.path.parent / "shared"
    repo.git("clone", "-q", "--shared", str(repo.path), str(other))
    return type(repo)(other), other


def _separate(repo: Any) -> tuple[Any, Path]:
    """A working tree whose .git is a file, as in a submodule."""
    git_dir = repo.path.parent / "elsewhere"
    (repo.path / ".git").rename(git_dir)
    (repo.path / ".git").write_text(f"gitdir: {git_dir}\n")
    return repo, repo.path


def _called(name: str) -> Callable[[Any], tuple[Any, Path]]:
    def move(repo: Any) -> tuple[Any, Path]:
        other = repo.path.parent / name
        other.parent.mkdir(parents=True, exist_ok=True)
        repo.path.rename(other)
        return type(repo)(other), other

    return move


PLACES = {
    "in a linked working tree": _linked,
    "in a folder of it": _inside,
    "in a bare repository": _bare,
    "in a clone that borrows its objects": _shared,
    "with its .git elsewhere": _separate,
    # Names that a shell, an option, a line or UTF-8 would break, of it and of what it is in.
    **{
        f"called {name!r}": _called(name)
        for name in ('-rf/it\'s "a" $(b);`c`\t\\', "\udcff/line\nfeed")
    },
}


@pytest.mark.parametrize("place", PLACES)
def test_wherever_the_repository_is(
    make_port: Callable[[], Any], watch: Callable[[Any], Any], port_tip: str, place: str
) -> None:
    repo, folder = PLACES[place](make_port())
    _all_commands(watch(repo), folder, port_tip)


@pytest.mark.parametrize("inner", [True, False])
def test_what_a_hook_or_an_alias_inherits_means_nothing(
    make_port: Callable[[], Any],
    watch: Callable[[Any], Any],
    port_tip: str,
    monkeypatch: pytest.MonkeyPatch,
    inner: bool,
) -> None:
    repo, other = make_port(), make_port()
    other.git("update-ref", "refs/heads/main", "main~2")
    own = (repo if inner else other).path
    watched, beside = watch(repo), watch(other)
    for name, value in {
        "GIT_DIR": str(own / ".git"),
        "GIT_WORK_TREE": str(own),
        "GIT_INDEX_FILE": str(own / ".git" / "index"),
        "GIT_OBJECT_DIRECTORY": str(own / ".git" / "objects"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(own / ".git" / "objects"),
        "GIT_COMMON_DIR": str(own / ".git"),
        "GIT_NAMESPACE": "other",
        "GIT_PREFIX": "src/",
        "GIT_QUARANTINE_PATH": str(own / ".git" / "objects"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.bare",
        "GIT_CONFIG_VALUE_0": "true",
        "GIT_CONFIG_PARAMETERS": "'core.abbrev'='4'",
        "GIT_EXTERNAL_DIFF": "false",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_ICASE_PATHSPECS": "1",
        "GIT_REPLACE_REF_BASE": "refs/heads/",
        "GIT_GRAFT_FILE": str(own / "patches" / "compile-it" / "port.yaml"),
        "GIT_TRACE": "1",
        "GIT_DEFAULT_HASH": "sha256",
        "GIT_MERGE_VERBOSITY": "5",
        "GIT_NOTES_REF": "refs/notes/others",
        "GIT_DISCOVERY_ACROSS_FILESYSTEM": "no",
    }.items():
        monkeypatch.setenv(name, value)
    plan = str(repo.path / "patches" / "compile-it")
    done = [porttool(*words, folder=repo.path) for words in (("apply", plan), ("status",))]
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        if name not in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"):
            monkeypatch.delenv(name)
    assert [result.exit_code for result in done] == [0, 0], done[0].output
    assert repo.id(BRANCH) == port_tip
    assert (watched.harm(), beside.harm()) == ([], [])
    assert other.try_git("rev-parse", "--verify", BRANCH).returncode != 0


def test_a_graft_hides_no_port_that_is_merged(
    make_port: Callable[[], Any], watch: Callable[[Any], Any]
) -> None:
    repo = make_port()
    assert porttool("apply", folder=repo.path).exit_code == 0
    repo.git("merge", "--quiet", "--no-ff", "-m", "merge it", BRANCH)
    repo.commit({"README": "later\n"})
    (repo.path / ".git" / "info" / "grafts").write_text(f"{repo.id('main')}\n")
    done = porttool("apply", folder=repo.path)
    assert (done.exit_code, "already ported: main has it since" in done.stdout) == (0, True)


def test_a_shallow_clone_is_refused_and_left(
    make_port: Callable[[], Any], watch: Callable[[Any], Any]
) -> None:
    repo = make_port()
    other = repo.path.parent / "shallow"
    repo.git("clone", "-q", "--depth=1", f"file://{repo.path}", str(other))
    watched = watch(type(repo)(other))
    for words in (("apply",), ("status",), ("review",), ("verify",)):
        done = porttool(*words, folder=other)
        assert (done.exit_code, "fetch --unshallow" in done.stderr) == (2, True)
        assert watched.harm() == []


def _precondition_of_a_partial_clone(source: Any, watch: Callable[[Any], Any]) -> None:
    """What `status` does not know it says, and how to know it."""
    plan = source.path / "patches" / "compile-it" / "port.yaml"
    text = plan.read_text().replace(
        "verify:",
        "precondition: {config: big.yaml, any: [{all: [{key: network.size, at_least: 9}]}]}\n"
        "verify:",
    )
    other = source.path.parent / "without files"
    source.git("clone", "-q", "--filter=blob:none", "-n", f"file://{source.path}", str(other))
    repo = type(source)(other)
    repo.write({"patches/compile-it/port.yaml": text})
    watched = watch(repo)
    done = porttool("status", folder=other)
    assert (done.exit_code, "compile-it: not applied" in done.stdout) == (0, True), done.output
    assert "is not known" in done.stdout
    (fetch,) = re.findall(r"cat-file -e '?([0-9a-f]+:[^ '\n]+)'?", done.stdout)
    assert watched.harm() == []
    repo.git("cat-file", "-e", fetch)
    assert "compile-it: parked" in porttool("status", folder=other).stdout


def test_a_partial_clone_says_what_it_fetches_and_keeps_its_objects(
    make_port: Callable[[], Any], watch: Callable[[Any], Any], port_tip: str, tmp_path: Path
) -> None:
    source = make_port()
    source.git("config", "uploadpack.allowFilter", "true")
    source.git("config", "uploadpack.allowAnySHA1InWant", "true")
    calls = tmp_path / "calls"
    serve = tmp_path / "serve"
    serve.write_text(f'#!/bin/sh\necho >>{calls}\nexec git-upload-pack "$@"\n')
    serve.chmod(0o755)
    other = source.path.parent / "partial"
    source.git("clone", "-q", "--filter=blob:none", f"file://{source.path}", str(other))
    repo = type(source)(other)
    repo.git("config", "remote.origin.uploadpack", str(serve))
    repo.git("config", "--add", "remote.origin.fetch", "+refs/notes/*:refs/notes/*")
    watched = watch(repo)
    objects = watched.objects()
    for words, code in (
        (("status",), 0),
        (("review",), 2),
        (("apply", "--onto", "0" * 39 + "1"), 2),
    ):
        assert porttool(*words, folder=other).exit_code == code
        assert not calls.exists(), words
    done = porttool("apply", "--dry-run", folder=other)
    assert done.exit_code == 0, done.output
    # The experiment's file before and after; what main has was checked out.
    assert "fetching 2 objects that this partial clone left out, from origin\n" in done.stderr
    assert calls.read_text() == "\n"
    assert watched.objects() == objects
    assert porttool("apply", folder=other).exit_code == 0
    assert repo.id(BRANCH) == port_tip
    done = porttool("verify", folder=other)
    assert done.exit_code == 0, done.output
    assert calls.read_text() == "\n\n\n"
    assert watched.harm() == []
    _precondition_of_a_partial_clone(source, watch)
    source.path.rename(source.path.parent / "unplugged")
    done = porttool("apply", "--dry-run", folder=other)
    assert done.exit_code == 2
    assert "2 objects are not to be had from origin" in done.stderr
    assert "fetch --refetch --no-filter origin" in done.stderr
    assert watched.harm() == []
