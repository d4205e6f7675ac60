"""What is known about the whole branch, as HTML: gate, proof, checks, measurements, commits."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence

from porttool.evidence import WORDS as OUTCOMES
from porttool.evidence import Bench, Measurement, shown_interval
from porttool.report import Check, Report, Seed, counted
from porttool.review.decisions import item
from porttool.review.figure import interval
from porttool.review.markup import NOTHING, Html, code, join, lines, path, prose, table, tag, text
from porttool.review.rules import semantic_patch
from porttool.review.text import place, proof_sentence, seconds_words

Picture = tuple[str, bytes]


def gate(report: Report) -> Html:
    """Say where the switch lives, what is behind it, and which settings can turn it on."""
    parts = []
    if report.gate:
        state = "on" if report.gate.default else "off"
        where = path(report.gate.module) if report.gate.module else text("no Python file")
        shown_in = join(map(path, report.gate.yaml), ", ")
        parts.append(
            tag(
                "p",
                text("The switch is "),
                code(report.gate.key),
                text(f", {state} by default, declared in "),
                where,
                text(", shown in ") if report.gate.yaml else NOTHING,
                shown_in,
                text("."),
            )
        )
    if report.seeds:
        heads = ("place", "object", "wrapped by", "gate", "moved from")
        parts.append(table(heads, map(_seed, report.seeds)))
    if report.gate and report.gate.reach:
        rows = (
            (
                path(file.path),
                text("on already" if file.on else "can turn it on" if file.reaches else "cannot"),
                prose(file.why),
            )
            for file in report.gate.reach
        )
        parts.append(table(("settings file", "reach", "why"), rows))
    return join(parts)


def _seed(seed: Seed) -> Iterable[Html]:
    note = tag("p", prose(seed.note)) if seed.note else NOTHING
    return (
        path(place(seed.path, seed.line)),
        code(seed.target or seed.constructor),
        code(seed.call),
        text(seed.form),
        Html((code(seed.moved_from) if seed.moved_from else text("where it was")) + note),
    )


def proof(report: Report) -> Html:
    """Say how far "off means off" was shown, file by file, and what that rests on."""
    rows = ((path(f.path), prose(f.verdict), prose(f.detail)) for f in report.proof.files)
    assumes = report.proof.assumes
    assumed = item(
        "assumptions",
        tag("span", text(f"It rests on {counted(len(assumes), 'assumption')}"), class_="what"),
        body=(tag("ul", *(tag("li", prose(words)) for words in assumes)),),
    )
    return join(
        (
            tag("p", text(proof_sentence(report))),
            table(("file", "verdict", "detail"), rows) if report.proof.files else NOTHING,
            assumed if assumes else NOTHING,
        )
    )


def checks(report: Report) -> Html:
    """Return every check with what it found, its command and the end of what it said."""
    if not report.checks:
        return tag("p", text("None was run yet: "), code(f"porttool verify {report.port}"))
    return join(_check(number, check) for number, check in enumerate(report.checks, start=1))


def _check(number: int, check: Check) -> Html:
    said = "\n".join(check.tail)
    command = tag("pre", text(" ".join(check.command)), class_="log") if check.command else NOTHING
    log = tag("pre", lines(check.tail), class_="log") if said.strip() else NOTHING
    quiet = tag("p", text("It said nothing."), class_="absent") if not (command or log) else NOTHING
    return item(
        f"check-{number}",
        tag("span", text(check.status), class_=f"badge {check.status}"),
        tag("span", text(check.name, 160), class_="what"),
        tag("span", prose(check.detail, 300), class_="why"),
        tag("span", text(seconds_words(check.seconds)), class_="where"),
        body=(command, log, quiet),
        is_open=check.status == "failed",
    )


def measured(report: Report, pictures: Sequence[Picture] = ()) -> Html:
    """Show what was measured, on what, and the decision that follows; nothing where it was not."""
    evidence = report.evidence
    if evidence is None:
        return NOTHING
    decision = evidence.decision
    parts = [
        tag(
            "p",
            tag("b", text(f"Decision: {OUTCOMES[decision.outcome]}.")),
            prose(f" {decision.branch}"),
            prose(f"; next: {decision.next}") if decision.next else NOTHING,
        )
    ]
    if evidence.bench is not None:
        parts += [*_bench(evidence.bench), *_pictures("bench", pictures)]
    if evidence.drift is not None:
        drift = evidence.drift
        detail = tag("p", prose(drift.detail)) if drift.detail else NOTHING
        parts += [tag("h3", text(f"Drift: {drift.verdict}")), detail, _taken(drift.taken)]
        parts += _pictures("drift", pictures)
    return join(parts)


def _pictures(what: str, pictures: Sequence[Picture]) -> list[Html]:
    """Return pictures inside of the page: it has to show them where the files are not."""
    return [
        Html(
            f'<img alt="What the {what} measured, drawn by the project: its figures are those of '
            f'the table" src="data:image/png;base64,{base64.b64encode(data).decode()}">'
        )
        for name, data in pictures
        if name == what
    ]


def _bench(bench: Bench) -> list[Html]:
    said = bench.failed or f"{bench.effect:+.1%} time saved, {shown_interval(bench)}"
    drawn = NOTHING if bench.failed else interval(bench)
    return [tag("h3", text("Bench: "), prose(said)), drawn, _taken(bench.taken)]


def _taken(taken: Measurement) -> Html:
    said = [part for part in (taken.date, taken.machine, taken.what) if part]
    return Html(tag("p", join(map(prose, said), " · "), class_="taken") + _markdown(taken.table))


def _markdown(words: str) -> Html:
    """Return a Markdown text: its tables as tables, everything else as it stands."""
    parts: list[Html] = []
    left = words.splitlines()
    while left:
        is_row = left[0].lstrip().startswith("|")
        end = next(
            (n for n, line in enumerate(left) if line.lstrip().startswith("|") != is_row),
            len(left),
        )
        block, left = left[:end], left[end:]
        if is_row and len(block) > 2 and not set(block[1]) - set("|-: "):
            head, *rows = ([cell.strip() for cell in _cells(line)] for line in block)
            parts.append(table(head, [[prose(cell) for cell in row] for row in rows[1:]]))
        elif any(line.strip() for line in block):
            parts.append(tag("pre", lines(block), class_="log"))
    return join(parts)


def _cells(line: str) -> list[str]:
    return line.strip().removeprefix("|").removesuffix("|").split("|")


def rules(report: Report) -> Html:
    """Return the learned rules as a semantic patch."""
    patch = semantic_patch(report).split("\n")
    return tag("pre", *map(_rule_line, patch), class_="diff rules")


def _rule_line(line: str) -> Html:
    kinds = {"-": "del", "+": "add", "@": "head", "/": "note"}
    return tag("span", text(line), Html("\n"), class_=kinds.get(line[:1], "same"))


def branch(report: Report) -> Html:
    """Return where the branch came from: commits, patches, precondition, what was left out."""
    rows = [
        *(("experiment", code(e.id[:12]), text(f"{e.subject} ({e.author}, {e.date})"))
          for e in report.experiment),
        *(("commit", code(c.id[:12]), text(c.subject)) for c in report.series),
        *(("patch", code(p.name), text(p.subject)) for p in report.patches),
        *(("precondition", code(c.text), text(f"{c.seen}: {'met' if c.met else 'not met'}"))
          for c in report.precondition.conditions),
        *(("left out", code(x.folder), text(f"{counted(x.files, 'file')} on the subject"))
          for x in report.excluded),
        *(("conflict", path(place(c.path, c.line)), prose(f"{c.detail}; {c.resolved or 'open'}"))
          for c in report.conflicts),
    ]  # fmt: skip
    return table(("what", "which", "about"), ((text(kind), *cells) for kind, *cells in rows))
