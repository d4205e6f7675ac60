"""A report for a person at a terminal, as something rich can print."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from porttool.report import Check, Report, counted
from porttool.review.layout import Indented, Place, grid, verbatim
from porttool.review.numbers import Numbered, sites_by_urgency
from porttool.review.text import (
    WORDS,
    end_of_log,
    look_place,
    measured_lines,
    proof_sentence,
    seconds_words,
    short,
    short_place,
    site_counts,
    site_scope,
    standing_words,
    verdict_line,
    visible,
)
from porttool.standing import UP_TO_DATE, Standing, next_step

_STYLES = {
    "ready": "bold green",
    "passed": "green",
    "parked": "bold yellow",
    "unverified": "bold yellow",
    "skipped": "yellow",
    "rewrite": "green",
    "ask": "bold red",
    "hazard": "yellow",
    "failed": "bold red",
    "dropped": "yellow",
}
_CELL = 600
_MOST_LOOKS = 12  # the sites stand below once more


def terminal(report: Report, standing: Standing = UP_TO_DATE) -> RenderableType:
    """Return the whole report; every text of the repository's is shown as text, never as markup."""
    blocks: list[RenderableType] = [_head(report, standing)]
    for title, block in (
        ("Look at this first", _look_first(report)),
        ("What was ported", _ported(report)),
        ("What is wrapped", _seeds(report)),
        (f"Sites: {site_counts(report)}", _sites(report)),
        ("Ledger of the experiment", _ledger(report)),
        ("Off means off", _proof(report)),
        ("Checks", checks_table(report)),
        ("Measured", _measured(report)),
    ):
        if block is not None:
            blocks += [Text(f"\n{title}", style="bold"), Indented(block, 2)]
    blocks.append(Text.assemble("\nNext: ", (visible(next_step(report, standing)), "bold")))
    return Group(*blocks)


def _cell(text: str, style: str = "") -> Text:
    return Text(short(visible(text), _CELL), style=style, overflow="fold")


def _lines(lines: Iterable[str]) -> RenderableType:
    """Return lines of which each goes on below where it began."""
    return Group(*(_line(line) for line in lines))


def _line(line: str) -> RenderableType:
    inner = line.lstrip(" ")
    return Indented(_cell(inner), len(line) - len(inner)) if inner else Text("")


def _signed(sign: str, words: str, style: str) -> RenderableType:
    row = grid(2)
    row.padding = (0, 1, 0, 0)
    row.add_row(Text(sign, style=style), _cell(words, style))
    return row


def _by_file(rows: Iterable[tuple[str, Sequence[RenderableType]]]) -> RenderableType:
    """Return rows under the paths of their files, in the order in which they come."""
    blocks: list[RenderableType] = []
    last, table = "", grid(0)
    for path, cells in rows:
        if path != last or not blocks:
            last, table = path, grid(len(cells))
            blocks += [Place(visible(path)), Indented(table, 2)]
        table.add_row(*cells)
    return Group(*blocks)


def _head(report: Report, standing: Standing) -> RenderableType:
    tip = report.tip[:12] if report.tip else "not written"
    lines = [
        Text.assemble(
            (visible(report.port), "bold"),
            f" onto {visible(report.onto)} {report.onto_id[:12]}, branch {visible(report.branch)} "
            f"({tip})",
        ),
        Text.assemble(
            (report.verdict, _STYLES[report.verdict]), f": {visible(verdict_line(report))}"
        ),
    ]
    if changes := standing_words(report, standing):
        lines.append(Text(visible(f"since then: {'; '.join(changes)}"), style="yellow"))
    return Group(*lines)


def _look_first(report: Report) -> RenderableType | None:
    if not report.look_first:
        return Text("Nothing stands out: no open question, no hazard, nothing that moved.")
    blocks: list[RenderableType] = []
    for look in report.look_first[:_MOST_LOOKS]:
        where = look_place(look) if look.path else ""
        kind = look.kind if look.path else f"failed {look.kind}"
        head = grid(2)
        head.columns[0].no_wrap = True
        head.add_row(Text(kind, style="bold"), Place(where) if where else _cell(look.why))
        blocks.append(head)
        said = [_cell(look.why)] if where else list(map(_cell, end_of_log(report, look)))
        blocks += [Indented(line, 4) for line in said]
    if (more := len(report.look_first) - _MOST_LOOKS) > 0:
        blocks.append(Text(f"and {counted(more, 'place')} more, below"))
    if report.answers:
        blocks += [Text("\nAdd to port.yaml:"), verbatim(report.answers)]
    return Group(*blocks)


