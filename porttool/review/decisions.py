"""What was decided, as HTML: the ledger of the experiment, and every site with its reasons."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from porttool.frozen import dataclass
from porttool.report import LedgerEntry, Report, Site, Step, counted
from porttool.review.diff import Changes, Row, dedented, site_rows
from porttool.review.highlight import coloured, lines_inside_strings
from porttool.review.markup import NOTHING, Html, code, join, link, prose, tag, text
from porttool.review.markup import lines as code_lines
from porttool.review.markup import path as path_html
from porttool.review.numbers import Numbered, numbered_sites
from porttool.review.sources import Sources
from porttool.review.text import (
    ANSWERING,
    WORDS,
    again_command,
    answer_lines,
    place,
    short_place,
    site_scope,
)
from porttool.standing import UP_TO_DATE, Standing

MOST_OPEN = 12  # so many places are unfolded from the start: the rest would bury what is below
_OPEN_OUTCOMES = ("adapted", "dropped")

Whose = Literal["experiment", "branch"]
Inside = tuple[frozenset[int], frozenset[int]]
"""Lines before and after a change that begin inside of a string."""
_NOWHERE: Inside = (frozenset(), frozenset())


@dataclass(frozen=True)
class Shown:
    """A report and what it is shown with.

    The files, what changes in them, numbers by the sites' keys, lines of strings by path, and the
    command that makes the branch again. `whole` is the whole diff as far as it is shown, `in_diff`
    the sites in it: the number of the first at a path and line of onto.
    """

    report: Report
    sources: Sources
    changes: Changes
    numbers: Mapping[str, int]
    inside: dict[tuple[str, Whose], Inside]
    again: str
    whole: Mapping[str, list[list[Row]]]
    in_diff: Mapping[tuple[str, int], int]

    def lines(self, path: str) -> Sequence[str]:
        """Return a file's lines on onto, none where they are not at hand."""
        sides = self.sources.branch.get(path)
        return sides.before if sides else ()

    def inside_strings(self, path: str, whose: Whose = "branch") -> Inside:
        """Return the lines of a file that begin inside of a string; looked for once a file."""
        sides = getattr(self.sources, whose).get(path)
        if sides is None or not path.endswith((".py", ".pyi")):
            return _NOWHERE
        if (path, whose) not in self.inside:
            self.inside[path, whose] = (
                lines_inside_strings(sides.before),
                lines_inside_strings(sides.after),
            )
        return self.inside[path, whose]


def shown(report: Report, sources: Sources, standing: Standing = UP_TO_DATE) -> Shown:
    """Put together what showing a report needs."""
    numbers = {site.key: number for number, site in numbered_sites(report)}
    changes = Changes(sources)
    whole = changes.shown_files()
    gone = {
        (path, row.number)
        for path, hunks in whole.items()
        for row in itertools.chain.from_iterable(hunks)
        if row.kind == "-"
    }
    in_diff = {
        (site.path, site.line): number
        for number, site in reversed(numbered_sites(report))
        if site.action == "rewrite" and (site.path, site.line) in gone
    }
    again = again_command(report, standing)
    return Shown(report, sources, changes, numbers, {}, again, whole, in_diff)


def ledger(on: Shown) -> Html:
    """Return every hunk of the experiment beside what became of it on onto."""
    changes = on.changes
    told: tuple[list[Row], list[Row]] | None = None
    parts = []
    for number, entry in enumerate(on.report.ledger, start=1):
        rows = changes.in_experiment(entry), changes.on_branch(entry)
        parts.append(_hunk(on, number, entry, rows=rows, is_told=rows == told and bool(rows[1])))
        told = rows
    return Html(_legend(on.report) + join(parts)) if parts else NOTHING


def _legend(report: Report) -> Html:
    """Say what the two sides of a hunk are differences of."""
    commits = [code(commit.id[:12]) for commit in report.experiment]
    made = "its parent" if len(commits) == 1 else "the parent of the first"
    words = [
        tag("b", text("In the experiment:")),
        Html(f"{join(commits, ', ')}{text(f' against {made}.')}"),
    ]
    if report.tip:
        onto = join((code(report.onto), code(report.onto_id[:12])), " ")
        words += [
            tag("b", text("On the branch:")),
            Html(f"{code(report.branch)}{text(' against ')}{onto}{text('.')}"),
        ]
    return tag("p", join(words, " "), class_="lead")


