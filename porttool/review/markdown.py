"""A report as the body of a pull request (GitHub's Markdown)."""

from __future__ import annotations

import re
from collections.abc import Callable

from porttool.frozen import dataclass
from porttool.report import Check, LedgerEntry, Look, Report, Seed, counted
from porttool.review.numbers import Numbered, sites_by_urgency
from porttool.review.rules import semantic_patch
from porttool.review.text import (
    WORDS,
    look_place,
    measured_lines,
    place,
    proof_sentence,
    seconds_words,
    short,
    site_counts,
    site_scope,
    standing_words,
    verdict_line,
    visible,
)
from porttool.standing import UP_TO_DATE, Standing, next_step

# GitHub refuses a body of more than 65,536 characters.
LIMIT = 60_000
_CELL = 400
_BLOCK = 4_000
_SPECIAL = re.compile(
    r"[&<*\[\]\\`|~#$!]|^>"
    r"|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])"  # inside a word it means nothing
    r"|(?<=\w):(?=//)|(?<=www)\."  # a bare address would become a link
)
_ISSUE = re.compile(r"(\bGH|)(-(?<=\bGH-)|&#35;)(?=\d)", re.IGNORECASE)


@dataclass(frozen=True)
class _Section:
    """A heading, text that always stays, and rows that may be cut from the end."""

    title: str
    lead: str
    rows: tuple[str, ...]
    noun: str
    between: str = "\n"

    def text(self, count: int, pointer: str) -> str:
        kept = self.between.join(self.rows[:count])
        cut = len(self.rows) - count
        is_cut = f"{self.noun} are" if cut > 1 else f"{self.noun.removesuffix('s')} is"
        more = f"\n\n*{cut} more {is_cut} cut here; {pointer}*" if cut else ""
        return f"## {self.title}\n\n{self.lead}{kept}{more}".rstrip()


def markdown(report: Report, limit: int = LIMIT, standing: Standing = UP_TO_DATE) -> str:
    """Return the whole report in fewer than `limit` characters.

    What does not fit is cut from the end of the tables, the ledger first, and every cut says how
    many rows it took and which command shows them.
    """
    head = _head(report, standing)
    sections = [section(report) for section in _SECTIONS]
    sections = [section for section in sections if section.lead or section.rows]
    pointer = f"`porttool review {report.port}` shows all of them."
    room = limit - len(head) - 1 - sum(len(s.text(0, pointer)) + 2 for s in sections)
    counts = [0] * len(sections)
    # First no section takes more than half of what is left, so that a long one leaves the later
    # ones their most urgent rows; then what is still free goes to them in order.
    for share in (2, 1):
        for index, section in enumerate(sections):
            allowed = room // share
            for row in section.rows[counts[index] :]:
                size = len(row) + len(section.between)
                if size > allowed:
                    break
                allowed -= size
                room -= size
                counts[index] += 1
    texts = [section.text(count, pointer) for section, count in zip(sections, counts, strict=True)]
    return "\n\n".join([head, *texts]) + "\n"


def code(text: str, limit: int = _CELL) -> str:
    """Return text as inline code that also survives in a table cell."""
    shown = short(visible(text), limit)
    if shown and shown == shown.strip() and not set("`|") & set(shown):
        return f"`{shown}`"
    return f"<code>{_entities(shown)}</code>"


def prose(text: str, limit: int = _CELL) -> str:
    """Return a sentence of ours that may quote code of theirs between backticks."""
    shown = short(visible(text), limit)
    parts = shown.split("`")
    if len(parts) % 2 == 0:
        return _entities(shown)
    return "".join(code(p, _BLOCK) if i % 2 else _entities(p) for i, p in enumerate(parts))


def fenced(text: str, language: str) -> str:
    """Return text as a code block with a fence longer than any inside it."""
    shown = short(visible(text, keep="\n\t"), _BLOCK)
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{shown}\n{fence}"


def _entities(text: str) -> str:
    escaped = _SPECIAL.sub(lambda match: f"&#{ord(match.group())};", text)
    # A name after a bare @ would be notified; one inside an element of its own is not.
    # So is an issue: what makes links of `#12` and `GH-12` sees the text once it is HTML.
    escaped = _ISSUE.sub(lambda match: f"{match[1]}<code>{match[2]}</code>", escaped)
    return escaped.replace("@", "<code>@</code>")