def _ported(report: Report) -> RenderableType | None:
    lines = [f"experiment {e.id[:12]} {e.subject} ({e.author})" for e in report.experiment]
    lines += [f"commit {c.id[:12]} {c.subject}" for c in report.series]
    lines += [
        f"left out by the plan: {left.folder}, {counted(left.files, 'file')} on the subject"
        for left in report.excluded
    ]
    lines += [f"patch {patch.name}: {patch.subject}" for patch in report.patches]
    lines += [
        f"rule {rule.before} -> {rule.after}" + (" (neutral)" if rule.neutral else "")
        for rule in report.rules
    ]
    if report.gate:
        state = "on" if report.gate.default else "off"
        where = report.gate.module or "no Python file"
        lines.append(f"switch {report.gate.key}, {state} by default, in {where}")
        lines += [
            f"  {file.path} {'can' if file.reaches else 'cannot'} turn it on: {file.why}"
            for file in report.gate.reach
        ]
    lines += [
        f"precondition {c.text}: {c.seen}, {'holds' if c.met else 'does not hold'}"
        for c in report.precondition.conditions
    ]
    return _lines(lines)


def _seeds(report: Report) -> RenderableType | None:
    if not report.seeds:
        return None
    rows = []
    for seed in report.seeds:
        moved = f"moved from {seed.moved_from}" if seed.moved_from else ""
        cells = (
            Text(short_place(seed.path, seed.line)),
            _cell(seed.target or seed.constructor),
            _cell(f"{seed.form}: {seed.call}"),
            _cell("; ".join(filter(None, (moved, seed.note)))),
        )
        rows.append((seed.path, cells))
    return _by_file(rows)


def _sites(report: Report) -> RenderableType | None:
    if not report.sites:
        return None
    blocks: list[RenderableType] = []
    last = ""
    for number, site in sites_by_urgency(report):
        if site.path != last:
            last = site.path
            blocks.append(Place(visible(last)))
        blocks.append(_site((number, site)))
    command = f"porttool review {shlex.quote(report.port)} --site N"
    blocks.append(Text(f"{visible(command)} explains one of them", style="dim"))
    return Group(*blocks)


def _site(numbered: Numbered) -> RenderableType:
    number, site = numbered
    scope = site_scope(site)
    head = Text.assemble(
        (f"{number:>4}  ", "dim"),
        short_place(site.path, site.line),
        "  ",
        (WORDS[site.action], _STYLES.get(site.action, "")),
        "" if site.known else ", new",
        f" in {visible(scope)}" if scope else "",
        overflow="fold",
    )
    if site.action == "rewrite" and site.replacement is not None:
        code = [_signed("-", site.text, "red"), _signed("+", site.replacement, "green")]
    else:
        code = [_cell(site.text)]
    why = _cell("; ".join(site.reasons), "dim")
    return Group(head, *(Indented(block, 6) for block in (*code, why)))


def _ledger(report: Report) -> RenderableType | None:
    if not report.ledger:
        return None
    rows = []
    for entry in report.ledger:
        first = (entry.before.strip() or entry.after.strip()).partition("\n")[0]
        cells = (
            Text(short_place(entry.path, entry.line_before)),
            _cell(entry.outcome, _STYLES.get(entry.outcome, "")),
            Group(_cell(entry.why), _cell(first, "dim")),
        )
        rows.append((entry.path, cells))
    return _by_file(rows)


def _proof(report: Report) -> RenderableType | None:
    lines = [proof_sentence(report)]
    for file in report.proof.files:
        lines += [f"{file.path}: {file.verdict}", *([f"  {file.detail}"] if file.detail else [])]
    if report.proof.assumes:
        lines.append("It rests on:")
    lines += [f"  {assumption}" for assumption in report.proof.assumes]
    return _lines(lines)


def _measured(report: Report) -> RenderableType | None:
    return _lines(measured_lines(report)) if report.evidence else None


def _finding(check: Check) -> RenderableType:
    """Return what was found, and the last line that a program said which passed.

    Of one that failed the whole end of the output stands below the table.
    """
    # A progress bar says nothing once it is full.
    said = [line.strip(" =") for line in check.tail if line.strip(" =") and "━" not in line]
    if check.status != "passed" or not check.command or not said:
        return _cell(check.detail)
    return Group(_cell(check.detail), _cell(said[-1], "dim"))


def checks_table(report: Report) -> RenderableType:
    """Return the checks with their times and the end of what their programs said."""
    if not report.checks:
        return Text("none was run yet")
    table = grid(4)
    for check in report.checks:
        table.add_row(
            _cell(check.status, _STYLES[check.status]),
            _cell(check.name),
            Text(seconds_words(check.seconds), justify="right"),
            _finding(check),
        )
    failed = [check for check in report.checks if check.status == "failed" and check.tail]
    tails = [_lines(["", f"end of the output of {check.name}:", *check.tail]) for check in failed]
    return Group(table, *tails)
