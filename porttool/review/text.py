"""Text from a repository, made safe to show: nothing in it can move a cursor or hide itself."""

from __future__ import annotations

import shlex
import unicodedata

from porttool.evidence import WORDS as OUTCOMES
from porttool.evidence import shown_interval
from porttool.report import Check, Look, Report, Site, counted, yaml_text
from porttool.standing import Standing, remake_command

_MAX_LOOKS = 8
_END_OF_LOG = 4
LINE = 110
_HIDING = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

WORDS = {"rewrite": "rewritten", "skip": "left alone", "ask": "OPEN QUESTION", "hazard": "hazard"}
ANSWERING = {
    "rewrite": "Decide otherwise",
    "skip": "Decide otherwise",
    "ask": "Answer it in port.yaml",
    "hazard": "Seen and accepted: say so in port.yaml",
}
_ANSWERS = {"rewrite": "skip", "skip": "rewrite", "hazard": "skip"}
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


def short_place(path: str, line: int) -> str:
    """Return a place without the folders that its file is in."""
    return place(path.rpartition("/")[2], line)


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


def check_words(check: Check) -> str:
    """Return a check as the look at it says it."""
    return f"{check.name}: {check.detail}"


def end_of_log(report: Report, look: Look) -> list[str]:
    """Return the end of what a failed check said, which may be all that one has to know."""
    said = (c.tail for c in report.checks if look.kind == "check" and look.why == check_words(c))
    return [line for line in next(said, ()) if line.strip()][-_END_OF_LOG:]


def seconds_words(seconds: float) -> str:
    """Return a time as people say it."""
    if seconds < 99.5:
        return f"{seconds:.1f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"


def site_scope(site: Site) -> str:
    """Return the function that a site is in, as its key names it; "" where the key does not."""
    head = f"{site.path}::"
    return site.key.removeprefix(head).partition("::")[0] if site.key.startswith(head) else ""


def again_command(report: Report, standing: Standing) -> str:
    """Return the command that makes the branch once more, or for the first time."""
    if report.tip:
        return remake_command(report.port, report.branch, report.onto, standing)
    return f"porttool apply {shlex.quote(report.port)} --onto {shlex.quote(report.onto)}"


def answer_lines(site: Site, again: str) -> tuple[str, str]:
    """Return what to write into `port.yaml` for another decision about a site, and what then."""
    head = f"answers:  # in port.yaml, then: {again}"
    return head, f"  {yaml_text(site.key)}: {_ANSWERS.get(site.action, site.answer)}"


def standing_words(report: Report, standing: Standing) -> list[str]:
    """Say what has happened to the branch, its plan and its onto since the report was made."""
    if standing.merged:
        return [f"{report.onto} has it since {standing.merged[:12]}"]
    gained = counted(standing.stale, "commit")
    return [
        *([f"{report.onto} has gained {gained}"] if standing.stale else []),
        *([f"{counted(standing.took_in, 'commit')} of them merged in"] if standing.took_in else []),
        *(["somebody has committed on the branch"] if standing.edited else []),
        *(["port.yaml is another now"] if standing.outdated else []),
    ]


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
