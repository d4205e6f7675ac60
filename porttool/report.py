"""The one record of a port: what was learned, decided, proven and checked, as values and as JSON.

`apply` makes a `Report`, `verify` returns a copy with its checks and verdict, `review` shows it.
It imports no other part of the tool but the errors and the values of what was measured, so a report
can be read where only the report is at hand. Strings are kept exactly, undecodable path bytes
included: the JSON text is ASCII.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from porttool.coding import ReportError, decode, encode
from porttool.evidence import Basis, Evidence, Measurement
from porttool.frozen import dataclass

SCHEMA = 1

Verdict = Literal["ready", "parked", "failed", "unverified"]


@dataclass(frozen=True)
class Commit:
    """A commit of the branch, oldest first in a series."""

    id: str
    subject: str


@dataclass(frozen=True)
class Experiment:
    """A commit that is being ported; `author` as "Name <mail>", `date` as ISO 8601 with offset."""

    id: str
    subject: str
    author: str
    date: str


@dataclass(frozen=True)
class Example:
    """An edit of the experiment that taught a rule."""

    path: str
    line: int
    before: str
    after: str


@dataclass(frozen=True)
class Rule:
    """A rewrite generalised from edits; `neutral` when a plain object gives the same result."""

    name: str
    before: str
    after: str
    neutral: bool
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True)
class LedgerEntry:
    """What became of one hunk of the experiment; lines count from 1 on either side.

    Where onto has a place for it, `path_now` and `line_now` are that place, and `site` is the key
    of the site that is there.
    """

    path: str
    line_before: int
    line_after: int
    before: str
    after: str
    outcome: Literal["applied", "adapted", "dropped", "already there"]
    why: str
    path_now: str = ""
    line_now: int = 0
    site: str = ""


@dataclass(frozen=True)
class Step:
    """One step of the reasons for a decision, and the place on onto where it is seen, if any."""

    text: str
    path: str = ""
    line: int = 0


@dataclass(frozen=True)
class Site:
    """A place on onto and the decision about it.

    `known` is False where main gained the place after the experiment was made. `line` and `column`
    are those of onto. `steps` are the reasons once more, each with its place, if one has a place.
    `only_skip` says of a question that no other answer settles it.
    """

    key: str
    path: str
    line: int
    column: int
    text: str
    action: Literal["rewrite", "skip", "ask", "hazard"]
    reasons: tuple[str, ...]
    rule: str | None = None
    replacement: str | None = None
    known: bool = True
    steps: tuple[Step, ...] = ()
    only_skip: bool = False

    @property
    def answer(self) -> str:
        """What answers a question in `port.yaml`, to be completed where there is a choice."""
        return "skip" if self.only_skip else "rewrite  # or: skip"


@dataclass(frozen=True)
class Seed:
    """Where an object is wrapped; `moved_from` is the experiment's place when main has another."""

    path: str
    line: int
    scope: str
    target: str | None
    constructor: str
    call: str
    form: Literal["guard", "call", "lazy", "ungated"]
    moved_from: str | None = None
    note: str = ""


@dataclass(frozen=True)
class Reach:
    """Whether a settings file can turn the switch on; `on` says that it does so already."""

    path: str
    reaches: bool
    why: str
    on: bool = False


@dataclass(frozen=True)
class Gate:
    """The switch in front of the seeds: its dotted `key`, declared in `module`, shown in `yaml`."""

    key: str
    default: bool
    module: str
    yaml: tuple[str, ...] = ()
    reach: tuple[Reach, ...] = ()


@dataclass(frozen=True)
class Excluded:
    """A folder that the plan leaves out, and how many of its files name what is ported."""

    folder: str
    files: int


@dataclass(frozen=True)
class FileProof:
    """What the proof says about one file."""

    path: str
    verdict: str
    detail: str = ""


@dataclass(frozen=True)
class Proof:
    """How far "off means off" was shown, and what that rests on."""

    holds: bool
    tier: Literal["none", "syntax", "run"]
    files: tuple[FileProof, ...] = ()
    assumes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Conflict:
    """A region where a plain cherry-pick stops; `resolved` says how the port got past it, or ""."""

    path: str
    line: int
    kind: str
    detail: str
    resolved: str = ""


@dataclass(frozen=True)
class Clause:
    """One condition of the precondition, with the value that the config has."""

    text: str
    seen: str
    met: bool


@dataclass(frozen=True)
class Threshold:
    """What a program measured for the precondition at the commit `at`, and whether that meets it.

    `fault` says why nothing came of it; then `taken` is None and `met` False.
    """

    at: str
    met: bool
    clause: Clause
    taken: Measurement | None = None
    fault: str = ""


@dataclass(frozen=True)
class Precondition:
    """Whether the plan's rule is met, by the targeted config or by what was measured.

    `met` is True when the plan has no rule. `measured` is one more clause, None where it was not.
    """

    met: bool
    config: str = ""
    clauses: tuple[Clause, ...] = ()
    measured: Threshold | None = None

    @property
    def conditions(self) -> tuple[Clause, ...]:
        """Every condition that was looked at; what was measured comes last, with its date."""
        found = self.measured
        if found is None:
            return self.clauses
        taken = found.taken
        on = f" on {taken.machine}" if taken and taken.machine else ""
        seen = f"{found.clause.seen}, measured {taken.date[:10]}{on}" if taken else found.fault
        return (*self.clauses, Clause(found.clause.text, seen, found.clause.met))


@dataclass(frozen=True)
class Patch:
    """A follow-up patch and the commit it became, "" on a dry run."""

    name: str
    subject: str
    commit: str = ""


