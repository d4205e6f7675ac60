"""Pull requests by the programs that hosts give: `gh` for GitHub, `glab` for GitLab."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from porttool.errors import PortError
from porttool.frozen import dataclass
from porttool.git.plumbing import environment
from porttool.publishing.remote import Host

Program = Literal["gh", "glab"]
TIMEOUT_S = 120
# Nobody is there to answer, and nothing but the answer may be printed.
_SILENT = {
    "GH_PROMPT_DISABLED": "1",
    "GH_NO_UPDATE_NOTIFIER": "1",
    "GLAB_CHECK_UPDATE": "false",
    "NO_PROMPT": "true",
    "NO_COLOR": "1",
    "PAGER": "cat",
}


@dataclass(frozen=True)
class Request:
    """A pull request as it should be: its branch, where that goes, and its words."""

    branch: str
    base: str
    title: str
    body: str
    draft: bool = False


@dataclass(frozen=True)
class Opened:
    """What became of a pull request, and its address."""

    address: str
    updated: bool


class HostError(PortError):
    """A host's program did not do what it was asked for."""


def program_for(host: Host | None) -> Program | None:
    """Return the program that knows a host; None where none is there, or which cannot be told."""
    if host is None:
        return None
    names: tuple[Program, ...] = ("gh", "glab")
    there = [name for name in names if shutil.which(name)]
    known: Program | None = None
    if "github" in host.name:
        known = "gh"
    elif "gitlab" in host.name:
        known = "glab"
    if known is not None:
        return known if known in there else None
    return there[0] if len(there) == 1 else None


def offer(program: Program, host: Host, request: Request, body_file: Path, folder: Path) -> Opened:
    """Open a pull request, or bring the one that is open up to date; raises HostError."""
    number, address = _open_one(program, host, request.branch, folder)
    command = (
        update_command(program, host, request, body_file, number)
        if number
        else create_command(program, host, request, body_file)
    )
    said = _run(command, folder).strip().splitlines()
    found = [line.strip() for line in said if line.strip().startswith("https://")]
    return Opened(found[-1] if found else address, updated=bool(number))


def create_command(program: Program, host: Host, request: Request, body_file: Path) -> list[str]:
    """Return the command that opens a pull request."""
    draft = ["--draft"] if request.draft else []
    if program == "gh":
        return [
            *("gh", "pr", "create", "--repo", f"{host.name}/{host.path}"),
            *("--head", request.branch, "--base", request.base, "--title", request.title),
            *("--body-file", str(body_file), *draft),
        ]
    return [
        *("glab", "mr", "create", "--repo", f"https://{host.name}/{host.path}"),
        *("--source-branch", request.branch, "--target-branch", request.base),
        *("--title", request.title, "--description", request.body, "--yes", *draft),
    ]


def update_command(
    program: Program, host: Host, request: Request, body_file: Path, number: int
) -> list[str]:
    """Return the command that gives an open pull request new words."""
    if program == "gh":
        return [
            *("gh", "pr", "edit", str(number), "--repo", f"{host.name}/{host.path}"),
            *("--title", request.title, "--body-file", str(body_file)),
        ]
    return [
        *("glab", "mr", "update", str(number), "--repo", f"https://{host.name}/{host.path}"),
        *("--title", request.title, "--description", request.body),
    ]


def _open_one(program: Program, host: Host, branch: str, folder: Path) -> tuple[int, str]:
    """Return number and address of the branch's open pull request; 0 where there is none."""
    if program == "gh":
        command = ["gh", "pr", "list", "--repo", f"{host.name}/{host.path}", "--head", branch]
        command += ["--state", "open", "--limit", "1", "--json", "number,url"]
        number, address = "number", "url"
    else:
        command = ["glab", "mr", "list", "--repo", f"https://{host.name}/{host.path}"]
        command += ["--source-branch", branch, "--output", "json"]
        number, address = "iid", "web_url"
    said = _run(command, folder)
    try:
        found: Any = json.loads(said or "[]")
        first = found[0] if found else {}
        return int(first.get(number, 0)), str(first.get(address, ""))
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise HostError(
            f"{program} does not say which pull requests are open",
            where=shlex.join(command),
            why=f"its answer is not the JSON that was asked for: {said[:200]!r}",
            next=f"{program} --version, and a newer one if it is old",
        ) from error


def _run(command: Sequence[str], folder: Path) -> str:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment() | _SILENT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostError(
            f"{command[0]} {command[1]} {command[2]} did not end",
            why=str(error).split("; ")[0],
            next=f"{command[0]} auth status",
        ) from error
    if done.returncode:
        words = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise HostError(
            f"{command[0]} {command[1]} {command[2]} failed with exit status {done.returncode}",
            why="; ".join(line.strip() for line in words if line.strip())[:1000] or None,
            next=f"{command[0]} auth status",
        )
    return done.stdout.decode("utf-8", "replace")
