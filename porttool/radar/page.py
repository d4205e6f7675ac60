"""The radar as one page: a heat map of branches over onto's history, and every commit below it.

The page needs no network and no script. Whatever comes from a repository stands in it as text.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from pathlib import Path

from porttool.errors import PortError
from porttool.radar.terminal import named, reason, summary
from porttool.radar.values import STATES, BranchState, CommitState, Radar, State
from porttool.report import counted
from porttool.review.text import short, visible

_MAX_COLUMNS = 48
_MAX_TEXT = 400
_CLASSES: dict[State, str] = {
    "already there": "there",
    "ports clean": "clean",
    "needs rules": "rules",
    "conflicts": "conflict",
}
_STYLE = """\
:root { color-scheme: light dark; --ink: #1c1f23; --dim: #656c76; --line: #d9dde2; --paper: #fff;
  --there: #8a919b; --clean: #2b7a3f; --rules: #8a5a00; --conflict: #b3261e; --heat: 179, 38, 30; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7eb; --dim: #9aa3ae; --line: #343a42;
  --paper: #15181c; --there: #9aa3ae; --clean: #6cc283; --rules: #e0ad55; --conflict: #ff8a80;
  --heat: 255, 138, 128; } }
body { margin: 2rem auto; max-width: 76rem; padding: 0 1rem; color: var(--ink);
  background: var(--paper); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p.dim, .dim, th { color: var(--dim); font-weight: normal; }
table { border-collapse: collapse; width: 100%; } th { text-align: left; }
td, th { padding: .15rem .5rem .15rem 0; vertical-align: top; overflow-wrap: anywhere; }
tr + tr > td { border-top: 1px solid var(--line); }
.map { overflow-x: auto; } .map td.cell { padding: 0; min-width: .8rem; border: 0; }
.map tr:hover td { background: var(--line); } .map th, .map td:first-child { white-space: nowrap; }
.map table { width: auto; } .state { white-space: nowrap; }
.there { color: var(--there); } .clean { color: var(--clean); } .rules { color: var(--rules); }
.conflict { color: var(--conflict); } code { font: 13px ui-monospace, monospace; }
td.away { background: none; } td.ok { background: rgba(43, 122, 63, .18); }
td.h1 { background: rgba(var(--heat), .3); } td.h2 { background: rgba(var(--heat), .55); }
td.h3 { background: rgba(var(--heat), .8); } td.h4 { background: rgba(var(--heat), 1); }
details { border-top: 1px solid var(--line); padding: .3rem 0; } summary { cursor: pointer; }
a { color: inherit; } @media print { details > * { display: block; } }
"""


def page(radar: Radar) -> str:
    """Return the whole page as HTML."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta http-equiv="Content-Security-Policy" '
            "content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>radar: {_text(radar.onto)}</title>",
            f"<style>\n{_STYLE}</style></head><body>",
            f"<h1>{_text(summary(radar))}</h1>",
            '<p class="dim">Every commit of every unmerged branch, picked onto the tip in memory. '
            "Merges are not picked.</p>",
            *_map(radar),
            *_culprits(radar),
            "<h2>Branches</h2>",
            *(
                part
                for number, branch in enumerate(radar.branches)
                for part in _one(number, branch)
            ),
            *_left_out(radar),
            "</body></html>\n",
        ]
    )


def write_page(path: Path, radar: Radar) -> None:
    """Write the page to a file; raises PortError where it cannot be written."""
    try:
        path.write_text(page(radar), encoding="utf-8")
    except OSError as error:
        raise PortError(
            "the page cannot be written",
            where=str(path),
            why=error.strerror,
            next="name a file in a folder that can be written: porttool radar --html FILE",
        ) from error


def _map(radar: Radar) -> Iterator[str]:
    if not radar.branches:
        return
    columns = _columns(len(radar.line))
    yield "<h2>Since when</h2>"
    yield (
        f'<p class="dim">A row for each branch; from left to right {_text(radar.onto)} since the '
        f"oldest of them left it, {counted(len(radar.line), 'commit')}. Green: the branch is there "
        "and all of its commits would have been picked clean; the redder, the more of them "
        "conflict.</p>"
    )
    yield '<div class="map" tabindex="0"><table><thead><tr><th>branch</th><th>state</th>'
    yield f'<th colspan="{max(1, len(columns))}">oldest to newest</th></tr></thead><tbody>'
    for number, branch in enumerate(radar.branches):
        cells = "".join(_cell(radar, branch, first, last) for first, last in columns)
        yield (
            f'<tr><td><a href="#b{number}">{_text(short(branch.name, 60))}</a></td>'
            f'<td class="state {_CLASSES[branch.state]}">{branch.state}</td>{cells}</tr>'
        )
    yield "</tbody></table></div>"