def _hunk(
    on: Shown,
    number: int,
    entry: LedgerEntry,
    *,
    rows: tuple[list[Row], list[Row]],
    is_told: bool,
) -> Html:
    """Return one hunk; `is_told` where the same lines are those of the hunk above it."""
    then, now = rows
    path_now = entry.path_now or entry.path
    then_at = short_place(entry.path, _first_line(then) or entry.line_after)
    now_at = short_place(path_now, _first_line(now)) if now else ""
    if now:
        right = rows_html(now, path_now, on.inside_strings(path_now))
    else:
        right = tag("p", prose(_absent(on, entry)), class_="absent")
    left = rows_html(then, entry.path, on.inside_strings(entry.path, "experiment"))
    first = (entry.before.strip() or entry.after.strip()).partition("\n")[0]
    site = on.numbers.get(entry.site)
    shown_lines = (
        tag("p", text("Shown in "), link(f"hunk-{number - 1}", text("the hunk above")))
        if is_told
        else tag(
            "div",
            _side("In the experiment", then_at, left),
            _side("On the branch", now_at, right),
            class_="sides",
        )
    )
    decided = NOTHING
    if site:
        decided = tag("p", text("Its reasons: "), link(f"site-{site}", text(f"site {site}")))
    return item(
        f"hunk-{number}",
        tag("span", text(entry.outcome), class_=f"badge {entry.outcome.replace(' ', '-')}"),
        tag("code", text(_one_line(first), 160), class_="what"),
        tag("span", prose(entry.why, 160), class_="why"),
        tag(
            "span",
            text(short_place(entry.path, entry.line_before or entry.line_after)),
            class_="where",
        ),
        body=(shown_lines, decided),
        is_open=entry.outcome in _OPEN_OUTCOMES and len(on.report.ledger) <= MOST_OPEN,
    )


def _absent(on: Shown, entry: LedgerEntry) -> str:
    if entry.outcome == "dropped":
        return f"Not carried over: {entry.why}."
    if not on.sources.branch:
        return (
            f"{entry.outcome.capitalize()}: {entry.why}. The branch's files are not at hand here."
        )
    return f"{entry.outcome.capitalize()}: {entry.why}."


def _side(title: str, where: str, content: Html) -> Html:
    at = tag("span", text(where), class_="at") if where else NOTHING
    return tag("figure", tag("figcaption", tag("b", text(title)), Html(" "), at), content)


def sites(
    on: Shown, chosen: Iterable[Numbered], *, is_open: bool, says_how: bool, says_new: bool = True
) -> Html:
    """Return sites under the files that they are in, each with its change and its reasons.

    With `says_how` they begin with what a person does who would have decided otherwise.
    """
    by_file: dict[str, list[Numbered]] = {}
    for number, site in chosen:
        by_file.setdefault(site.path, []).append((number, site))
    parts = join(
        tag(
            "section",
            tag(
                "h3",
                path_html(path),
                Html(" "),
                tag("small", text(counted(len(found), "place"))),
            ),
            *(_site(on, pair, is_open=is_open, says_new=says_new) for pair in found),
            class_="file",
        )
        for path, found in by_file.items()
    )
    return Html(_how_to_answer(on) + parts) if says_how and by_file else parts


def _site(on: Shown, numbered: Numbered, *, is_open: bool, says_new: bool) -> Html:
    number, site = numbered
    rows = site_rows(site, on.lines(site.path))
    is_new = says_new and not site.known
    scope = site_scope(site)
    return item(
        f"site-{number}",
        tag("span", text(f"{number}"), class_="number"),
        tag("span", text(WORDS[site.action].lower()), class_=f"badge {site.action}"),
        tag("span", text("new"), class_="badge new") if is_new else NOTHING,
        tag("code", text(_one_line(site.text), 160), class_="what"),
        tag("span", text("in "), code(scope, 160), class_="why") if scope else NOTHING,
        tag("span", text(f"line {site.line}"), class_="where"),
        body=(
            rows_html(rows, site.path, (on.inside_strings(site.path)[0],) * 2),
            _reasons(on, site),
            _otherwise(on, site),
        ),
        is_open=is_open,
    )


