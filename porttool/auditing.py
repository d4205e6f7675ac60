"""The audit's part in a port: its doubts are questions, and what it finds in a tree stops it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from porttool.deciding.edits import respelled_statement
from porttool.deciding.sites import Decision, PlacedSeed, site_key
from porttool.errors import ProofFailed, UnparsableSource
from porttool.git.commits import TreeId
from porttool.git.quarantine import Quarantine
from porttool.learning.lesson import Lesson
from porttool.plan.switch import Switch
from porttool.proving.audit import Doubt, Judged, NamedSeed, audit_names
from porttool.proving.guards import Wrap
from porttool.proving.written import Fault, Rewrite, WrittenAudit
from porttool.source.syntax import Source, parse_source
from porttool.workbench import Decided


def ask_where_names_disagree(
    sources: Mapping[str, Source],
    lesson: Lesson,
    placed: Sequence[PlacedSeed],
    decisions: Sequence[Decision],
    answers: Mapping[str, str],
) -> tuple[Decision, ...]:
    """Return the decisions, with a question at each place where names say the opposite.

    An answer in the plan settles both opinions.
    """
    seeds = [NamedSeed(s.path, s.scope, s.line, s.target, s.kind, s.call) for s in placed]
    judged = [Judged(d.key, d.path, d.span, d.action) for d in decisions]
    doubts = audit_names(sources, lesson, seeds, judged, answers)
    contradicted = {doubt.key: doubt for doubt in doubts if doubt.key is not None}
    asked = [
        _asked(decision, contradicted[decision.key]) if decision.key in contradicted else decision
        for decision in decisions
    ]
    missed = [doubt for doubt in doubts if doubt.key is None]
    return (*asked, *_missed(missed, answers))


def check_written(
    quarantine: Quarantine, tree: TreeId, audit: WrittenAudit, switch: Switch | None
) -> None:
    """Hold a written tree against what was decided; with a switch the seeds are behind it.

    Raises ProofFailed with the first place that was decided and not done, or done and not decided.
    """
    faults = audit_files(quarantine.read_many(tree, audit.paths), audit, switch)
    if faults:
        raise _not_as_decided(faults[0])


def audit_files(
    files: Mapping[str, bytes], audit: WrittenAudit, switch: Switch | None
) -> tuple[Fault, ...]:
    """Return what is wrong with the written files, which hold all that the audit is about."""
    try:
        written = {path: parse_source(path, files[path]) for path in audit.paths}
    except UnparsableSource as error:
        return (Fault(error.where or "", 1, f"it does not parse: {error.why}"),)
    return audit.faults(written, switch.gate if switch is not None else None)


def written_audit(decided: Decided) -> WrittenAudit:
    """Return what holds written trees against these decisions."""
    rewrites = [
        Rewrite(d.path, d.span, d.text, d.rule)
        for d in decided.decisions
        if d.action == "rewrite" and d.rule is not None
    ]
    wraps = [_wrap(seed, decided.sources[seed.path]) for seed in decided.placed]
    return WrittenAudit(decided.sources, decided.lesson, rewrites, wraps)


def _wrap(placed: PlacedSeed, source: Source) -> Wrap:
    statement = placed.seed.statement
    if statement is not None and placed.kind != "decorator":
        # The wrapper as this file spells it.
        statement = respelled_statement(statement, placed)
    return Wrap(
        path=placed.path,
        scope=placed.scope,
        target=placed.target,
        kind=placed.kind,
        value=source.text[placed.value.start : placed.value.end],
        call=placed.call,
        statement=statement,
    )


def _not_as_decided(fault: Fault) -> ProofFailed:
    return ProofFailed(
        "what was written is not what was decided; no branch was made",
        where=f"{fault.path}:{fault.line} (as written)",
        why=fault.text,
        next="report this: porttool's own audit found its port wrong. Until it is mended, port "
        "that place by hand",
    )


def _asked(decision: Decision, doubt: Doubt) -> Decision:
    return replace(decision, action="ask", reasons=(doubt.reason, *decision.reasons))


def _missed(doubts: Sequence[Doubt], answers: Mapping[str, str]) -> list[Decision]:
    """Return a question for each place that nobody but the audit has seen."""
    found = []
    numbers: Counter[tuple[str, str, str]] = Counter()
    for doubt in doubts:
        place = (doubt.path, doubt.scope, " ".join(doubt.text.split()))
        numbers[place] += 1
        key = site_key(doubt.path, doubt.scope, doubt.text, numbers[place])
        found.append(
            Decision(
                key=key,
                path=doubt.path,
                line=doubt.line,
                column=doubt.column,
                text=doubt.text,
                action="skip" if answers.get(key) == "skip" else "ask",
                rule=None,
                reasons=(doubt.reason,),
                span=doubt.span,
                known=False,
                only_skip=True,
            )
        )
    return found
