"""Real repositories in a sealed room: nothing of the machine's git set-up reaches a test.

Tests ask for `make_repo`; its repositories have the same commit ids on every machine and every run.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from porttool.cli import app

# What the cases hold is read and ported, never run as tests of ours.
collect_ignore = ["cases"]
FIRST_SECOND = 1_700_000_000  # 2023-11-14T22:13:20Z; every commit is a minute after the last
IDENTITY = "Ada Lovelace <ada@example.org>"


@pytest.fixture(autouse=True)
def sealed_git(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seal git off from this machine's home, configuration, identity and `GIT_*`; return HOME."""
    home = tmp_path_factory.mktemp("home")
    _seal(monkeypatch, home)
    return home


def _seal(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
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
        out = self.git_bytes(*args, input=input, env=env, cwd=cwd)
        return out.decode("utf-8", "surrogateescape").rstrip("\n")

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


_PUBLISHED = {"refs/heads/port/compile-it", "refs/notes/porttool"}
Seen = Mapping[str, tuple[int, bytes]]


def contents(folder: Path, *, without: tuple[str, ...] = ()) -> Seen:
    """Return every file, folder and link below a folder, with its mode and what it holds."""
    found = {}
    for root, folders, files in os.walk(os.fsencode(folder)):
        at = os.path.relpath(root, os.fsencode(folder))
        folders[:] = [
            n
            for n in folders
            if os.path.normpath(os.path.join(at, n)).decode("utf-8", "surrogateescape")
            not in without
        ]
        for name in (*folders, *files):
            path = os.path.join(root, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                data = os.readlink(path)
            else:
                data = Path(os.fsdecode(path)).read_bytes() if stat.S_ISREG(mode) else b""
            key = os.path.normpath(os.path.join(at, name)).decode("utf-8", "surrogateescape")
            found[key] = (mode, data)
    return found


class Watched:
    """A repository, and what of it no command may change."""

    def __init__(self, repo: WorkRepo, tmp: Path) -> None:
        self.repo = repo
        self.tmp = tmp
        self.common = Path(repo.git("rev-parse", "--path-format=absolute", "--git-common-dir"))
        self.before = self.look()

    def look(self) -> tuple[Seen, Seen]:
        tree = {} if self.repo.path == self.common else contents(self.repo.path, without=(".git",))
        return contents(self.common, without=("objects",)), tree

    def objects(self) -> Seen:
        """Return the object store."""
        return contents(self.common / "objects")

    def harm(self) -> list[str]:
        """Return what is not as it was, the announced references apart."""
        found = [f"left in the temporary folder: {path}" for path in os.listdir(self.tmp)]
        for was, now in zip(self.before, self.look(), strict=True):
            for path in sorted({*was, *now}):
                if was.get(path) != now.get(path) and not _announced(path, now.get(path)):
                    found.append(f"{path}: {was.get(path)} became {now.get(path)}")
        return found


def _announced(path: str, now: tuple[int, bytes] | None) -> bool:
    own = {*_PUBLISHED, *(f"logs/{ref}" for ref in _PUBLISHED)}
    is_parent = any(name.startswith(f"{path}/") for name in own)
    return path in own or (is_parent and now is not None and stat.S_ISDIR(now[0]))


# One small port: a learner that an experiment wrapped, and a main that has moved on since.
_CONFIG = '''\
"""Settings."""

from dataclasses import dataclass, field


@dataclass
class Network:
    size: int = 4


@dataclass
class Config:
    network: Network = field(default_factory=Network)
'''
_LEARNER = '''\
"""One network and its optimizer."""

import torch

from config import Config


class Learner:
    def __init__(self, config: Config) -> None:
        self.net = torch.nn.Linear(3, config.network.size)
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def save(self, path: str) -> None:
        torch.save({"net": self.net.state_dict()}, path)
'''
_EXPERIMENT = (
    _LEARNER.replace(
        "torch.nn.Linear(3, config.network.size)",
        "torch.compile(torch.nn.Linear(3, config.network.size))",
    )
    .replace('"net": self.net.state_dict()', '"net": _clean(self.net.state_dict())')
    .replace(
        "class Learner",
        "def _clean(state: dict) -> dict:\n"
        '    return {key.removeprefix("_orig_mod."): value for key, value in state.items()}\n\n\n'
        "class Learner",
    )
)
_MOVED_ON = """
    def push(self, queue) -> None:
        queue.put(self.net.state_dict())
"""
_PLAN = """\
name: compile-it
experiment: {{branch: experiments/compile, commits: ["{experiment}"]}}
switch:
  module: src/config.py
  root: Config
  key: compile
  class: CompileConfig
  gate: compile.trainer.enabled
  sections:
    - key: trainer
      class: CompileTrainer
      fields:
        - {{name: enabled, type: bool, default: false}}
  yaml: [big.yaml]
verify:
  pythonpath: [src]
  timeout_s: 60
  checks:
    - {{name: imports, command: [python, -c, "import config"]}}
"""


@pytest.fixture(scope="session")
def _port_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "repo"
    path.mkdir()
    repo = WorkRepo(path)
    with pytest.MonkeyPatch.context() as patch:
        _seal(patch, tmp_path_factory.mktemp("template-home"))
        repo.git("init", "--quiet", "--initial-branch=main")
        repo.commit(
            {
                "src/config.py": _CONFIG,
                "src/learner.py": _LEARNER,
                "big.yaml": "network:\n  size: 8\n",
            },
            "base",
        )
        repo.switch("experiments/compile", "main")
        experiment = repo.commit({"src/learner.py": _EXPERIMENT}, "compile it")
        repo.switch("main")
        repo.commit({"src/learner.py": _LEARNER + _MOVED_ON}, "push to workers")
        plan = {"patches/compile-it/port.yaml": _PLAN.format(experiment=experiment)}
        repo.commit(plan, "a port, not applied")
    return path


@pytest.fixture(scope="session")
def port_tip(_port_template: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what the port of `make_port` gives in a repository where nothing is going on."""
    path = tmp_path_factory.mktemp("tip") / "repo"
    shutil.copytree(_port_template, path, symlinks=True)
    with pytest.MonkeyPatch.context() as patch:
        _seal(patch, tmp_path_factory.mktemp("tip-home"))
        done = CliRunner().invoke(app, ["apply", "--repo", str(path)])
        assert done.exit_code == 0, done.output
        return WorkRepo(path).id("refs/heads/port/compile-it")


@pytest.fixture
def make_port(_port_template: Path, tmp_path_factory: pytest.TempPathFactory) -> MakePort:
    """Return `make_port()`: a new copy of a repository with the port `compile-it`, not applied."""

    def make() -> WorkRepo:
        path = tmp_path_factory.mktemp("port") / "repo"
        shutil.copytree(_port_template, path, symlinks=True)
        return WorkRepo(path)

    return make


MakePort = Callable[[], WorkRepo]
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


@pytest.fixture
def tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the folder for temporary files, for this process and those that it starts."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield folder
    tempfile.tempdir = None


@pytest.fixture
def watch(tmp: Path) -> Callable[[WorkRepo], Watched]:
    """Return `watch(repo)`: what no command may change of a repository, as it is now."""

    def start(repo: WorkRepo) -> Watched:
        return Watched(repo, tmp)

    return start