@dataclass(frozen=True)
class Check:
    """One verification step; `tail` is the end of its output, `detail` the finding in one line."""

    name: str
    status: Literal["passed", "failed", "skipped"]
    seconds: float
    detail: str = ""
    command: tuple[str, ...] = ()
    tail: tuple[str, ...] = ()


@dataclass(frozen=True)
class Timing:
    """A step of `apply` or `verify` and the seconds it took."""

    step: str
    seconds: float


@dataclass(frozen=True)
class Look:
    """One thing that a reviewer should look at, and why."""

    path: str
    line: int
    kind: Literal["check", "ask", "conflict", "hazard", "moved seed", "new site", "conflict region"]
    why: str


@dataclass(frozen=True)
class Report:
    """Everything that is known about one port on one branch.

    `tip` is "" and `series` empty when no branch was written. `digest` is the plan's, `version` the
    tool's.
    """

    port: str
    digest: str
    version: str
    experiment: tuple[Experiment, ...]
    onto: str
    onto_id: str
    branch: str
    tip: str = ""
    series: tuple[Commit, ...] = ()
    rules: tuple[Rule, ...] = ()
    ledger: tuple[LedgerEntry, ...] = ()
    sites: tuple[Site, ...] = ()
    seeds: tuple[Seed, ...] = ()
    gate: Gate | None = None
    excluded: tuple[Excluded, ...] = ()
    proof: Proof = Proof(holds=False, tier="none")
    conflicts: tuple[Conflict, ...] = ()
    precondition: Precondition = Precondition(met=True)
    patches: tuple[Patch, ...] = ()
    checks: tuple[Check, ...] = ()
    evidence: Evidence | None = None
    verdict: Verdict = "unverified"
    basis: Basis | None = None
    timings: tuple[Timing, ...] = ()

    @property
    def asks(self) -> tuple[Site, ...]:
        """Open questions, in file order."""
        return tuple(site for site in self.sites if site.action == "ask")

    @property
    def hazards(self) -> tuple[Site, ...]:
        """Places that the rules do not cover and that may still break, in file order."""
        return tuple(site for site in self.sites if site.action == "hazard")

    @property
    def answers(self) -> tuple[str, ...]:
        """The lines to paste into `port.yaml` and to complete, empty when nothing is asked."""
        if not self.asks:
            return ()
        words = {ask.key: ask.answer for ask in self.asks}
        return ("answers:", *(f"  {yaml_text(key)}: {word}" for key, word in words.items()))

    @property
    def look_first(self) -> tuple[Look, ...]:
        """What to look at, most urgent first; within a kind in the report's own order."""
        return (
            *(
                Look("", 0, "check", f"{c.name}: {c.detail}")
                for c in self.checks
                if c.status == "failed"
            ),
            *(_look(site, "ask") for site in self.asks),
            *(Look(c.path, c.line, "conflict", c.detail) for c in self.conflicts if not c.resolved),
            *(_look(site, "hazard") for site in self.hazards),
            *(
                Look(file.path, 1, "hazard", f"the switch is on in this file: {file.why}")
                for file in (self.gate.reach if self.gate else ())
                if file.on
            ),
            *(
                Look(s.path, s.line, "moved seed", f"moved from {s.moved_from}: {s.call}")
                for s in self.seeds
                if s.moved_from
            ),
            *(
                _look(site, "new site")
                for action in ("rewrite", "skip")
                for site in self.sites
                if not site.known and site.action == action
            ),
            *(
                Look(c.path, c.line, "conflict region", f"{c.detail}; {c.resolved}")
                for c in self.conflicts
                if c.resolved
            ),
        )


def to_data(report: Report) -> dict[str, Any]:
    """Return the report as JSON data, with `asks`, `hazards`, `answers`, `look_first` beside it."""
    return {
        "schema": SCHEMA,
        **encode(report),
        **{name: encode(getattr(report, name)) for name in COMPUTED},
    }


def to_json(report: Report) -> str:
    """Return the report as ASCII JSON text; `from_json` gives back an equal report."""
    return json.dumps(to_data(report), indent=1)


def from_json(text: str | bytes) -> Report:
    """Read what `to_json` wrote.

    Raises ReportError when the text is no report, names a field that this version does not know, or
    has another schema.
    """
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ReportError(
            "the stored report is not JSON", why=str(error), next="porttool verify makes a new one"
        ) from error
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        seen = data.get("schema") if isinstance(data, dict) else type(data).__name__
        raise ReportError(
            f"the stored report has schema {seen!r}; this porttool reads schema {SCHEMA}",
            next="porttool refresh, then porttool verify",
        )
    fields = {key: value for key, value in data.items() if key not in ("schema", *COMPUTED)}
    report: Report = decode(fields, Report, "report")
    return report


def counted(number: int, noun: str) -> str:
    """Return "1 place", "2 places"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def yaml_text(text: str) -> str:
    """Return a text in double quotes, as YAML reads it and as any terminal shows it unchanged."""
    shown = []
    for char in text:
        code = ord(char)
        if char in '"\\':
            shown.append(f"\\{char}")
        elif char.isprintable():
            shown.append(char)
        elif code < 0x100:
            shown.append(f"\\x{code:02x}")
        else:
            shown.append(f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
    return f'"{"".join(shown)}"'


COMPUTED = ("asks", "hazards", "answers", "look_first")


def _look(site: Site, kind: Literal["ask", "hazard", "new site"]) -> Look:
    what = {"rewrite": f" becomes `{site.replacement}`", "skip": " is left alone"}
    why = "; ".join((f"`{site.text}`{what.get(site.action, '')}", *site.reasons))
    return Look(site.path, site.line, kind, why)
