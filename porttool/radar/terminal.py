"""The radar as a table for the terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from porttool.radar.values import BranchState, CommitState, Named, Radar, State
from porttool.report import counted
from porttool.review.text import short_line, visible

_STYLES: dict[State, str] = {
    "already there": "dim",
    "ports clean": "green",
    "needs rules": "yellow",
    "conflicts": "red",
}
_COUNTED: dict[State, str] = {
    "already there": "already there",
    "ports clean": "clean",
    "needs rules": "in need of rules",
    "conflicts": "in conflict",
}
_MAX_WHY = 100
_MAX_LEFT_OUT = 8


def terminal(radar: Radar) -> RenderableType:
    """Return a row for each branch, the one that ports best first, and what was left out."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("branch", overflow="fold")
    table.add_column("state", no_wrap=True)
    table.add_column("commits", no_wrap=True)
    table.add_column("behind", justify="right", no_wrap=True)
    table.add_column("began to conflict, or why", overflow="fold")
    for branch in radar.branches:
        table.add_row(
            Text("\n".join(map(visible, (branch.name, *branch.also)))),
            Text(branch.state, style=_STYLES[branch.state]),
            Text(_numbers(branch.counts)),
            str(branch.behind),
            Text("\n".join(why(branch))),
        )
    left = radar.left_out[:_MAX_LEFT_OUT]
    lines = [f"left out: {visible(out.name)}: {visible(out.why)}" for out in left]
    more = len(radar.left_out) - len(left)
    lines += [f"and {more} more, which --json lists"] if more else []
    return Group(table, *(Text(line, style="dim") for line in lines))


def why(branch: BranchState) -> list[str]:
    """Return what there is to say of a branch: since when, and of which commit."""
    lines = []
    for commit in branch.commits:
        if commit.state == branch.state and (commit.reasons or commit.clashes):
            lines.append(short_line(f"{commit.id[:12]} {reason(commit)}", _MAX_WHY))
            break
    if branch.since is not None:
        lines.insert(0, short_line(f"since {named(branch.since)}", _MAX_WHY))
    ports = {commit.port: commit.port_branch for commit in branch.commits if commit.port}
    return [
        *lines,
        *(f"porttool {'refresh' if made else 'apply'} {port}" for port, made in ports.items()),
    ]


def reason(commit: CommitState) -> str:
    """Return why a commit is in its state, in a sentence."""
    parts = [f"{clash.kind}: {', '.join(clash.paths)}" for clash in commit.clashes]
    if commit.with_earlier:
        parts.append(f"picked with {counted(commit.with_earlier, 'commit')} before it")
    return "; ".join((*parts, *commit.reasons))


def _numbers(counts: Mapping[State, int]) -> str:
    return ", ".join(f"{n} {_COUNTED[state]}" for state, n in counts.items() if n)


def named(commit: Named) -> str:
    """Return a commit's short id and subject."""
    return f"{commit.id[:12]} {commit.subject}"


def summary(radar: Radar) -> str:
    """Return the whole in one line."""
    counts = _numbers(radar.counts)
    number = len(radar.branches)
    branches = f"{number} unmerged {'branch' if number == 1 else 'branches'}"
    return f"{branches} on {radar.onto} {radar.onto_id[:12]}" + (f": {counts}" if counts else "")