def _columns(length: int) -> list[tuple[int, int]]:
    """Return the first and the last place of each column of the map."""
    width = max(1, -(-length // _MAX_COLUMNS))
    return [(first, min(first + width, length) - 1) for first in range(0, length, width)]


def _cell(radar: Radar, branch: BranchState, first: int, last: int) -> str:
    if last < branch.left or (last == branch.left and branch.left != len(radar.line) - 1):
        return '<td class="cell away"></td>'
    stopped = sum(c.moment is not None and c.moment <= last for c in branch.commits)
    heat = -(-4 * stopped // max(1, len(branch.commits)))
    title = f"{counted(stopped, 'commit')} of {len(branch.commits)} conflict at "
    title += named(radar.line[last])
    kind = f"h{heat}" if heat else "ok"
    return f'<td class="cell {kind}" title="{_text(short(title, _MAX_TEXT))}"></td>'


def _culprits(radar: Radar) -> Iterator[str]:
    """List the commits of onto at which the most picks began to conflict."""
    begun: dict[int, list[tuple[BranchState, CommitState]]] = {}
    for branch in radar.branches:
        for commit in branch.commits:
            if commit.moment is not None:
                begun.setdefault(commit.moment, []).append((branch, commit))
    if not begun:
        return
    yield f"<h2>Where {_text(radar.onto)} moved away from the most</h2><table><tbody>"
    for place in sorted(begun, key=lambda place: (-len(begun[place]), place))[:12]:
        names = dict.fromkeys(branch.name for branch, _ in begun[place])
        yield (
            f"<tr><td><code>{radar.line[place].id[:12]}</code> "
            f"{_text(short(radar.line[place].subject, _MAX_TEXT))}</td>"
            f"<td>{counted(len(begun[place]), 'commit')}</td>"
            f'<td class="dim">{_text(short(", ".join(names), _MAX_TEXT))}</td></tr>'
        )
    yield "</tbody></table>"


def _one(number: int, branch: BranchState) -> Iterator[str]:
    open_ = " open" if branch.state in STATES[2:] and len(branch.commits) < 4 else ""
    yield (
        f"<details{open_}><summary>{_text(short(branch.name, _MAX_TEXT))} "
        f'<span class="{_CLASSES[branch.state]}">{branch.state}</span> <span class="dim">'
        f"{counted(len(branch.commits), 'commit')}, behind by {branch.behind}, {branch.date}"
        "</span></summary>"
    )
    if branch.also:
        yield f'<p class="dim">also {_text(short(", ".join(branch.also), _MAX_TEXT))}</p>'
    if branch.num_merges:
        yield f'<p class="dim">{counted(branch.num_merges, "merge")} not picked</p>'
    # The anchor stands inside: a browser opens what is folded around the place it goes to.
    yield f'<table id="b{number}"><tbody>'
    for commit in branch.commits:
        since = f"since {named(commit.since)}" if commit.since else ""
        port = f"port {commit.port}" if commit.port else ""
        words = "<br>".join(
            _text(short(part, _MAX_TEXT)) for part in (since, reason(commit), port) if part
        )
        yield (
            f"<tr><td><code>{commit.id[:12]}</code> {_text(short(commit.subject, _MAX_TEXT))}"
            f'<br><span class="dim">{_text(short(commit.author, _MAX_TEXT))}, {commit.date}</span>'
            f'</td><td class="state {_CLASSES[commit.state]}">{commit.state}</td>'
            f"<td>{words}</td></tr>"
        )
    yield "</tbody></table></details>"


def _left_out(radar: Radar) -> Iterator[str]:
    if not radar.left_out:
        return
    yield "<h2>Left out</h2><table><tbody>"
    for left in radar.left_out:
        name = _text(short(left.name, _MAX_TEXT))
        yield f'<tr><td>{name}</td><td class="dim">{_text(left.why)}</td></tr>'
    yield "</tbody></table>"


def _text(text: str) -> str:
    return html.escape(visible(text))
