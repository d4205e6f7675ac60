"""In whatever state a repository is: porttool leaves it so, and ports the same from it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from porttool.cli import app

# A deeper search than CI's: PORTTOOL_NO_HARM_EXAMPLES=500 pytest tests/porttool/test_no_harm.py
NUM_EXAMPLES = int(os.environ.get("PORTTOOL_NO_HARM_EXAMPLES", "4"))
BRANCH = "refs/heads/port/compile-it"
NO_HOOKS = ("-c", f"core.hooksPath={os.devnull}")

State = Callable[[Any], None]


def porttool(*words: str, folder: Path) -> Result:
    with contextlib.chdir(folder):
        result = CliRunner().invoke(app, words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def dirty(repo: Any) -> None:
    repo.write({"src/config.py": "dirty\n", "untracked.txt": "mine\n"})
    (repo.path / "big.yaml").chmod(0o755)


def staged(repo: Any) -> None:
    repo.write({"src/learner.py": "staged\n", "new.py": "new\n", "later.py": "later\n"})
    repo.git("add", "--sparse", "src/learner.py", "new.py")
    repo.git("add", "--sparse", "--intent-to-add", "later.py")


def stashed(repo: Any) -> None:
    repo.write({"README": "stashed\n"})
    repo.try_git("stash", "--include-untracked")  # refused within a merge, and without a commit


def _conflicting(repo: Any) -> str:
    start = repo.git("symbolic-ref", "--quiet", "--short", "HEAD")
    repo.switch("side", "main~1")
    commit = repo.commit({"big.yaml": "side\n", "side.txt": "side\n"}, "side")
    repo.switch("middle", "main")
    repo.commit({"big.yaml": "middle\n"}, "middle")
    assert start == "main"
    return str(commit)


def merging(repo: Any) -> None:
    assert repo.try_git("merge", _conflicting(repo)).returncode == 1


def rebasing(repo: Any) -> None:
    assert repo.try_git("rebase", _conflicting(repo)).returncode == 1


def picking(repo: Any) -> None:
    assert repo.try_git("cherry-pick", _conflicting(repo)).returncode == 1


def reverting(repo: Any) -> None:
    _conflicting(repo)
    repo.commit({"big.yaml": "later\n"}, "later")
    assert repo.try_git("revert", "HEAD~1").returncode == 1


def mailing(repo: Any) -> None:
    _conflicting(repo)
    mail = repo.git_bytes("format-patch", "-1", "--stdout", "side")
    assert repo.try_git("am", input=mail).returncode == 128


def bisecting(repo: Any) -> None:
    repo.git("bisect", "start", "main", "main~2")


def detached(repo: Any) -> None:
    repo.git("checkout", "--quiet", "--detach", "main~1")


def unborn(repo: Any) -> None:
    repo.git("symbolic-ref", "HEAD", "refs/heads/not-yet")
    repo.git("read-tree", "--empty")


def on_the_experiment(repo: Any) -> None:
    repo.switch("experiments/compile")


BUSY: dict[str, State] = {
    state.__name__: state
    for state in (
        merging,
        rebasing,
        picking,
        reverting,
        mailing,
        bisecting,
        detached,
        unborn,
        on_the_experiment,
    )
}


def packed(repo: Any) -> None:
    repo.git(*NO_HOOKS, "gc", "--quiet")
    repo.git("commit-graph", "write", "--reachable")


def sparse(repo: Any) -> None:
    repo.try_git("update-index", "--refresh")
    repo.git("sparse-checkout", "set", "--cone", "patches")


def split_index(repo: Any) -> None:
    repo.git("update-index", "--split-index", "--untracked-cache", "--index-version", "4")


def submodule(repo: Any) -> None:
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},vendor")
    repo.write({".gitmodules": '[submodule "vendor"]\n\tpath = vendor\n\turl = ./nowhere\n'})
    repo.git("config", "submodule.recurse", "true")
    repo.git("config", "submodule.vendor.url", "./nowhere")
    (repo.path / "vendor").mkdir()


def large_files(repo: Any) -> None:
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12\n"
    repo.write({"weights.bin": pointer, ".gitattributes": "*.bin filter=lfs\n*.py filter=lfs\n"})
    for key in ("clean", "smudge", "process"):
        repo.git("config", f"filter.lfs.{key}", f"git-lfs-that-is-not-here {key}")
    repo.git("config", "filter.lfs.required", "true")


def signing(repo: Any) -> None:
    for key in ("commit.gpgSign", "tag.gpgSign", "push.gpgSign", "log.showSignature"):
        repo.git("config", key, "true")
    repo.git("config", "gpg.program", "gpg-that-is-not-here")


def failing_hooks(repo: Any) -> None:
    for folder in (repo.path / ".git" / "hooks", repo.path / "own-hooks"):
        folder.mkdir(exist_ok=True)
        for name in ("reference-transaction", "pre-commit", "post-checkout", "post-index-change"):
            hook = folder / name
            hook.write_text(f"#!/bin/sh\ntouch '{repo.path}/a-hook-ran'\nexit 1\n")
            hook.chmod(0o755)
    repo.git("config", "core.hooksPath", "own-hooks")


def other_settings(repo: Any) -> None:
    for key, value in {
        "alias.grep": "!false",
        "color.ui": "always",
        "column.ui": "always",
        "core.abbrev": "4",
        "core.attributesFile": "no-such-file",
        "core.autocrlf": "true",
        "core.commentChar": "x",
        "core.eol": "crlf",
        "core.fileMode": "false",
        "core.fsmonitor": "./monitor-that-is-not-here",
        "core.ignoreCase": "true",
        "core.logAllRefUpdates": "always",
        "core.notesRef": "refs/notes/others",
        "core.quotePath": "false",
        "core.symlinks": "false",
        "core.whitespace": "trailing-space",
        "diff.external": "false",
        "diff.ignoreSubmodules": "all",
        "diff.mnemonicPrefix": "true",
        "diff.noprefix": "true",
        "diff.orderFile": "no-such-file",
        "diff.renames": "copies",
        "grep.fullName": "false",
        "grep.lineNumber": "true",
        "grep.patternType": "perl",
        "i18n.commitEncoding": "latin1",
        "i18n.logOutputEncoding": "utf-16",
        "log.date": "relative",
        "merge.conflictStyle": "diff3",
        "merge.directoryRenames": "true",
        "merge.renames": "false",
        "notes.rewriteRef": "refs/notes/porttool",
        "receive.denyCurrentBranch": "refuse",
        "receive.denyDeletes": "true",
        "receive.fsckObjects": "true",
        "transfer.fsckObjects": "true",
        "transfer.hideRefs": "refs/heads",
        "user.useConfigOnly": "true",
    }.items():
        repo.git("config", key, value)


def replaced(repo: Any) -> None:
    """Have git show another commit, and another history, than the one that is there."""
    tree = repo.git("rev-parse", "experiments/compile^^{tree}")
    fake = repo.git("commit-tree", tree, "-p", "experiments/compile^", "-m", "fake")
    repo.git("replace", "experiments/compile", fake)
    blob = repo.git("rev-parse", "main:src/learner.py")
    other = repo.git("hash-object", "-w", "--stdin", input=b"replaced = 1\n")
    repo.git("replace", blob, other)
    (repo.path / ".git" / "info" / "grafts").write_text(f"{repo.id('main')}\n")


def odd_names(repo: Any) -> None:
    """Names that a line, a quote, an option or UTF-8 would break, tracked and not."""
    for name in (
        b"a b",
        b"it's",
        b'"quoted"',
        b"-rf",
        b"--help",
        b"line\nfeed",
        b"\xff\xfe",
        b"\x1b[2J",
    ):
        path = os.path.join(os.fsencode(repo.path), name + b".py")
        Path(os.fsdecode(path)).write_bytes(b"net = torch.compile(state_dict)\n")
    repo.git("add", "--sparse", "--", "-rf.py", "a b.py")


def misleading_names(repo: Any) -> None:
    """Branches, tags and files that are called like what is meant."""
    main, old = repo.id("refs/heads/main"), repo.id("refs/heads/main~2")
    repo.git("notes", "add", "-m", "mine", main)
    repo.git("notes", "--ref=porttool", "add", "-m", "not a report", main)
    for name in ("main", "HEAD", "experiments", "port"):
        (repo.path / name).write_text("a file\n")
    for ref in ("tags/main", "tags/experiments/compile", "heads/HEAD", "remotes/origin/main"):
        repo.git("update-ref", f"refs/{ref}", old)


def locked(repo: Any) -> None:
    """Another git is at work here, or died."""
    for name in ("index.lock", "HEAD.lock", "config.lock"):
        (repo.path / ".git" / name).write_text("")


def alternates(repo: Any) -> None:
    elsewhere = repo.path.parent / 'else"where'
    repo.git("clone", "--quiet", "--bare", str(repo.path), str(elsewhere))
    repo.git("repack", "-a", "-d", "-q")
    file = repo.path / ".git" / "objects" / "info" / "alternates"
    file.write_text('"' + str(elsewhere / "objects").replace('"', '\\"') + '"\n')
    repo.git("repack", "-a", "-d", "-l", "-q")


def worktrees(repo: Any) -> None:
    repo.git(*NO_HOOKS, "worktree", "add", "-q", "--detach", str(repo.path.parent / "beside"))
    repo.git(*NO_HOOKS, "worktree", "add", "-q", "--detach", str(repo.path.parent / "gone"))
    (repo.path.parent / "gone" / ".git").unlink()
    (repo.path.parent / "beside" / "big.yaml").write_text("dirty beside\n")
    repo.git("worktree", "lock", str(repo.path.parent / "beside"))


MARKED: dict[str, State] = {
    state.__name__: state
    for state in (
        packed,
        sparse,
        stashed,
        dirty,
        staged,
        odd_names,
        split_index,
        submodule,
        misleading_names,
        replaced,
        alternates,
        worktrees,
        # From here on git itself may fail, or do something else than it is asked.
        large_files,
        signing,
        other_settings,
        failing_hooks,
        locked,
    )
}


def _all_commands(watched: Any, folder: Path, tip: str) -> None:
    plan = str(watched.repo.path / "patches" / "compile-it")
    for words, code in (
        (("status",), 0),
        (("apply", plan, "--onto", "no-such-branch"), 2),
        (("apply", plan), 0),
        (("apply", plan, "--dry-run"), 0),
        (("review", plan), 0),
    ):
        done = porttool(*words, folder=folder)
        assert done.exit_code == code, (words, done.output)
        assert watched.harm() == [], words
    assert watched.repo.git("--no-replace-objects", "rev-parse", BRANCH) == tip


@settings(
    max_examples=NUM_EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    busy=st.sampled_from(["", *BUSY]),
    more=st.lists(st.sampled_from([*MARKED]), max_size=5, unique=True),
)
def test_a_repository_in_any_state_is_left_so_and_ported_alike(
    make_port: Callable[[], Any],
    watch: Callable[[Any], Any],
    port_tip: str,
    busy: str,
    more: list[str],
) -> None:
    repo = make_port()
    if busy:
        BUSY[busy](repo)
    for name, state in MARKED.items():
        if name in more:
            state(repo)
    plan = repo.path / "patches" / "compile-it" / "port.yaml"
    if not plan.exists():
        plan.parent.mkdir(parents=True)
        plan.write_bytes(repo.show("refs/heads/main", "patches/compile-it/port.yaml"))
    _all_commands(watch(repo), repo.path, port_tip)
