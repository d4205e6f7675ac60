"""One decision explained at a terminal: the lines, the reasons with theirs, the rule, the key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from porttool.report import Report, Site, Step
from porttool.review.diff import Row, dedented, site_rows
from porttool.review.highlight import LONG
from porttool.review.layout import Indented, Place, grid, verbatim
from porttool.review.numbers import Numbered
from porttool.review.rules import rule_patch
from porttool.review.sources import NO_SOURCES, Sources
from porttool.review.text import (
    ANSWERING,
    WORDS,
    again_command,
    answer_lines,
    place,
    short,
    site_scope,
    visible,
)
from porttool.standing import UP_TO_DATE, Standing

_STYLES = {"-": "red", "+": "green", " ": "", "…": "dim"}
_ACTIONS = {"rewrite": "green", "skip": "", "ask": "bold red", "hazard": "yellow"}


def explain(
    report: Report,
    numbered: Numbered,
    sources: Sources = NO_SOURCES,
    standing: Standing = UP_TO_DATE,
) -> RenderableType:
    """Return everything that is known of one site."""
    number, site = numbered
    sides = sources.branch.get(site.path)
    lines = sides.before if sides else ()
    since = "there when the experiment was made" if site.known else f"{report.onto} gained it since"
    scope = site_scope(site)
    head = grid(2)
    head.add_row(
        Text(f"site {number} of {len(report.sites)}", style="bold"),
        Place(place(site.path, site.line)),
    )
    blocks: list[RenderableType] = [
        head,
        Text.assemble(
            (WORDS[site.action], _ACTIONS[site.action]),
            f", {visible(since)}",
            f", in {visible(scope)}" if scope else "",
        ),
        Text(""),
        Indented(_rows(dedented(site_rows(site, lines))), 2),
        Text("\nWhy", style="bold"),
        Indented(Group(*_reasons(site, sources)), 2),
    ]
    rule = next((rule for rule in report.rules if rule.name == site.rule), None)
    if rule is not None:
        patch = Text(visible(rule_patch(rule), keep="\n"), overflow="fold")
        blocks += [Text("\nRule", style="bold"), Indented(patch, 2)]
    answer = verbatim(answer_lines(site, again_command(report, standing)))
    blocks += [Text(f"\n{ANSWERING[site.action]}", style="bold"), Indented(answer, 2)]
    return Group(*blocks)


def _rows(rows: Sequence[Row]) -> RenderableType:
    table = grid(3)
    table.padding = (0, 1, 0, 0)
    for row in rows:
        style = _STYLES[row.kind]
        number = str(row.number) if row.number else ""
        table.add_row(Text(f"{number:>5}", style="dim"), Text(row.kind, style=style), _code(row))
    return table


def _code(row: Row) -> Text:
    style = _STYLES[row.kind]
    shown = Text(overflow="fold")
    at = 0
    text = row.text[:LONG]
    for start, end in (*row.marks, (len(text), len(text))):
        shown.append(visible(text[at:start]), style=style)
        shown.append(visible(text[start:end]), style=f"bold {style}".strip())
        at = max(at, end)
    if len(row.text) > LONG:
        shown.append(f"… ({len(row.text) - LONG} characters more)", style="dim")
    return shown


def _reasons(site: Site, sources: Sources) -> Iterator[RenderableType]:
    for number, step in enumerate(site.steps or tuple(map(Step, site.reasons)), start=1):
        said = Text(f"{number}. {visible(short(step.text, LONG))}", overflow="fold")
        if step.path:
            path = step.path if step.path != site.path else step.path.rpartition("/")[2]
            said.append(f"  {place(path, step.line)}", style="dim")
        yield said
        sides = sources.branch.get(step.path)
        lines = sides.before if sides else ()
        # The line of the site itself stands above.
        is_shown = (step.path, step.line) == (site.path, site.line)
        if 0 < step.line <= len(lines) and not is_shown:
            line = visible(short(lines[step.line - 1].strip(), LONG))
            yield Indented(Text(line, style="cyan", overflow="fold"), 3)
