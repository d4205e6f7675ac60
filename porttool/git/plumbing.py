"""Starts git, and nothing but git, with an environment in which nothing from outside is left.

Arguments are lists, never a shell's line. Hooks, replacements of objects, pagers, prompts and
signatures are off in every process started here.
"""

from __future__ import annotations

import functools
import os
import signal
import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from porttool.errors import RepositoryError
from porttool.frozen import dataclass

# What may pass from the outside: where git's own configuration and programs are, who the user is,
# and how to reach a remote. Everything else named GIT_* changes what a command means.
_KEPT = (
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_EXEC_PATH",
    "GIT_AUTHOR_",
    "GIT_COMMITTER_",
    "GIT_SSH",
    "GIT_SSL",
    "GIT_HTTP",
    "GIT_PROXY",
    "GIT_ASKPASS",
    "GIT_ALLOW_PROTOCOL",
    "GIT_CEILING_DIRECTORIES",
    "GIT_TERMINAL_PROMPT",
)

_ALWAYS = (
    "--no-pager",
    "--no-replace-objects",
    "--no-optional-locks",
    *("-c", f"core.hooksPath={os.devnull}"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "gc.auto=0"),
    *("-c", "maintenance.auto=false"),
    *("-c", "commit.gpgSign=false"),
    # Milliseconds to wait for another git that sets the same references.
    *("-c", "core.filesRefLockTimeout=1000"),
)


@functools.cache
def _local_variables() -> frozenset[str]:
    done = _start(["git", "rev-parse", "--local-env-vars"], os.environ, None)
    return frozenset(done.stdout.decode().split())


def environment() -> dict[str, str]:
    """Return this process's environment without what ties git to one repository.

    The list is git's own (`git rev-parse --local-env-vars`), so that a check that runs git, started
    from within a hook or an alias, works on the folder it stands in.
    """
    # All of them begin alike; where none does, git need not be asked.
    asked = any(name.startswith("GIT_") for name in os.environ)
    local = _local_variables() if asked else frozenset()
    return {name: value for name, value in os.environ.items() if name not in local}


@dataclass(frozen=True)
class Finished:
    """What a git process said, and its exit status."""

    status: int
    out: bytes
    err: bytes

    @property
    def words(self) -> str:
        """Return what git printed for people, on one line."""
        lines = self.err.decode("utf-8", "replace").strip().splitlines()
        return "; ".join(line.strip() for line in lines if line.strip())


class Git:
    """Runs git in one repository; `num_processes` counts what it started."""

    def __init__(
        self,
        folder: Path,
        *,
        git_dir: Path | None = None,
        options: tuple[str, ...] = (),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.num_processes = 0
        self._command = ["git", *_ALWAYS, *options]
        if git_dir is not None:
            self._command.append(f"--git-dir={git_dir}")
        self._environment = {
            name: value
            for name, value in environment().items()
            if not name.startswith("GIT_") or name.startswith(_KEPT)
        }
        self._environment |= {"LC_ALL": "C", "LANGUAGE": "C", "GIT_TERMINAL_PROMPT": "0"}
        # Like a replacement of objects, a graft shows another history than the one that is there.
        self._environment["GIT_GRAFT_FILE"] = os.path.join(os.devnull, "none")
        self._environment |= variables or {}

    def run(
        self,
        *args: str,
        input: bytes = b"",
        ok: Collection[int] = (0,),
        variables: Mapping[str, str] | None = None,
        apart: bool = False,
    ) -> Finished:
        """Run one command to its end.

        With `apart`, what is sent to the terminal's process group does not reach it. Raises
        RepositoryError with git's own words unless the exit status is one of `ok`.
        """
        self.num_processes += 1
        done = _start(
            [*self._command, *args],
            {**self._environment, **(variables or {})},
            self.folder,
            input,
            apart=apart,
        )
        finished = Finished(done.returncode, done.stdout, done.stderr)
        if finished.status not in ok:
            raise RepositoryError(
                f"git {_subcommand(args)} {_ended(finished.status)}",
                where=str(self.folder),
                why=finished.words or "git gave no reason",
            )
        return finished

    def converse(self, *args: str) -> subprocess.Popen[bytes]:
        """Start a command that answers requests until its input is closed."""
        self.num_processes += 1
        return subprocess.Popen(
            [*self._command, *args],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )


def _subcommand(args: Sequence[str]) -> str:
    at = 0
    while args[at] == "-c":
        at += 2
    return args[at]


def _ended(status: int) -> str:
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"failed with exit status {status}"


def _start(
    command: list[str],
    variables: Mapping[str, str],
    folder: Path | None,
    input: bytes = b"",
    *,
    apart: bool = False,
) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            command,
            cwd=folder,
            env=variables,
            input=input,
            capture_output=True,
            check=False,
            start_new_session=apart,
        )
    except FileNotFoundError as error:
        if folder is not None and not folder.is_dir():
            raise RepositoryError(
                "there is no such folder",
                where=str(folder),
                why="it is not there, or it is a file",
                next="name an existing one with --repo PATH",
            ) from error
        raise RepositoryError(
            "git is not installed, or not on the PATH",
            where=f"PATH={os.environ.get('PATH', '')}",
            why="porttool reads and writes git repositories through git",
            next="install git 2.38 or newer",
        ) from error
