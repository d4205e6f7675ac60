"""Text from a repository, made safe to show: nothing in it can move a cursor or hide itself."""

from __future__ import annotations

import unicodedata

from porttool.evidence import WORDS as OUTCOMES
from porttool.evidence import shown_interval
from porttool.report import Look, Report, counted

_MAX_LOOKS = 8
LINE = 110
_HIDING = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

WORDS = {"rewrite": "rewritten", "skip": "left alone", "ask": "OPEN QUESTION", "hazard": "hazard"}
_SITE_ORDER = {"ask": 0, "hazard": 1, "rewrite": 2, "skip": 3}


def visible(text: str, *, keep: str = "") -> str:
    """Return `text` with control, bidirectional and other invisible characters as escapes.

    Characters in `keep` stay as they are. A path with undecodable bytes shows them as `\\udc..`.
    """
    if text.isprintable():
        return text  # at once for nearly all of them
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


def measured_lines(report: Report) -> list[str]:
    """Say what was measured of a port, when and where, and what follows."""
    evidence = report.evidence
    if evidence is None:
        return []
    bench, drift, decision = evidence.bench, evidence.drift, evidence.decision
    lines = []
    if bench is not None:
        said = bench.failed or f"{bench.effect:+.1%} time saved, {shown_interval(bench)}"
        lines.append(f"bench {bench.taken.date}: {said}")
        lines += [f"  {part}" for part in (bench.taken.what, bench.taken.machine) if part]
    if drift is not None:
        lines.append(f"drift {drift.taken.date}: {drift.verdict} {drift.detail}".rstrip())
        lines += [f"  {part}" for part in (drift.taken.what, drift.taken.machine) if part]
    lines.append(f"decision: {OUTCOMES[decision.outcome]}, {decision.branch}")
    return lines


def site_counts(report: Report) -> str:
    """Return how many sites were decided how, for a heading."""
    counts = dict.fromkeys(_SITE_ORDER, 0)
    for site in report.sites:
        counts[site.action] += 1
    new = sum(not site.known for site in report.sites)
    parts = [f"{count} {WORDS[action]}" for action, count in counts.items() if count]
    return ", ".join([counted(len(report.sites), "site"), *parts, f"{new} gained by main since"])


def summary(report: Report) -> list[str]:
    """Return what there is to say of a branch that was just made: commits, counts, first looks."""
    more = len(report.look_first) - _MAX_LOOKS
    looks = [
        *_by_file(report.look_first[:_MAX_LOOKS]),
        *([f"  and {more} more"] if more > 0 else []),
    ]
    return [
        *(f"{commit.id[:12]} {commit.subject}" for commit in report.series),
        site_counts(report),
        proof_sentence(report),
        *([f"look first at (porttool review {report.port}):"] if looks else []),
        *(short_line(look, LINE) for look in looks),
    ]


def _by_file(looks: tuple[Look, ...]) -> list[str]:
    """Return a line for each look under its file's path, the most urgent file first."""
    lines: list[str] = []
    for path in dict.fromkeys(look.path for look in looks):
        lines += [f"  {path}"] if path else []
        for look in looks:
            if look.path == path:
                name = path.rpartition("/")[2]
                where = f" {name}:{look.line}" if look.line else f" {name}" if path else ""
                indent = "    " if path else "  "
                lines.append(f"{indent}{look.kind}{where}: {look.why}")
    return lines


def _escape(char: str) -> str:
    if char in _NAMED:
        return _NAMED[char]
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
