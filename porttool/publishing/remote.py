"""A remote of the user's repository: what is there, and what is pushed to it, under a lease."""

from __future__ import annotations

import os
import re
import shlex
import sys
from urllib.parse import urlsplit

from porttool.errors import NeedsPerson, RepositoryError
from porttool.frozen import dataclass
from porttool.git.commits import CommitId
from porttool.git.plumbing import Finished, Git
from porttool.git.repo import Repository

_SCP = re.compile(r"(?:[^@/:]+@)?(?P<host>[^@/:]+):(?!//)(?P<path>.+)")
_ADDRESS = re.compile(r"https?://[^\s@]+")


@dataclass(frozen=True)
class Host:
    """Where a remote is: the server, and the project's path on it."""

    name: str
    path: str


@dataclass(frozen=True)
class Remote:
    """A remote's name, where it is if it is on a server, and git as it may talk to it."""

    name: str
    host: Host | None
    git: Git


def open_remote(repo: Repository, name: str | None) -> Remote:
    """Return a remote by its name, or the usual one; raises RepositoryError where there is none."""
    known = repo.remotes()
    if not known:
        raise RepositoryError(
            "there is no remote to push to",
            where=str(repo.root or repo.git_dir),
            why="git remote lists none",
            next="git remote add origin URL",
        )
    chosen = name or known[0]
    if chosen not in known:
        raise RepositoryError(
            f"there is no remote `{chosen}`",
            where=str(repo.root or repo.git_dir),
            why=f"the remotes here are {', '.join(known)}",
            next=f"--remote {shlex.quote(known[0])}",
        )
    git = Git(
        repo.root or repo.git_dir,
        git_dir=repo.git_dir,
        # A push is the user's own, so the user's hooks see it, as with `git push`.
        options=("-c", f"core.hooksPath={_hooks(repo)}", *_quiet_prompts()),
        variables=_prompts(repo),
    )
    url = git.run("remote", "get-url", "--push", "--", chosen).out.decode(
        "utf-8", "surrogateescape"
    )
    return Remote(chosen, host_of(url.strip()), git)


def host_of(url: str) -> Host | None:
    """Return the server and the path that a remote's address names, None for a place on disk."""
    if "://" in url:
        parts = urlsplit(url)
        name, path = parts.hostname or "", parts.path
        if parts.scheme == "file":
            return None
    else:
        found = _SCP.fullmatch(url)
        if found is None:
            return None
        name, path = found["host"], found["path"]
    path = path.strip("/").removesuffix(".git")
    return Host(name.lower(), path) if name and path else None


def tips_there(remote: Remote, refs: tuple[str, ...]) -> dict[str, CommitId]:
    """Return which references the remote has now; raises RepositoryError if it does not answer."""
    done = remote.git.run("ls-remote", "--", remote.name, *refs, ok=range(256))
    if done.status:
        raise RepositoryError(
            f"the remote {remote.name} does not answer",
            where=remote.name,
            why=_safe(done.words),
            next=f"git ls-remote {shlex.quote(remote.name)}",
        )
    lines = done.out.decode("utf-8", "surrogateescape").splitlines()
    pairs = (line.split("\t", 1) for line in lines)
    return {ref: CommitId(id) for id, ref in pairs if ref in refs}


def push(remote: Remote, tip: CommitId, ref: str, expected: CommitId | None) -> tuple[str, ...]:
    """Push a commit to a reference that has to be as expected still; return what the remote says.

    Raises NeedsPerson where somebody else was faster, RepositoryError for anything else.
    """
    lease = f"--force-with-lease={ref}:{expected or ''}"
    done = remote.git.run(
        "push", "--porcelain", lease, "--", remote.name, f"{tip}:{ref}", ok=range(256)
    )
    if done.status == 0:
        return _said_by_remote(done)
    if "stale info" in done.out.decode("utf-8", "replace"):
        raise NeedsPerson(
            f"{ref} has moved on {remote.name}; nothing was pushed",
            where=remote.name,
            why="somebody has pushed to it since it was last looked at",
            next=f"git fetch {shlex.quote(remote.name)}, then look at it before you publish again",
        )
    raise RepositoryError(
        f"{remote.name} does not take {ref}; nothing was pushed",
        where=remote.name,
        why=_safe(done.words or "git gave no reason"),
        next=f"git push --dry-run {shlex.quote(remote.name)} {tip}:{shlex.quote(ref)}",
    )


def push_command(remote: Remote, tip: CommitId, ref: str, expected: CommitId | None) -> str:
    """Return the push as a person could type it."""
    lease = shlex.quote(f"--force-with-lease={ref}:{expected or ''}")
    return f"git push {lease} {shlex.quote(remote.name)} {tip}:{shlex.quote(ref)}"


def _said_by_remote(done: Finished) -> tuple[str, ...]:
    """Return the addresses that a server prints on a push: where to open a pull request."""
    words = done.err.decode("utf-8", "replace")
    lines = [line.removeprefix("remote:").strip() for line in words.splitlines()]
    return tuple(line for line in lines if _ADDRESS.fullmatch(line))


def _hooks(repo: Repository) -> str:
    """Return the folder of the user's hooks, which git is told not to look into elsewhere."""
    listed = repo.git.run("config", "--show-scope", "--get-all", "core.hooksPath", ok=(0, 1))
    scopes = [
        line.split("\t", 1) for line in listed.out.decode("utf-8", "surrogateescape").splitlines()
    ]
    own = [value for scope, value in scopes if scope != "command"]
    if own:
        return os.path.join(repo.root or repo.git_dir, os.path.expanduser(own[-1]))
    common = repo.git.run("rev-parse", "--path-format=absolute", "--git-common-dir")
    return os.path.join(common.out.decode("utf-8", "surrogateescape").removesuffix("\n"), "hooks")


def _prompts(repo: Repository) -> dict[str, str]:
    """Return what lets git and ssh ask a person at a terminal, and nobody elsewhere."""
    if sys.stdin.isatty() and sys.stderr.isatty():
        return {"GIT_TERMINAL_PROMPT": "1"}
    configured = repo.git.run("config", "--get", "core.sshCommand", ok=(0, 1))
    command = os.environ.get("GIT_SSH_COMMAND") or configured.out.decode().strip() or "ssh"
    return {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_SSH_COMMAND": f"{command} -o BatchMode=yes",
        "SSH_ASKPASS_REQUIRE": "never",
        "GIT_ASKPASS": "",
    }


def _quiet_prompts() -> tuple[str, ...]:
    at_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    return () if at_terminal else ("-c", "core.askPass=")


def _safe(words: str) -> str:
    """Return git's words without what may stand in front of a server's name in an address."""
    return re.sub(r"(?<=://)[^/@\s]+@", "", words)
