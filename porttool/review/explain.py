"""One decision explained at a terminal: the lines, the reasons with theirs, the rule, the key."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from porttool.report import Report, Site, Step, yaml_text
from porttool.review.diff import Row, dedented, site_rows
from porttool.review.highlight import LONG
from porttool.review.numbers import Numbered
from porttool.review.rules import rule_patch
from porttool.review.sources import NO_SOURCES, Sources
from porttool.review.text import WORDS, place, short, visible

_STYLES = {"-": "red", "+": "green", " ": "", "…": "dim"}
_ACTIONS = {"rewrite": "green", "skip": "", "ask": "bold red", "hazard": "yellow"}


def explain(report: Report, numbered: Numbered, sources: Sources = NO_SOURCES) -> RenderableType:
    """Return everything that is known of one site."""
    number, site = numbered
    sides = sources.branch.get(site.path)
    lines = sides.before if sides else ()
    since = "there when the experiment was made" if site.known else "main gained it since"
    blocks: list[RenderableType] = [
        Text.assemble(
            (f"site {number} of {len(report.sites)}", "bold"),
            f"  {place(site.path, site.line)}  ",
            (WORDS[site.action], _ACTIONS[site.action]),
            f", {since}",
        ),
        Padding(_rows(dedented(site_rows(site, lines))), (1, 0, 1, 2)),
        Text("Why", style="bold"),
        Padding(_reasons(site, sources), (0, 0, 1, 2)),
    ]
    rule = next((rule for rule in report.rules if rule.name == site.rule), None)
    if rule is not None:
        blocks += [
            Text("Rule", style="bold"),
            Padding(Text(visible(rule_patch(rule), keep="\n")), (0, 0, 1, 2)),
        ]
    blocks += _answer(site)
    return Group(*blocks)


def _rows(rows: Sequence[Row]) -> Text:
    shown = Text()
    for row in rows:
        number = str(row.number) if row.number else ""
        shown.append(f"{number:>5} ", style="dim")
        shown.append(f"{row.kind} ", style=_STYLES[row.kind])
        at = 0
        text = row.text[:LONG]
        for start, end in (*row.marks, (len(text), len(text))):
            shown.append(visible(text[at:start]), style=_STYLES[row.kind])
            shown.append(visible(text[start:end]), style=f"bold {_STYLES[row.kind]}".strip())
            at = max(at, end)
        if len(row.text) > LONG:
            shown.append(f"… ({len(row.text) - LONG} characters more)", style="dim")
        shown.append("\n")
    shown.rstrip()
    return shown


def _reasons(site: Site, sources: Sources) -> Text:
    shown = Text()
    for number, step in enumerate(site.steps or tuple(map(Step, site.reasons)), start=1):
        shown.append(f"{number}. {visible(short(step.text, LONG))}")
        if step.path:
            path = step.path if step.path != site.path else step.path.rpartition("/")[2]
            shown.append(f"  {place(path, step.line)}", style="dim")
        sides = sources.branch.get(step.path)
        lines = sides.before if sides else ()
        if 0 < step.line <= len(lines):
            line = visible(short(lines[step.line - 1].strip(), LONG))
            shown.append(f"\n   {line}", style="cyan")
        shown.append("\n")
    shown.rstrip()
    return shown


def _answer(site: Site) -> list[RenderableType]:
    if site.action != "ask":
        return [Text.assemble(("Key  ", "bold"), visible(site.key))]
    lines = f"answers:\n  {yaml_text(site.key)}: rewrite  # or: skip"
    return [Text("Answer it in port.yaml", style="bold"), Padding(Text(lines), (0, 0, 0, 2))]