_LABELS = {"rewrite": "otherwise", "skip": "otherwise", "hazard": "accepted"}


def _otherwise(on: Shown, site: Site) -> Html:
    """Return what to write for another decision, and the way to the lines in the whole diff."""
    lines = answer_lines(site, on.again)
    if site.action == "ask":
        title = tag("p", text(f"{ANSWERING[site.action]}:"))
        return Html(title + tag("pre", code_lines(lines), class_="log"))
    number = on.in_diff.get((site.path, site.line)) if site.action == "rewrite" else None
    diff = link(f"diff-{number}", text("in the whole diff")) if number else NOTHING
    answer = code(lines[1].strip())
    return tag("p", text(f"{_LABELS[site.action]} "), answer, diff, class_="key")


def _how_to_answer(on: Shown) -> Html:
    file = (code("answers:"), text(" in "), code("port.yaml"))
    words = text("To decide a place otherwise, or to accept a hazard, add its last line to ")
    return tag("p", words, *file, text(", then: "), code(on.again), class_="lead")


def _reasons(on: Shown, site: Site) -> Html:
    steps = site.steps or tuple(map(Step, site.reasons))
    return tag("ol", *(_step(on, site, step) for step in steps), class_="reasons")


def _step(on: Shown, site: Site, step: Step) -> Html:
    if not step.path:
        return tag("li", prose(step.text))
    lines = on.lines(step.path)
    seen = NOTHING
    is_shown = (step.path, step.line) == (site.path, site.line)  # in the rows above
    if 0 < step.line <= len(lines) and not is_shown:
        inside = step.line in on.inside_strings(step.path)[0]
        line = lines[step.line - 1].strip()
        seen = tag("code", coloured(line, step.path, inside_string=inside), class_="seen")
    at = tag(
        "span",
        text(short_place(step.path, step.line)),
        class_="at",
        title=place(step.path, step.line),
    )
    return tag("li", prose(step.text), Html(" "), at, seen)


def item(id: str, *summary: Html, body: Sequence[Html] = (), is_open: bool = False) -> Html:
    """Return something with a place of its own on the page, that folds."""
    return tag(
        "details",
        tag("summary", *summary),
        tag("div", *body, class_="body"),
        id=id,
        class_="item",
        open=is_open,
    )


def rows_html(rows: Sequence[Row], path: str, inside: Inside) -> Html:
    """Return rows of a diff as lines of code, with their numbers where they are known."""
    inner = itertools.dropwhile(_is_blank, reversed(list(itertools.dropwhile(_is_blank, rows))))
    kept = dedented(list(inner)[::-1])
    return tag("pre", *(row_html(row, path, inside) for row in kept), class_="diff")


def _is_blank(row: Row) -> bool:
    return row.kind == " " and not row.text.strip()


_KINDS = {"-": "del", "+": "add", " ": "same", "…": "more"}
_STEP, _MOST_INDENT = 4, 32  # the style sheet has a rule for each


def row_html(row: Row, path: str, inside: Inside, site: int = 0) -> Html:
    """Return a row as a line of code; with the number of a site it leads there, and is led to."""
    is_inside = row.number in inside[row.kind != "-"]
    content = coloured(row.text, path, marks=row.marks, inside_string=is_inside)
    indent = len(row.text) - len(row.text.lstrip(" "))
    leads = tag("a", text(f"site {site}"), href=f"#site-{site}", class_="to") if site else NOTHING
    return tag(
        "span",
        Html(f"<i>{row.kind}</i>"),
        leads,
        content,
        Html("\n"),
        id=f"diff-{site}" if site else None,
        class_=_KINDS[row.kind],
        data_n=row.number or None,
        data_w=min(indent // _STEP * _STEP, _MOST_INDENT) or None,
    )


def _first_line(rows: Sequence[Row]) -> int:
    """Return the number of the first line that differs, of the first line where none does."""
    changed = [row.number for row in rows if row.kind in "+-"]
    return next(iter(changed or [row.number for row in rows]), 0)


def _one_line(words: str) -> str:
    return " ".join(words.split())