def _folded(summary: str, body: str, *, is_open: bool = False) -> str:
    # Markdown is not read inside the summary, HTML is.
    title = _entities(short(visible(summary), _CELL))
    opened = "<details open>" if is_open else "<details>"
    return f"{opened}<summary>{title}</summary>\n\n{body}\n\n</details>"


def _table(*columns: str) -> str:
    return f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}\n"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _head(report: Report, standing: Standing) -> str:
    lines = [f"# Port {code(report.port)} onto {code(report.onto)}", ""]
    tip = f" at {code(report.tip[:12])}" if report.tip else " (not written)"
    lines.append(
        f"**Verdict: {report.verdict}.** {prose(_sentence(verdict_line(report)))} "
        f"Branch {code(report.branch)}{tip}, made on "
        f"{code(report.onto)} at {code(report.onto_id[:12])}, plan {code(report.digest[:12])}, "
        f"porttool {_entities(report.version)}. Next: {code(next_step(report, standing))}."
    )
    if changes := standing_words(report, standing):
        lines += ["", f"Since then: {prose('; '.join(changes))}."]
    return "\n".join(lines)


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def _look_first(report: Report) -> _Section:
    def row(number: int, look: Look) -> str:
        if not look.path:
            return f"{number}. **failed {look.kind}** {prose(look.why)}"
        return f"{number}. **{look.kind}** {code(look_place(look))}: {prose(look.why)}"

    rows = tuple(row(number, look) for number, look in enumerate(report.look_first, start=1))
    lead = "" if rows else "Nothing stands out: no open question, no hazard, nothing that moved."
    return _Section("Look at this first", lead, rows, "places")


def _answers(report: Report) -> _Section:
    lead = ""
    if report.answers:
        lead = "Add to `port.yaml`, each as `rewrite` or `skip`:\n\n"
        lead += fenced("\n".join(report.answers), "yaml")
    return _Section("Open questions", lead, (), "questions")


def _ported(report: Report) -> _Section:
    lines = [
        f"- experiment {code(e.id[:12])} {code(e.subject)} by {code(e.author)}, {code(e.date)}"
        for e in report.experiment
    ]
    lines += [f"- commit {code(c.id[:12])} {code(c.subject)}" for c in report.series]
    lines += [
        f"- left out by the plan: {code(left.folder)}, {counted(left.files, 'file')} on the subject"
        for left in report.excluded
    ]
    lines += [
        f"- follow-up patch {code(patch.name)}: {code(patch.subject)}" for patch in report.patches
    ]
    if report.gate:
        gate = report.gate
        state = "on" if gate.default else "off"
        shown = f", shown in {', '.join(map(code, gate.yaml))}" if gate.yaml else ""
        where = code(gate.module) if gate.module else "no Python file"
        lines.append(f"- switch {code(gate.key)}, {state} by default, declared in {where}{shown}")
        lines += [
            f"  - {code(file.path)} {'can' if file.reaches else 'cannot'} turn it on: "
            f"{prose(file.why)}"
            for file in gate.reach
        ]
    met = "met" if report.precondition.met else "NOT met"
    if report.precondition.clauses:
        lines.append(f"- precondition on {code(report.precondition.config)}: {met}")
        lines += [
            f"  - {code(c.text)}: {code(c.seen)}, {'holds' if c.met else 'does not hold'}"
            for c in report.precondition.conditions
        ]
    return _Section("What was ported", "", tuple(lines), "facts")


def _rules(report: Report) -> _Section:
    lead = fenced(semantic_patch(report), "diff") if report.rules else ""
    return _Section("The learned rules", lead, (), "rules")


def _proof(report: Report) -> _Section:
    lead = proof_sentence(report)
    if report.proof.assumes:
        lead += "\n\nIt assumes:\n\n" + "\n".join(f"- {prose(a)}" for a in report.proof.assumes)
    rows = tuple(_row(code(f.path), prose(f.verdict), prose(f.detail)) for f in report.proof.files)
    table = _table("file", "verdict", "detail") if rows else ""
    return _Section("Off means off", f"{lead}\n\n{table}", rows, "files")


