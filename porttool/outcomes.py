"""How `apply` can end, each in words of its own: what was made, or why nothing was."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

from porttool.deciding.sites import Decision
from porttool.errors import (
    EXIT_DONE,
    EXIT_PARKED,
    EXIT_PERSON,
    NeedsPerson,
    ProofFailed,
)
from porttool.git.commits import CommitFacts, CommitId
from porttool.git.objects import Objects
from porttool.learning.lesson import Rule
from porttool.plan.plan import Plan
from porttool.plan.switch import Switch, SwitchPlan
from porttool.proving.proof import FileProof, Proof
from porttool.report import LedgerEntry, Report, counted, yaml_text
from porttool.resolving.conflicts import merge_base
from porttool.series import Applied
from porttool.workbench import Workbench

_MAX_SEARCHED = 2000


def already_ported(report: Report, merged: CommitId) -> Applied:
    """Say that onto has the port: a commit there carries its trailers."""
    message = f"{report.port} is already ported: {report.onto} has it since {merged}"
    return Applied("already-ported", report, report.branch, EXIT_DONE, message)


def nothing_to_do(bench: Workbench, report: Report, switch: Switch | None) -> Applied:
    """Say why the port would change nothing: onto has it all, or has no place left for it."""
    hunks = [entry for entry in report.ledger if entry.outcome in ("already there", "dropped")]
    there = [entry for entry in hunks if entry.outcome == "already there"]
    if there and len(there) == len(hunks):
        message = (
            f"{report.onto} has everything of {report.port} already, without porttool's trailers"
            f"{_since(bench)}; no branch was made"
        )
        if switch is not None:
            message += (
                f"\n{report.onto} has it unconditionally: {switch.gate} is not in front of it"
            )
        return Applied("already-applied", report, report.branch, EXIT_DONE, message)
    if hunks and not there:
        message = (
            f"{report.onto} has no place left that {report.port} would change; no branch was made"
        )
        return Applied("empty", report, report.branch, EXIT_DONE, _with_reasons(message, hunks))
    message = (
        f"{report.onto} already has everything that {report.port} would change; no branch was made"
    )
    return Applied("nothing-to-do", report, report.branch, EXIT_DONE, _with_reasons(message, hunks))


def would_create(report: Report) -> Applied:
    """Say what would have been made."""
    commits = counted(len(report.series), "commit")
    message = f"would create {report.branch} with {commits}; no ref was written"
    return Applied("dry-run", report, report.branch, EXIT_DONE, message)


def asked(report: Report, plan: Plan) -> Applied:
    """Say what a person has to decide, with the lines that answer it."""
    places = [
        f"  {ask.path}:{ask.line}: {ask.text}\n    {'; '.join(ask.reasons)}" for ask in report.asks
    ]
    where = f"in {plan.path}"
    if plan.answers_line:
        where = f"in place of `answers` in {plan.path}, line {plan.answers_line} and below it,"
    message = "\n".join(
        [
            f"a person has to decide {counted(len(report.asks), 'place')}; no branch was made",
            *places,
            f"next: complete these lines {where} and run the same command again",
            *answer_lines(report, plan),
        ]
    )
    return Applied("asked", report, report.branch, EXIT_PERSON, message)


def answer_lines(report: Report, plan: Plan) -> list[str]:
    """Return `answers` as port.yaml has to have it: the given answers, and those to complete."""
    open_ = {ask.key for ask in report.asks}
    header, *lines = report.answers
    given = [
        f"  {yaml_text(key)}: {answer}" for key, answer in plan.answers.items() if key not in open_
    ]
    return [header, *given, *lines]


def parked(report: Report, plan: Plan) -> Applied:
    """Say which conditions of the precondition are not met."""
    clauses = [
        f"  {'met    ' if clause.met else 'not met'} {clause.text} (is {clause.seen})"
        for clause in report.precondition.clauses
    ]
    command = ""
    if plan.precondition is not None and plan.precondition.measure is not None:
        command = f", or measure: porttool precondition {shlex.quote(plan.name)} --measure"
    message = "\n".join(
        [
            f"{report.port} is parked: {report.precondition.config} does not meet the precondition",
            *clauses,
            f"next: raise one of them in {plan.path} (variants), or --despite-precondition"
            + command,
        ]
    )
    return Applied("parked", replace(report, verdict="parked"), report.branch, EXIT_PARKED, message)


def _example(switch: Switch) -> str:
    if isinstance(switch, SwitchPlan) or switch.idiom in ("dataclass", "pydantic"):
        return f"for instance by a parameter `config: {switch.root}`"
    if switch.idiom == "argparse":
        return "for instance by handing the parsed `args` in"
    return f"for instance by handing the {switch.idiom} settings in"


def not_gated(questions: Sequence[Decision], switch: Switch) -> NeedsPerson:
    """Return the refusal of a port whose seeds cannot be put behind the switch."""
    return NeedsPerson(
        f"{switch.gate} cannot be put in front of {counted(len(questions), 'object')}; "
        "no branch was made",
        where=", ".join(f"{question.path}:{question.line}" for question in questions),
        why="; ".join(dict.fromkeys(reason for q in questions for reason in q.reasons)),
        next="change that there and commit it, then the same command again (settings come into "
        f"reach {_example(switch)})",
    )


def not_neutral(rule: Rule, places: Sequence[Decision], switch: Switch) -> NeedsPerson:
    """Return the refusal of a port that would rewrite what is not wrapped, with the switch off."""
    return NeedsPerson(
        f"nothing tells that `{rule.after}` gives what `{rule.before}` gives of an object that is "
        "not wrapped; no branch was made",
        where=", ".join(f"{place.path}:{place.line}" for place in places),
        why=f"with {switch.gate} off nothing is wrapped, and this would run all the same",
        next="make the experiment's rewrite one that does nothing to a plain object, such as "
        'getattr(network, "_orig_mod", network), and put the new id into port.yaml',
    )


def not_switched_off(proof: Proof) -> NeedsPerson:
    """Return the refusal of a port whose experiment changes something that no switch turns off."""
    found = unproven(proof)
    return NeedsPerson(
        "the experiment changes more than a switch can turn off; no branch was made",
        where=", ".join(file.path for file in found),
        why=found[0].detail,
        next="make the experiment without that change, or put it behind a condition of its own, "
        "and the new id into port.yaml",
    )


def unproven(proof: Proof) -> list[FileProof]:
    """Return the files for which a proof does not hold."""
    return [file for file in proof.files if file.verdict == "not proven"]


def not_proven(proof: Proof) -> ProofFailed:
    """Return the refusal of a port that would change something with the switch off."""
    first, *others = unproven(proof)
    return ProofFailed(
        "with the switch off the port would not be what it was made from; no branch was made"
        + (f" ({len(others)} more files)" if others else ""),
        where=first.path,
        why=first.detail,
        next="put that change behind the switch: in the experiment, or in the patch that brings it",
    )


def _with_reasons(message: str, hunks: Sequence[LedgerEntry]) -> str:
    whys = dict.fromkeys(f"  {entry.path}: {entry.why}" for entry in hunks)
    return "\n".join((message, *whys))


def _since(bench: Workbench) -> str:
    """Return which commit of onto looks like the experiment's, picked by hand."""
    found = picked_by_hand(bench.quarantine, bench.experiment.tip, bench.onto_id)
    return f", since {found.id} ({found.subject})" if found else ""


def picked_by_hand(objects: Objects, experiment: CommitFacts, onto: CommitId) -> CommitFacts | None:
    """Return the first commit of onto that the experiment's author wrote at the same moment."""
    base = merge_base(objects, experiment.id, onto)
    span = [onto, f"^{base}"] if base else [onto]
    listing = objects.git.run("rev-list", f"--max-count={_MAX_SEARCHED}", "--reverse", *span, "--")
    for id in listing.out.decode().split():
        commit = objects.commit(CommitId(id))
        if commit.author == experiment.author:
            return commit
    return None
