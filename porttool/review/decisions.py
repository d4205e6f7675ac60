"""What was decided, as HTML: the ledger of the experiment, and every site with its reasons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from porttool.frozen import dataclass
from porttool.report import LedgerEntry, Report, Site, Step, counted
from porttool.review.diff import Changes, Row, dedented, site_rows
from porttool.review.highlight import coloured, lines_inside_strings
from porttool.review.markup import NOTHING, Html, code, join, link, prose, tag, text
from porttool.review.numbers import Numbered, numbered_sites
from porttool.review.sources import Sources
from porttool.review.text import WORDS, place

MOST_OPEN = 12  # so many places are unfolded from the start: the rest would bury what is below
_OPEN_OUTCOMES = ("adapted", "dropped")


@dataclass(frozen=True)
class Shown:
    """A report and what it is shown with: files, numbers by the sites' keys, lines of strings."""

    report: Report
    sources: Sources
    numbers: Mapping[str, int]
    inside: dict[str, frozenset[int]]

    def lines(self, path: str) -> Sequence[str]:
        """Return a file's lines on onto, none where they are not at hand."""
        sides = self.sources.branch.get(path)
        return sides.before if sides else ()

    def inside_strings(self, path: str) -> frozenset[int]:
        """Return the lines of a file that begin inside of a string; looked for once a file."""
        if not path.endswith((".py", ".pyi")):
            return frozenset()
        if path not in self.inside:
            self.inside[path] = lines_inside_strings(self.lines(path))
        return self.inside[path]


def shown(report: Report, sources: Sources) -> Shown:
    """Put together what showing a report needs."""
    numbers = {site.key: number for number, site in numbered_sites(report)}
    return Shown(report, sources, numbers, {})


def ledger(on: Shown) -> Html:
    """Return every hunk of the experiment beside what became of it on onto."""
    changes = Changes(on.sources)
    told: tuple[list[Row], list[Row]] | None = None
    parts = []
    for number, entry in enumerate(on.report.ledger, start=1):
        rows = changes.in_experiment(entry), changes.on_branch(entry)
        parts.append(_hunk(on, number, entry, rows=rows, is_told=rows == told and bool(rows[1])))
        told = rows
    return join(parts)


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
    then_at = _short_place(entry.path, _first_line(then) or entry.line_after)
    now_at = _short_place(path_now, _first_line(now)) if now else ""
    right = rows_html(now, path_now) if now else tag("p", text(_absent(on, entry)), class_="absent")
    first = entry.before.strip() or entry.after.strip()
    site = on.numbers.get(entry.site)
    shown_lines = (
        tag("p", text("In the same lines as "), link(f"hunk-{number - 1}", text("the hunk above")))
        if is_told
        else tag(
            "div",
            _side("the experiment", then_at, rows_html(then, entry.path)),
            _side("the branch", now_at, right),
            class_="sides",
        )
    )
    decided = NOTHING
    if site:
        decided = tag("p", text("decided as "), link(f"site-{site}", text(f"site {site}")))
    return item(
        f"hunk-{number}",
        tag("span", text(entry.outcome), class_=f"badge {entry.outcome.replace(' ', '-')}"),
        tag("code", text(_one_line(first), 160), class_="what"),
        tag("span", prose(entry.why, 160), class_="why"),
        tag(
            "span",
            text(_short_place(entry.path, entry.line_before or entry.line_after)),
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


def sites(on: Shown, chosen: Iterable[Numbered], *, is_open: bool) -> Html:
    """Return sites under the files that they are in, each with its change and its reasons."""
    by_file: dict[str, list[Numbered]] = {}
    for number, site in chosen:
        by_file.setdefault(site.path, []).append((number, site))
    return join(
        tag(
            "section",
            tag(
                "h3",
                code(path),
                Html(" "),
                tag("small", text(counted(len(found), "place"))),
            ),
            *(_site(on, number, site, is_open=is_open) for number, site in found),
            class_="file",
        )
        for path, found in by_file.items()
    )


def _site(on: Shown, number: int, site: Site, *, is_open: bool) -> Html:
    rows = site_rows(site, on.lines(site.path))
    new = NOTHING if site.known else tag("span", text("new"), class_="badge new")
    return item(
        f"site-{number}",
        tag("span", text(f"{number}"), class_="number"),
        tag("span", text(WORDS[site.action].lower()), class_=f"badge {site.action}"),
        new,
        tag("code", text(_one_line(site.text), 160), class_="what"),
        tag("span", text(f"line {site.line}"), class_="where"),
        body=(
            rows_html(rows, site.path, on.inside_strings(site.path)),
            _reasons(on, site),
            tag("p", text("key "), code(site.key), class_="key"),
        ),
        is_open=is_open,
    )


def _reasons(on: Shown, site: Site) -> Html:
    steps = site.steps or tuple(map(Step, site.reasons))
    return tag("ol", *(_step(on, step) for step in steps), class_="reasons")


def _step(on: Shown, step: Step) -> Html:
    if not step.path:
        return tag("li", prose(step.text))
    lines = on.lines(step.path)
    seen = NOTHING
    if 0 < step.line <= len(lines):
        inside = step.line in on.inside_strings(step.path)
        line = lines[step.line - 1].strip()
        seen = tag("code", coloured(line, step.path, inside_string=inside), class_="seen")
    at = tag(
        "span",
        text(_short_place(step.path, step.line)),
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


def rows_html(rows: Sequence[Row], path: str, inside: frozenset[int] = frozenset()) -> Html:
    """Return rows of a diff as lines of code, with their numbers where they are known."""
    return tag("pre", *(_row(row, path, inside) for row in dedented(rows)), class_="diff")


_KINDS = {"-": "del", "+": "add", " ": "same", "…": "more"}


def _row(row: Row, path: str, inside: frozenset[int]) -> Html:
    content = coloured(row.text, path, marks=row.marks, inside_string=row.number in inside)
    return tag(
        "span",
        Html(f"<i>{row.kind}</i>"),
        content,
        Html("\n"),
        class_=_KINDS[row.kind],
        data_n=row.number or None,
    )


def _first_line(rows: Sequence[Row]) -> int:
    """Return the number of the first line that differs, of the first line where none does."""
    changed = [row.number for row in rows if row.kind in "+-"]
    return next(iter(changed or [row.number for row in rows]), 0)


def _one_line(words: str) -> str:
    return " ".join(words.split())


def _short_place(path: str, line: int) -> str:
    return place(path.rpartition("/")[2], line)
