"""Text from a repository, made safe to show: nothing in it can move a cursor or hide itself."""

from __future__ import annotations

import unicodedata

from porttool.report import Look, Report, Site, counted

_HIDING = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

WORDS = {"rewrite": "rewritten", "skip": "left alone", "ask": "OPEN QUESTION", "hazard": "hazard"}
_SITE_ORDER = {"ask": 0, "hazard": 1, "rewrite": 2, "skip": 3}


def visible(text: str, *, keep: str = "") -> str:
    """Return `text` with control, bidirectional and other invisible characters as escapes.

    Characters in `keep` stay as they are. A path with undecodable bytes shows them as `\\udc..`.
    """
    return "".join(
        _escape(char) if char not in keep and unicodedata.category(char) in _HIDING else char
        for char in text
    )


def short(text: str, limit: int) -> str:
    """Return at most about `limit` characters, saying how many are missing when some are."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text) - limit} characters more)"


def short_line(text: str, limit: int) -> str:
    """Return one line of at most `limit` characters; an ellipsis where some are missing."""
    shown = visible(text)
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


def place(path: str, line: int) -> str:
    """Return `path:line`, the line left out where there is none."""
    return visible(f"{path}:{line}" if line else path)


def sites_by_urgency(report: Report) -> list[Site]:
    """Return the sites: open, hazards, gained since the experiment, the others."""
    return sorted(report.sites, key=lambda s: (_SITE_ORDER[s.action], s.known, s.path, s.line))


def look_place(look: Look) -> str:
    """Return where to look, or what kind of thing it is when it has no place."""
    return place(look.path, look.line) if look.path else look.kind


def proof_sentence(report: Report) -> str:
    """Say which tier of the off-proof was reached, and no more than that."""
    proof = report.proof
    if not proof.holds:
        return "Not proven: with the switch off this branch may differ from onto."
    if proof.tier == "run":
        return (
            "Proven by syntax and by a run: with the switch folded away every file is onto's, and "
            "the same seeded run left the same metrics and checkpoint on both."
        )
    if proof.tier == "syntax":
        return (
            "Proven by syntax: with the switch folded away every file is onto's. No run has "
            "compared them yet."
        )
    return "Nothing was proven: this port has no switch."


def site_counts(report: Report) -> str:
    """Return how many sites were decided how, for a heading."""
    counts = dict.fromkeys(_SITE_ORDER, 0)
    for site in report.sites:
        counts[site.action] += 1
    new = sum(not site.known for site in report.sites)
    parts = [f"{count} {WORDS[action]}" for action, count in counts.items() if count]
    return ", ".join([counted(len(report.sites), "site"), *parts, f"{new} gained by main since"])


def _escape(char: str) -> str:
    if char in _NAMED:
        return _NAMED[char]
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
