"""The review page: one HTML file that needs nothing beside it, and shows a report to a person."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from importlib import resources

from porttool.frozen import dataclass
from porttool.report import UP_TO_DATE, Look, Report, Site, Standing, counted, next_step
from porttool.review import facts
from porttool.review.decisions import MOST_OPEN, Shown, ledger, shown, sites
from porttool.review.markup import NOTHING, Html, code, join, lines, link, prose, tag, text
from porttool.review.numbers import Numbered, numbered_sites
from porttool.review.sources import NO_SOURCES, Sources
from porttool.review.text import look_place, proof_sentence

_MOST_LOOKS = 12
_TIERS = {"run": "run", "syntax": "syntax", "none": "none"}
_NOTHING_STANDS_OUT = "Nothing stands out: no open question, no hazard, nothing that moved."
_KEYS = (
    ("j, n", "next place"),
    ("k, p", "previous place"),
    ("o", "fold or unfold this place"),
    ("e", "unfold everything"),
    ("c", "fold everything"),
    ("/", "filter"),
    ("Esc", "leave the filter, and clear it"),
    ("?", "show these keys"),
)


@dataclass(frozen=True)
class _Section:
    """A part of the page: its anchor, title, how much is in it, and its content."""

    id: str
    title: str
    count: str
    content: Html


def document(
    report: Report,
    standing: Standing = UP_TO_DATE,
    sources: Sources = NO_SOURCES,
    pictures: Sequence[facts.Picture] = (),
) -> str:
    """Return the page; `sources` are the files around what it shows, as far as they are at hand.

    `pictures` are what the measurements left, as PNG, by what was measured.
    """
    style, script = _asset("page.css"), _asset("page.js")
    on = shown(report, sources)
    sections = [section for section in _sections(on, pictures) if section.content]
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    head = tag(
        "head",
        Html('<meta charset="utf-8">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html('<meta name="color-scheme" content="light dark">'),
        Html('<meta name="referrer" content="no-referrer">'),
        tag("title", text(f"{report.port} onto {report.onto}: {report.verdict}", 200)),
        Html(f"<style>{style}</style>"),
    )
    body = tag(
        "body",
        tag("a", text("Skip to what to look at first"), href="#first", class_="skip"),
        _header(on, standing),
        _navigation(sections),
        tag("main", _first(on), *map(_section, sections), id="main"),
        _footer(report),
        _keys(),
        Html(f"<script>{script}</script>"),
    )
    return f'<!doctype html>\n<html lang="en">{head}{body}</html>\n'


def _asset(name: str) -> str:
    return (resources.files("porttool.review") / "page" / name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


# -- the top -----------------------------------------------------------------------------------


def _header(on: Shown, standing: Standing) -> Html:
    report = on.report
    experiment = join(
        (Html(code(e.id[:12]) + text(f" {e.subject}", 200)) for e in report.experiment),
        ", ",
    )
    tip = code(report.tip[:12]) if report.tip else text("not written")
    made = counted(len(report.series), "commit")
    identity = tag(
        "dl",
        *_pair("experiment", experiment),
        *_pair("onto", Html(code(report.onto) + " " + code(report.onto_id[:12]))),
        *_pair("branch", Html(code(report.branch) + " " + tip + text(f", {made}"))),
        *_pair("next", tag("code", text(next_step(report, standing)), class_="next")),
        class_="identity",
    )
    return tag(
        "header",
        tag("p", text("Port review"), class_="kicker"),
        tag("h1", text(report.port, 200), tag("small", text(f" onto {report.onto}", 200))),
        tag(
            "dl",
            *_card("verdict", report.verdict, verdict_line(report), report.verdict),
            *_card("off means off", _tier(report), proof_sentence(report), _proof_kind(report)),
            *_card("places", *_places(report), ""),
            class_="cards",
        ),
        identity,
    )


def _pair(name: str, content: Html) -> tuple[Html, Html]:
    return tag("dt", text(name)), tag("dd", content)


def _card(name: str, word: str, words: str, kind: str) -> tuple[Html]:
    return (
        tag(
            "div",
            tag("dt", text(name)),
            tag("dd", tag("b", text(word)), tag("span", prose(words))),
            class_=f"card {kind}".rstrip(),
        ),
    )


def verdict_line(report: Report) -> str:
    """Say in a few words what the verdict rests on."""
    failed = [check for check in report.checks if check.status == "failed"]
    if failed:
        return f"{len(failed)} of {counted(len(report.checks), 'check')} failed: " + ", ".join(
            check.name for check in failed[:3]
        )
    if report.asks:
        return f"{counted(len(report.asks), 'open question')} to answer in port.yaml"
    if report.verdict == "parked":
        if report.precondition.met and report.evidence:
            return report.evidence.decision.branch
        return f"the precondition is not met: {report.precondition.config}".removesuffix(": ")
    if not report.checks:
        return "no check was run yet"
    return f"{counted(len(report.checks), 'check')} passed"


def _tier(report: Report) -> str:
    return f"proven by {report.proof.tier}" if _proof_kind(report) == "ready" else "not proven"


def _proof_kind(report: Report) -> str:
    return "ready" if report.proof.holds and report.proof.tier != "none" else "unverified"


def _places(report: Report) -> tuple[str, str]:
    rewritten = sum(site.action == "rewrite" for site in report.sites)
    new = sum(not site.known for site in report.sites)
    return (
        f"{rewritten} rewritten",
        f"of {counted(len(report.sites), 'place')} looked at; {new} that main gained since the "
        "experiment was made",
    )


def _first(on: Shown) -> Html:
    """Return the one thing to look at first, and the others folded behind it."""
    looks = on.report.look_first
    title = tag("h2", text("Look at this first"))
    if not looks:
        return tag("section", title, tag("p", text(_NOTHING_STANDS_OUT)), id="first")
    anchors = _anchors(on.report)
    more = looks[1:_MOST_LOOKS]
    left = len(looks) - 1 - len(more)
    others = tag(
        "details",
        tag("summary", text(f"and {counted(len(looks) - 1, 'place')} after it")),
        tag(
            "ol",
            *(tag("li", _look(look, anchors)) for look in more),
            tag("li", text(f"{left} more stand below, in their sections")) if left else NOTHING,
            start=2,
        ),
        id="then",
    )
    return tag(
        "section",
        title,
        tag("p", _look(looks[0], anchors), class_="callout"),
        others if more else NOTHING,
        id="first",
    )


def _look(look: Look, anchors: dict[tuple[str, str, int], list[tuple[str, str]]]) -> Html:
    found = anchors.get((look.kind, look.path, look.line), [])
    anchor = next((anchor for anchor, words in found if words in look.why), "")
    kind = tag("b", text(look.kind))
    where = code(look_place(look)) if look.path else kind
    parts = (kind if look.path else NOTHING, link(anchor, where) if anchor else where)
    return Html(join(filter(None, parts), " ") + tag("span", prose(look.why, 600)))


def _anchors(report: Report) -> dict[tuple[str, str, int], list[tuple[str, str]]]:
    """Return where on the page looks lead: anchors and words of the reason, by kind and place."""
    found: dict[tuple[str, str, int], list[tuple[str, str]]] = {}
    for number, check in enumerate(report.checks, start=1):
        found.setdefault(("check", "", 0), []).append((f"check-{number}", check.name))
    for number, site in numbered_sites(report):
        kind = "new site" if site.action in ("rewrite", "skip") else str(site.action)
        found.setdefault((kind, site.path, site.line), []).append((f"site-{number}", site.text))
    for seed in report.seeds:
        found.setdefault(("moved seed", seed.path, seed.line), []).append(("gate", ""))
    for conflict in report.conflicts:
        for kind in ("conflict", "conflict region"):
            found.setdefault((kind, conflict.path, conflict.line), []).append(("branch", ""))
    for file in report.gate.reach if report.gate else ():
        found.setdefault(("hazard", file.path, 1), []).append(("gate", file.why))
    return found


# -- the parts ---------------------------------------------------------------------------------


def _sections(on: Shown, pictures: Sequence[facts.Picture]) -> Iterable[_Section]:
    report = on.report
    every = numbered_sites(report)
    asked = [(n, s) for n, s in every if s.action == "ask"]
    new = [(n, s) for n, s in every if not s.known and s.action == "rewrite"]
    answers = tag("pre", lines(report.answers), class_="log") if report.answers else NOTHING
    paste = Html(tag("p", text("Add to "), code("port.yaml"), text(":")) + answers)
    yield _Section(
        "asks",
        "Open questions",
        str(len(asked)),
        Html(paste + sites(on, asked, is_open=len(asked) <= MOST_OPEN)) if asked else NOTHING,
    )
    yield _Section("ledger", "Ledger of the experiment", str(len(report.ledger)), ledger(on))
    yield _Section(
        "new",
        "Gained by main since",
        str(len(new)),
        sites(on, new, is_open=len(new) <= MOST_OPEN),
    )
    yield from _other_sites(on, every)
    yield _Section("gate", "The gate", "", facts.gate(report))
    yield _Section("proof", "Off means off", "", facts.proof(report))
    yield _Section("checks", "Checks", str(len(report.checks)), facts.checks(report))
    yield _Section("measured", "Measured", "", facts.measured(report, pictures))
    rules = facts.rules(report) if report.rules else NOTHING
    yield _Section("rules", "The learned rules", str(len(report.rules)), rules)
    yield _Section("branch", "The branch", str(len(report.series)), facts.branch(report))


def _other_sites(on: Shown, every: Iterable[Numbered]) -> Iterable[_Section]:
    groups: dict[str, list[Numbered]] = {"hazards": [], "known": [], "skips": []}
    for number, site in every:
        group = _group(site)
        if group:
            groups[group].append((number, site))
    for id, title in (
        ("hazards", "Hazards"),
        ("known", "Known to the experiment"),
        ("skips", "Left alone"),
    ):
        found = groups[id]
        yield _Section(id, title, str(len(found)), sites(on, found, is_open=False))


def _group(site: Site) -> str:
    if site.action == "hazard":
        return "hazards"
    if site.action == "skip":
        return "skips"
    return "known" if site.action == "rewrite" and site.known else ""


def _section(section: _Section) -> Html:
    count = tag("small", text(section.count)) if section.count else NOTHING
    return tag(
        "section",
        tag("h2", text(section.title), Html(" "), count),
        section.content,
        id=section.id,
        aria_label=section.title,
    )


def _navigation(sections: Iterable[_Section]) -> Html:
    rows = (tag("li", link(s.id, text(s.title), tag("small", text(s.count)))) for s in sections)
    return tag(
        "nav",
        tag(
            "search",
            tag("label", text("Filter"), for_="filter"),
            Html('<input id="filter" type="search" autocomplete="off" spellcheck="false">'),
            tag("output", id="matches", for_="filter"),
        ),
        tag("ul", tag("li", link("first", text("Look at this first"))), *rows),
        tag(
            "p",
            tag("button", text("Unfold all"), id="unfold", type="button"),
            tag("button", text("Fold all"), id="fold", type="button"),
            tag("button", text("Keys ?"), id="help", type="button"),
        ),
        aria_label="Contents",
    )


def _keys() -> Html:
    rows = join(
        Html(tag("dt", tag("kbd", text(key))) + tag("dd", text(does))) for key, does in _KEYS
    )
    return tag(
        "dialog",
        tag("h2", text("Keys"), id="keys-title"),
        tag("dl", rows),
        tag("p", tag("button", text("Close"), id="close", type="button")),
        id="keys",
        aria_labelledby="keys-title",
    )


def _footer(report: Report) -> Html:
    return tag(
        "footer",
        tag("p", text(f"porttool {report.version} · plan {report.digest[:12]}")),
    )
