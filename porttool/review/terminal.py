"""A report for a person at a terminal, as something rich can print."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from porttool.frozen import dataclass
from porttool.report import UP_TO_DATE, Check, Report, Standing, counted, next_step
from porttool.review.numbers import sites_by_urgency
from porttool.review.text import (
    WORDS,
    look_place,
    measured_lines,
    place,
    proof_sentence,
    short,
    site_counts,
    visible,
)

_STYLES = {
    "ready": "bold green",
    "passed": "green",
    "parked": "bold yellow",
    "unverified": "bold yellow",
    "skipped": "yellow",
    "ask": "bold red",
    "hazard": "yellow",
    "failed": "bold red",
}
_CELL = 600


def terminal(report: Report, standing: Standing = UP_TO_DATE) -> RenderableType:
    """Return the whole report; every text of the repository's is shown as text, never as markup."""
    blocks: list[RenderableType] = [_head(report)]
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
            blocks += [Text(f"\n{title}", style="bold"), Padding(block, (0, 0, 0, 2))]
    blocks.append(Text.assemble("\nNext: ", (visible(next_step(report, standing)), "bold")))
    return Group(*blocks)


@dataclass(frozen=True)
class _Place:
    """A path and a line that break after a slash, never within a name that fits the column."""

    text: str

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(max(map(len, self._pieces())), len(self.text)).clamp(
            max_width=options.max_width
        )

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = [""]
        for piece in self._pieces():
            if lines[-1] and len(lines[-1]) + len(piece) > options.max_width:
                lines.append("")
            lines[-1] += piece
        yield Text("\n".join(lines), overflow="fold")

    def _pieces(self) -> list[str]:
        return re.findall(r"[^/]*/|[^/]+$", self.text) or [self.text]


def _cell(text: str, style: str = "") -> Text:
    return Text(short(visible(text), _CELL), style=style)


def _lines(lines: Iterable[str]) -> Text:
    return Text("\n".join(short(visible(line), _CELL) for line in lines))


def _grid(columns: int) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    for _ in range(columns):
        table.add_column(overflow="fold")
    return table


def _head(report: Report) -> Text:
    tip = report.tip[:12] if report.tip else "not written"
    return Text.assemble(
        (visible(report.port), "bold"),
        f" onto {visible(report.onto)} {report.onto_id[:12]}, branch {visible(report.branch)} "
        f"({tip}): ",
        (report.verdict, _STYLES[report.verdict]),
    )


def _look_first(report: Report) -> RenderableType | None:
    if not report.look_first:
        return Text("Nothing stands out: no open question, no hazard, nothing that moved.")
    table = _grid(3)
    for look in report.look_first:
        table.add_row(_cell(look.kind, "bold"), _Place(look_place(look)), _cell(look.why))
    if not report.answers:
        return table
    answers = Text("\n".join(["", "Add to port.yaml:", *map(visible, report.answers)]))
    return Group(table, answers)


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
    table = _grid(4)
    for seed in report.seeds:
        moved = f"moved from {seed.moved_from}" if seed.moved_from else ""
        table.add_row(
            _Place(place(seed.path, seed.line)),
            _cell(seed.target or seed.constructor),
            _cell(f"{seed.form}: {seed.call}"),
            _cell("; ".join(filter(None, (moved, seed.note)))),
        )
    return table


def _sites(report: Report) -> RenderableType | None:
    if not report.sites:
        return None
    table = _grid(4)
    for number, site in sites_by_urgency(report):
        became = f" to {site.replacement}" if site.replacement else ""
        new = "" if site.known else "new: "
        what = Text.assemble(_cell(site.text), "\n", _cell("; ".join(site.reasons), "dim"))
        table.add_row(
            Text(f"{number}", style="dim", justify="right"),
            _Place(place(site.path, site.line)),
            _cell(new + WORDS[site.action] + became, _STYLES.get(site.action, "")),
            what,
        )
    return table


def _ledger(report: Report) -> RenderableType | None:
    if not report.ledger:
        return None
    table = _grid(3)
    for entry in report.ledger:
        where = place(entry.path, entry.line_before)
        table.add_row(_Place(where), _cell(entry.outcome), _cell(entry.why))
    return table


def _proof(report: Report) -> RenderableType | None:
    lines = [proof_sentence(report)]
    lines += [f"{f.path}: {f.verdict} {f.detail}".rstrip() for f in report.proof.files]
    lines += [f"assumes: {assumption}" for assumption in report.proof.assumes]
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
    table = _grid(4)
    for check in report.checks:
        table.add_row(
            _cell(check.status, _STYLES[check.status]),
            _cell(check.name),
            Text(f"{check.seconds:.1f} s", justify="right"),
            _finding(check),
        )
    failed = [check for check in report.checks if check.status == "failed" and check.tail]
    tails = [_lines(["", f"end of the output of {check.name}:", *check.tail]) for check in failed]
    return Group(table, *tails)
