"""The account of a port: what was learned, decided and written, as one report."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, timezone
from importlib import metadata
from typing import Literal

from porttool import report as told
from porttool.bench import Decided
from porttool.deciding.sites import Decision, PlacedSeed
from porttool.experiment import Experiment
from porttool.git.commits import CommitFacts, CommitId, Signature
from porttool.git.merge import MergeResult
from porttool.git.objects import Objects
from porttool.learning.lesson import Hunk
from porttool.plan.plan import Plan
from porttool.proving.proof import Proof

Outcome = Literal["applied", "adapted", "dropped"]
SeedForm = Literal["guard", "call", "lazy", "ungated"]

_MARKER = re.compile(rb"^<<<<<<< ", re.MULTILINE)


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
        ledger=tuple(_ledger(decided, plan)) if decided else (),
        sites=tuple(_site(decision) for decision in decided.decisions) if decided else (),
        seeds=tuple(_seed(seed, plan) for seed in decided.placed) if decided else (),
        excluded=decided.excluded if decided else (),
        gate=told.Gate(switch.gate, False, switch.module, switch.yaml) if switch else None,
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
    return tuple(
        told.Rule(
            name=rule.name,
            before=rule.before,
            after=rule.after,
            neutral=rule.neutral,
            examples=tuple(
                told.Example(example.path, example.line, example.before, example.after)
                for example in rule.examples
            ),
        )
        for rule in decided.lesson.rules
    )


def _ledger(decided: Decided, plan: Plan) -> Iterator[told.LedgerEntry]:
    """Say of every hunk of the experiment what became of it on onto."""
    known = Counter(
        (decision.path, _flat(decision.text))
        for decision in decided.decisions
        if decision.action == "rewrite" and decision.known
    )
    adapted = {rule.name for rule in decided.lesson.rules if rule.adapted}
    placed = {(seed.seed.path, seed.seed.line): seed for seed in decided.placed}
    for hunk in decided.lesson.hunks:
        outcome, why = _fate(hunk, known, adapted, placed, plan)
        yield told.LedgerEntry(
            path=hunk.path,
            line_before=hunk.line_before,
            line_after=hunk.line_after,
            before=hunk.before,
            after=hunk.after,
            outcome=outcome,
            why=why,
        )


def _fate(
    hunk: Hunk,
    known: Counter[tuple[str, str]],
    adapted: set[str],
    placed: dict[tuple[str, int], PlacedSeed],
    plan: Plan,
) -> tuple[Outcome, str]:
    if hunk.kind == "rule":
        place = (hunk.path, _flat(hunk.before))
        if not known[place]:
            return "dropped", "onto does not have this place any more"
        known[place] -= 1
        if hunk.by in adapted:
            return "adapted", "in the form that is neutral on an object that is not wrapped"
        return "applied", f"rule {hunk.by}"
    if hunk.kind == "seed":
        seed = placed.get((hunk.path, hunk.line_after))
        if seed is None:
            return "dropped", "the object is not constructed on onto any more"
        moved = f", moved from {seed.moved_from}" if seed.moved_from else ""
        if plan.switch is not None:
            return "adapted", f"behind {plan.switch.gate}{moved}"
        return ("adapted", f"at {seed.path}:{seed.line}{moved}") if moved else ("applied", "seed")
    if hunk.kind == "residual":
        return "applied", "merged as it is; no rule explains it"
    return "applied", hunk.kind


def _site(decision: Decision) -> told.Site:
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


def _flat(text: str) -> str:
    return " ".join(text.split())