def _checks(report: Report) -> _Section:
    rows = tuple(
        _row(prose(c.name), f"**{c.status}**", seconds_words(c.seconds), prose(c.detail))
        for c in report.checks
    )
    if not rows:
        lead = f"None was run yet: {code(f'porttool verify {report.port}')}."
        return _Section("Checks", lead, (), "checks")
    lead = _table("check", "status", "time", "finding")
    return _Section("Checks", lead, rows, "checks")


def _outputs(report: Report) -> _Section:
    def block(check: Check) -> str:
        return _folded(
            f"{check.name}: {check.status}",
            fenced("\n".join(check.tail), "text"),
            is_open=check.status == "failed",
        )

    told = sorted((c for c in report.checks if c.tail), key=lambda c: c.status != "failed")
    rows = tuple(block(check) for check in told)
    return _Section("End of each check's output", "", rows, "outputs", "\n\n")


def _measured(report: Report) -> _Section:
    evidence = report.evidence
    lines = tuple(f"- {prose(line)}" for line in measured_lines(report))
    tables = [
        fenced(part.taken.table, "")
        for part in ((evidence.bench, evidence.drift) if evidence else ())
        if part is not None and part.taken.table
    ]
    return _Section("Measured", "", (*lines, *tables), "facts")


def _seeds(report: Report) -> _Section:
    def row(seed: Seed) -> str:
        moved = f"moved from {code(seed.moved_from)}" if seed.moved_from else "where it was"
        note = f"; {prose(seed.note)}" if seed.note else ""
        return _row(
            code(place(seed.path, seed.line)),
            code(seed.target or seed.constructor),
            code(seed.call),
            seed.form,
            moved + note,
        )

    lead = _table("place", "object", "wrapped by", "gate", "moved") if report.seeds else ""
    return _Section("What is wrapped", lead, tuple(map(row, report.seeds)), "seeds")


def _sites(report: Report) -> _Section:
    every = sites_by_urgency(report)
    paths = [site.path for _, site in every]
    rows = tuple(
        _site(numbered, is_first=path != before)
        for numbered, path, before in zip(every, paths, ["", *paths], strict=False)
    )
    return _Section("Every site", f"{site_counts(report)}.\n", rows, "sites")


def _site(numbered: Numbered, *, is_first: bool) -> str:
    """Return a site as an item of a list: a table as wide as its code would have to be scrolled."""
    number, site = numbered
    scope = site_scope(site)
    where = f" in {code(scope)}" if scope else ""
    since = "" if site.known else ", **new**"
    became = f" becomes {code(site.replacement)}" if site.replacement else ""
    if site.action == "ask":
        became = became.replace(" becomes ", ", as a rewrite ", 1)
    why = "; ".join(map(prose, site.reasons))
    head = f"\n{code(site.path)}\n\n" if is_first else ""
    return (
        f"{head}- site {number}, line {site.line}{where}, {WORDS[site.action]}{since}: "
        f"{code(site.text)}{became}<br>{why}"
    )


def _ledger(report: Report) -> _Section:
    def row(entry: LedgerEntry) -> str:
        return _row(
            code(place(entry.path, entry.line_before)), f"**{entry.outcome}**", prose(entry.why)
        )

    lead = _table("hunk of the experiment", "outcome", "why") if report.ledger else ""
    return _Section("Ledger", lead, tuple(map(row, report.ledger)), "hunks")


def _hunks(report: Report) -> _Section:
    def block(entry: LedgerEntry) -> str:
        removed = [f"-{line}" for line in entry.before.splitlines()]
        added = [f"+{line}" for line in entry.after.splitlines()]
        where = place(entry.path, entry.line_before)
        return _folded(f"{where} {entry.outcome}", fenced("\n".join(removed + added), "diff"))

    return _Section(
        "Hunks of the experiment", "", tuple(map(block, report.ledger)), "hunks", "\n\n"
    )


_SECTIONS: tuple[Callable[[Report], _Section], ...] = (
    _look_first,
    _answers,
    _ported,
    _proof,
    _checks,
    _measured,
    _seeds,
    _sites,
    _ledger,
    _rules,
    _outputs,
    _hunks,
)
