"""The review page: one HTML file that needs nothing beside it, and shows a report to a person."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from importlib import resources

from porttool.frozen import dataclass
from porttool.report import Look, Report, Site, counted
from porttool.review import facts
from porttool.review.decisions import MOST_OPEN, Shown, ledger, shown, sites
from porttool.review.markup import NOTHING, Html, code, join, lines, link, path, prose, tag, text
from porttool.review.numbers import Numbered, numbered_sites
from porttool.review.sources import NO_SOURCES, Sources
from porttool.review.text import (
    check_words,
    end_of_log,
    look_place,
    proof_sentence,
    short,
    standing_words,
    verdict_line,
    visible,
)
from porttool.review.whole_diff import whole_diff
from porttool.standing import UP_TO_DATE, Standing, next_step

_MOST_LOOKS = 12
_LONGEST_TIER = 40
_THEN = ", then: "
_TIERS = {"run": "run", "syntax": "syntax", "none": "none"}
_NOTHING_STANDS_OUT = "Nothing stands out: no open question, no hazard, nothing that moved."
_KEYS = (
    ("j, n", "next place"),
    ("k, p", "previous place"),
    ("o", "fold or unfold this place"),
    ("e", "unfold everything"),
    ("c", "fold everything"),
    ("/", "filter"),
    ("x", "reviewed: fold it, and go on"),
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
    short: str = ""  # the title in the contents, where the whole one is too long


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
    on = shown(report, sources, standing)
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
        tag(
            "main",
            _first(on),
            *map(_section, sections),
            id="main",
            # What somebody has read of another branch is not read of this one.
            data_report=f"{report.tip} {report.digest}",
        ),
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
        (
            Html(code(e.id[:12]) + text(f" {e.subject}, {e.author.partition(' <')[0]}", 300))
            for e in report.experiment
        ),
        "; ",
    )
    tip = code(report.tip[:12]) if report.tip else text("not written")
    made = counted(len(report.series), "commit")
    changes = standing_words(report, standing)
    identity = tag(
        "dl",
        *_pair("experiment", experiment),
        *_pair("onto", Html(code(report.onto) + " " + code(report.onto_id[:12]))),
        *_pair("branch", Html(code(report.branch) + " " + tip + text(f", {made}"))),
        *_switch(report),
        *(_pair("since then", prose(f"{'; '.join(changes)}.")) if changes else ()),
        *_pair("next", _next(next_step(report, standing))),
        class_="identity",
    )
    return tag(
        "header",
        tag("p", text("Port review"), class_="kicker"),
        tag("h1", text(report.port, 200), tag("small", text(f" onto {report.onto}", 200))),
        tag(
            "dl",
            *_card("verdict", report.verdict, verdict_line(report), report.verdict),
            *_card("off means off", _tier(report), _proof_words(report), _proof_kind(report)),
            *_card("places", *_places(report), ""),
            class_="cards",
        ),
        identity,
    )


def _next(step: str) -> Html:
    """Return what to do next: the words as words, the command so that a click selects all of it."""
    words, then, command = step.rpartition(_THEN)
    if not then and not command.startswith(("porttool ", "git ")):
        return prose(step)
    return Html(text(words + then) + tag("code", text(command), class_="next"))


def _switch(report: Report) -> Iterable[Html]:
    if report.gate is None:
        return ()
    state = "on" if report.gate.default else "off"
    return _pair("switch", Html(code(report.gate.key) + text(f", {state} by default")))


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


def _tier(report: Report) -> str:
    return f"proven by {report.proof.tier}" if _proof_kind(report) == "ready" else "not proven"


def _proof_words(report: Report) -> str:
    """Return what the proof says, without the tier that stands in large letters above."""
    head, colon, words = proof_sentence(report).partition(": ")
    return words[:1].upper() + words[1:] if colon and len(head) < _LONGEST_TIER else head


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
        tag("div", _look(looks[0], anchors), _end_of_log(on.report, looks[0]), class_="callout"),
        others if more else NOTHING,
        id="first",
    )


def _look(look: Look, anchors: dict[tuple[str, str, int], list[tuple[str, str]]]) -> Html:
    found = anchors.get((look.kind, look.path, look.line), [])
    anchor = next((anchor for anchor, words in found if words in look.why), "")
    kind, why = tag("b", text(look.kind)), look.why
    if look.path:
        where = path(look_place(look))
    else:
        name, colon, detail = look.why.partition(": ")
        kind = tag("b", text(f"failed {look.kind}"))
        where, why = text(name), detail if colon else ""
    parts = (kind, link(anchor, where) if anchor else where)
    return Html(join(parts, " ") + tag("span", prose(why, 600)))


def _end_of_log(report: Report, look: Look) -> Html:
    end = end_of_log(report, look)
    return tag("pre", lines(end)) if end else NOTHING


def _anchors(report: Report) -> dict[tuple[str, str, int], list[tuple[str, str]]]:
    """Return where on the page looks lead: anchors and words of the reason, by kind and place."""
    found: dict[tuple[str, str, int], list[tuple[str, str]]] = {}
    for number, check in enumerate(report.checks, start=1):
        found.setdefault(("check", "", 0), []).append((f"check-{number}", check_words(check)))
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
    yield _Section(
        "asks",
        "Open questions",
        str(len(asked)),
        Html(_paste(on) + sites(on, asked, is_open=len(asked) <= MOST_OPEN, says_how=False)),
    )
    yield _Section(
        "ledger", "Ledger of the experiment", str(len(report.ledger)), ledger(on), "Ledger"
    )
    yield _Section(
        "new",
        f"Gained by {report.onto} since the experiment",
        str(len(new)),
        sites(on, new, is_open=len(new) <= MOST_OPEN, says_how=True, says_new=False),
        "Gained since",
    )
    yield from _other_sites(on, every, says_how=not new)
    yield _Section("gate", "The gate", "", facts.gate(report))
    yield _Section("proof", "Off means off", "", facts.proof(report))
    yield _Section("checks", "Checks", str(len(report.checks)), facts.checks(report))
    yield _Section("measured", "Measured", "", facts.measured(report, pictures))
    rules = facts.rules(report) if report.rules else NOTHING
    yield _Section("rules", "The learned rules", str(len(report.rules)), rules)
    yield _Section("branch", "Where it came from", "", facts.branch(report))
    yield _Section("diff", "The whole diff", str(len(on.sources.changed)), whole_diff(on))


def _paste(on: Shown) -> Html:
    """Return the lines that answer several questions at once; of one they stand with it."""
    if len(on.report.asks) <= 1:
        return NOTHING
    then = (text("Add all of them to "), code("port.yaml"), text(", then: "), code(on.again))
    return Html(tag("p", *then) + tag("pre", lines(on.report.answers), class_="log"))


def _other_sites(on: Shown, every: Iterable[Numbered], *, says_how: bool) -> Iterable[_Section]:
    groups: dict[str, list[Numbered]] = {"hazards": [], "known": [], "skips": []}
    for number, site in every:
        group = _group(site)
        if group:
            groups[group].append((number, site))
    for id, title, name in (
        ("hazards", "Hazards", ""),
        ("known", "Known to the experiment", "Known before"),
        ("skips", "Left alone", ""),
    ):
        found = groups[id]
        content = sites(on, found, is_open=False, says_how=says_how)
        yield _Section(id, title, str(len(found)), content, name)
        says_how = says_how and not found


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
        tag("h2", text(section.title, 200), Html(" "), count),
        section.content,
        id=section.id,
        aria_label=visible(short(section.title, 200)),
    )


def _navigation(sections: Iterable[_Section]) -> Html:
    rows = (
        tag("li", link(s.id, text(s.short or s.title), tag("small", text(s.count))))
        for s in sections
    )
    return tag(
        "nav",
        tag(
            "search",
            tag("label", text("Filter places"), for_="filter"),
            Html('<input id="filter" type="search" autocomplete="off" spellcheck="false">'),
            tag("output", id="matches", for_="filter"),
            tag("output", id="reviewed"),
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
        tag(
            "p",
            tag("label", Html('<input id="listen" type="checkbox" checked> '), text("keys are on")),
        ),
        tag("p", tag("button", text("Close"), id="close", type="button")),
        id="keys",
        aria_labelledby="keys-title",
    )


def _footer(report: Report) -> Html:
    return tag(
        "footer",
        tag("p", text(f"porttool {report.version} · plan {report.digest[:12]}")),
    )
