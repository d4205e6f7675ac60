"""All that the branch changes, file by file, as HTML: what is left once every place was read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from porttool.report import counted
from porttool.review.decisions import MOST_OPEN, Shown, item, row_html
from porttool.review.diff import Row
from porttool.review.markup import NOTHING, Html, code, join, path, tag, text

_LONG = 400  # a file with more rows is folded from the start


def whole_diff(on: Shown) -> Html:
    """Return every file that differs between onto and the branch; nothing without the files."""
    changed = on.sources.changed
    if not changed:
        return NOTHING
    command = f"git diff {on.report.onto_id[:12]} {on.report.tip[:12]}"
    lead = tag(
        "p",
        text(f"{counted(len(changed), 'file')} against "),
        code(on.report.onto),
        text(", with the sites at their lines. In git: "),
        code(command),
        class_="lead",
    )
    files = (_file(on, number, name, command) for number, name in enumerate(changed, start=1))
    return join((lead, *files))


def _file(on: Shown, number: int, name: str, command: str) -> Html:
    hunks = on.changes.in_file(name)
    rows = [row.kind for hunk in hunks for row in hunk]
    if name not in on.whole:
        words = f"{counted(len(rows), 'line')}, too many for this page: "
        body = tag("p", text(words), code(f"{command} -- {name}"), class_="absent")
    elif hunks:
        body = tag("pre", *_rows(on, name, hunks), class_="diff")
    else:
        body = tag("p", text("Binary, too large, or only its mode differs."), class_="absent")
    return item(
        f"file-{number}",
        tag("span", text(_status(on, name)), class_="badge"),
        tag("span", path(name), class_="what"),
        tag("span", text(f"+{rows.count('+')} -{rows.count('-')}"), class_="where"),
        body=(body,),
        is_open=len(on.sources.changed) <= MOST_OPEN and len(rows) <= _LONG,
    )


def _status(on: Shown, name: str) -> str:
    sides = on.sources.branch.get(name)
    if sides is None or (sides.before and sides.after):
        return "modified"
    return "deleted" if sides.before else "added"


def _rows(on: Shown, name: str, hunks: Sequence[Sequence[Row]]) -> Iterator[Html]:
    inside = on.inside_strings(name)
    for index, hunk in enumerate(hunks):
        if index:
            yield tag("span", Html("\n"), class_="gap")
        for row in hunk:
            site = on.in_diff.get((name, row.number), 0) if row.kind == "-" else 0
            yield row_html(row, name, inside, site)
