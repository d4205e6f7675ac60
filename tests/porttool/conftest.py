"""Real repositories in a sealed room: nothing of the machine's git set-up reaches a test.

Tests ask for `make_repo`; its repositories have the same commit ids on every machine and every run.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

FIRST_SECOND = 1_700_000_000  # 2023-11-14T22:13:20Z; every commit is a minute after the last
IDENTITY = "Ada Lovelace <ada@example.org>"


@pytest.fixture(autouse=True)
def sealed_git(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seal git off from this machine's home, configuration, identity and `GIT_*`; return HOME."""
    home = tmp_path_factory.mktemp("home")
    for name in list(os.environ):
        if name.startswith(("GIT_", "XDG_")) or name in ("EMAIL", "EDITOR", "VISUAL", "PAGER"):
            monkeypatch.delenv(name)
    config = home / "gitconfig"
    config.write_text(
        "[user]\n\tname = Grace Hopper\n\temail = grace@example.org\n"
        "[init]\n\tdefaultBranch = main\n"
        "[gc]\n\tauto = 0\n"
        "[maintenance]\n\tauto = false\n"
        "[advice]\n\tdetachedHead = false\n"
        '[protocol "file"]\n\tallow = always\n'
    )
    for name, value in {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "GIT_CONFIG_GLOBAL": str(config),
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_EDITOR": "false",
        "GIT_PAGER": "cat",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
    }.items():
        monkeypatch.setenv(name, value)
    return home


class WorkRepo:
    """A repository on disk with a working tree, and the few steps that tests take in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._commits = 0

    def git(
        self,
        *args: str,
        input: bytes | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> str:
        """Run git here and return its output without the last newline; fail with git's words."""
        return self.git_bytes(*args, input=input, env=env, cwd=cwd).decode().rstrip("\n")

    def git_bytes(
        self,
        *args: str,
        input: bytes | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> bytes:
        done = self.try_git(*args, input=input, env=env, cwd=cwd)
        if done.returncode:
            raise AssertionError(f"git {' '.join(args)}: {(done.stdout + done.stderr).decode()}")
        return done.stdout

    def try_git(
        self,
        *args: str,
        input: bytes | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run git here, whatever comes of it."""
        return subprocess.run(
            ["git", *args],
            cwd=cwd or self.path,
            env={**os.environ, **(env or {})},
            input=input if input is not None else b"",
            capture_output=True,
            check=False,
        )

    def write(self, changes: Mapping[str, bytes | str | None]) -> None:
        """Write files into the working tree; None deletes one."""
        for name, content in changes.items():
            target = self.path / name
            if content is None:
                target.unlink()
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.encode() if isinstance(content, str) else content)

    def commit(
        self,
        changes: Mapping[str, bytes | str | None],
        message: str | bytes = "change",
        *,
        author: str = IDENTITY,
        encoding: str | None = None,
    ) -> str:
        """Write and commit everything on the current branch; return the new id."""
        self.write(changes)
        self.git("add", "-A")
        return self.commit_staged(message, author=author, encoding=encoding)

    def commit_staged(
        self,
        message: str | bytes = "change",
        *,
        author: str = IDENTITY,
        encoding: str | None = None,
    ) -> str:
        """Commit what is staged; return the new id."""
        moment = f"{FIRST_SECOND + 60 * self._commits} +0100"
        self._commits += 1
        name, email = author.rstrip(">").split(" <")
        options = ["-c", f"i18n.commitEncoding={encoding}"] if encoding else []
        self.git(
            *options,
            *("commit", "--quiet", "--allow-empty", "--no-gpg-sign", "--no-verify"),
            *("--cleanup=verbatim", "-F", "-"),
            input=message.encode() if isinstance(message, str) else message,
            env={
                "GIT_AUTHOR_NAME": name,
                "GIT_AUTHOR_EMAIL": email,
                "GIT_AUTHOR_DATE": moment,
                "GIT_COMMITTER_NAME": name,
                "GIT_COMMITTER_EMAIL": email,
                "GIT_COMMITTER_DATE": moment,
            },
        )
        return self.id("HEAD")

    def switch(self, branch: str, start: str | None = None) -> None:
        """Switch to a branch; with a start, make it there first."""
        if start is None:
            self.git("switch", "--quiet", branch)
        else:
            self.git("switch", "--quiet", "-c", branch, start)

    def id(self, revision: str) -> str:
        """Return the full id of a revision."""
        return self.git("rev-parse", "--verify", "--end-of-options", revision)

    def show(self, revision: str, path: str) -> bytes:
        """Return a file as it is at a revision."""
        return self.git_bytes("cat-file", "blob", f"{revision}:{path}")

    def listing(self, revision: str) -> dict[str, bytes]:
        """Return every file at a revision."""
        names = self.git_bytes("ls-tree", "-r", "-z", "--name-only", revision).decode()
        return {name: self.show(revision, name) for name in names.split("\0") if name}

    def git_folder(self) -> dict[str, tuple[int, int, bytes]]:
        """Return every file under .git as mode, mtime_ns and content: what "unchanged" means."""
        folder = Path(self.git("rev-parse", "--absolute-git-dir"))
        found = {}
        for file in sorted(folder.rglob("*")):
            if file.is_file() and not file.is_symlink():
                status = file.stat()
                name = str(file.relative_to(folder))
                found[name] = (status.st_mode, status.st_mtime_ns, file.read_bytes())
        return found


MakeRepo = Callable[..., WorkRepo]


@pytest.fixture
def make_repo(tmp_path: Path) -> MakeRepo:
    """Return `make_repo(files, *, name="repo", message="base")`.

    The repository's branch is `main`; with files it has one commit, without any it has none.
    """

    def make(
        files: Mapping[str, bytes | str] | None = None,
        *,
        name: str = "repo",
        message: str = "base",
        object_format: str = "sha1",
    ) -> WorkRepo:
        path = tmp_path / name
        path.mkdir(parents=True)
        repo = WorkRepo(path)
        repo.git("init", "--quiet", f"--object-format={object_format}", "--initial-branch=main")
        if files:
            repo.commit(files, message)
        return repo

    return make
