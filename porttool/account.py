"""The account of a port: what was learned, decided and written, as one report."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from functools import cache
from importlib import metadata
from typing import Literal

from porttool import report as told
from porttool.deciding.sites import Decision, PlacedSeed
from porttool.experiment import Experiment
from porttool.git.commits import CommitFacts, CommitId, Signature
from porttool.git.merge import MergeResult
from porttool.git.objects import Objects
from porttool.ledger import ledger
from porttool.plan.plan import Plan
from porttool.proving.proof import Proof
from porttool.resolving.residual import Answered
from porttool.workbench import Decided

SeedForm = Literal["guard", "call", "lazy", "ungated"]

_MARKER = re.compile(rb"^<<<<<<< ", re.MULTILINE)


@cache
def tool_version() -> str:
    """Return the installed version of porttool."""
    return metadata.version("porttool")


def account(
    plan: Plan,
    experiment: Experiment,
    *,
    onto: str,
    onto_id: CommitId,
    branch: str,
    decided: Decided | None = None,
    proof: Proof | None = None,
    series: Sequence[CommitFacts] = (),
) -> told.Report:
    """Put everything that is known so far into a report."""
    switch = plan.switch
    return told.Report(
        port=plan.name,
        digest=plan.digest,
        version=tool_version(),
        experiment=tuple(_experiment(commit) for commit in experiment.commits),
        onto=onto,
        onto_id=onto_id,
        branch=branch,
        tip=series[-1].id if series else "",
        series=tuple(told.Commit(commit.id, commit.subject) for commit in series),
        rules=_rules(decided) if decided else (),
        ledger=tuple(ledger(decided, plan)) if decided else (),
        sites=tuple(_site(decision) for decision in decided.decisions) if decided else (),
        seeds=tuple(_seed(seed, plan) for seed in decided.placed) if decided else (),
        excluded=decided.excluded if decided else (),
        gate=told.Gate(switch.gate, False, switch.module or "", switch.yaml) if switch else None,
        proof=_proof(proof) if proof else told.Proof(holds=False, tier="none"),
        conflicts=decided.conflicts if decided else (),
        patches=_patches(plan, series),
    )


def _experiment(commit: CommitFacts) -> told.Experiment:
    written = commit.written
    return told.Experiment(
        id=commit.id,
        subject=commit.subject,
        author=f"{written.name} <{written.email}>",
        date=_moment(written),
    )


def _moment(signature: Signature) -> str:
    minutes = int(signature.offset[1:3]) * 60 + int(signature.offset[3:5])
    offset = timedelta(minutes=-minutes if signature.offset.startswith("-") else minutes)
    zone = timezone(offset) if offset else UTC
    return datetime.fromtimestamp(signature.seconds, zone).isoformat()


def _rules(decided: Decided) -> tuple[told.Rule, ...]:
    taught = {now: path for path, now in decided.files.items()}
    return tuple(
        told.Rule(
            name=rule.name,
            before=rule.before,
            after=rule.after,
            neutral=rule.neutral,
            examples=tuple(
                told.Example(
                    taught.get(example.path, example.path),
                    example.line,
                    example.before,
                    example.after,
                )
                for example in rule.examples
            ),
        )
        for rule in decided.lesson.rules
    )


def _site(decision: Decision) -> told.Site:
    # What the dataflow does not say has no place of its own: it is about the site. Where it says
    # nothing at all, the reasons alone are as much.
    about = decision.reasons[: len(decision.reasons) - decision.told] if decision.steps else ()
    return told.Site(
        key=decision.key,
        path=decision.path,
        line=decision.line,
        column=decision.column,
        text=decision.text,
        action=decision.action,
        reasons=decision.reasons,
        rule=decision.rule,
        replacement=decision.replacement,
        known=decision.known,
        only_skip=decision.only_skip or not decision.line,
        steps=(
            *map(told.Step, about),
            *(told.Step(step.text, step.path, step.line) for step in decision.steps),
        ),
    )


def _seed(placed: PlacedSeed, plan: Plan) -> told.Seed:
    in_place = placed.kind in ("return", "argument", "decorator")
    form: SeedForm = "ungated"
    if plan.switch is not None:
        form = "call" if in_place else "guard"
    return told.Seed(
        path=placed.path,
        line=placed.line,
        scope=placed.scope,
        target=placed.target,
        constructor=placed.seed.constructor,
        call=placed.call,
        form=form,
        moved_from=placed.moved_from,
        note=placed.note,
    )


def _proof(proof: Proof) -> told.Proof:
    return told.Proof(
        holds=proof.holds,
        tier=proof.tier,
        files=tuple(told.FileProof(file.path, file.verdict, file.detail) for file in proof.files),
        assumes=proof.assumes,
    )


def _patches(plan: Plan, series: Sequence[CommitFacts]) -> tuple[told.Patch, ...]:
    last = series[len(series) - len(plan.patch_files) :] if series else ()
    subjects = [commit.subject for commit in last] or [""] * len(plan.patch_files)
    ids: list[str] = [commit.id for commit in last] or [""] * len(plan.patch_files)
    return tuple(
        told.Patch(patch.name, subject, id)
        for patch, subject, id in zip(plan.patch_files, subjects, ids, strict=True)
    )


def resolved_conflicts(answered: Sequence[Answered]) -> tuple[told.Conflict, ...]:
    """Return the conflicts that a person has decided, and the file that says how."""
    return tuple(
        told.Conflict(
            path=path,
            line=0,
            kind=answer.question.kind,
            detail=f"what no rule explains conflicts with main here ({answer.question.kind})",
            resolved=f"a person decided: {answer.file}",
        )
        for answer in answered
        for path in answer.question.paths
    )


def pick_conflicts(objects: Objects, picked: MergeResult) -> tuple[told.Conflict, ...]:
    """Return the places where a plain cherry-pick stops; `line` counts in the file with markers."""
    found = []
    for conflict in picked.conflicts:
        for path in conflict.paths:
            data = objects.read(picked.tree, path) or b""
            lines = [data.count(b"\n", 0, at.start()) + 1 for at in _MARKER.finditer(data)]
            found += [
                told.Conflict(
                    path=path,
                    line=line,
                    kind=conflict.kind,
                    detail=f"a plain cherry-pick stops here ({conflict.kind})",
                    resolved="the sites in it were decided one by one, as everywhere else",
                )
                for line in lines or [0]
            ]
    return tuple(found)
