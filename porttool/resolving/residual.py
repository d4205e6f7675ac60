"""What no rule explains, merged onto onto: in memory, with the answers that a person has given."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

from porttool.errors import PlanError
from porttool.experiment import whole_entries
from porttool.frozen import dataclass
from porttool.git.commits import TreeId
from porttool.git.merge import Style, merge_trees, replace_entries
from porttool.git.objects import FILE, Entry
from porttool.learning.lesson import Lesson
from porttool.plan.plan import PatchFile, Plan
from porttool.resolving.conflicts import (
    Question,
    Unresolved,
    causes_of,
    merge_base,
    questions_of,
    side_entries,
)
from porttool.resolving.resolutions import (
    Resolution,
    check_answer,
    read_resolution,
    sides_of,
)
from porttool.workbench import Workbench


@dataclass(frozen=True)
class Answered:
    """A conflict that a person has decided, and the file below the port's folder that says how."""

    question: Question
    resolution: Resolution
    file: str


@dataclass(frozen=True)
class Merged:
    """Onto with the experiment's residual, as far as it merges.

    `tree` holds markers where `open` names a conflict. `residual` is the experiment's side: its
    parent with what no rule explains. `unfit` names the stored answers to other conflicts.
    """

    tree: TreeId
    residual: TreeId
    open: tuple[Question, ...] = ()
    answered: tuple[Answered, ...] = ()
    unfit: tuple[str, ...] = ()


def merge_residual(bench: Workbench, lesson: Lesson, *, style: Style = "merge") -> Merged:
    """Merge the residual onto onto, and answer its conflicts as far as they have been answered.

    Raises PlanError for a stored answer that cannot be read, or that is none.
    """
    quarantine, plan = bench.quarantine, bench.plan
    parent = bench.experiment.parent_tree
    onto = quarantine.tree_of(bench.onto_id)
    residual = quarantine.write_tree(parent, lesson.residual)
    whole = whole_entries(quarantine, bench.experiment, residual)
    residual = replace_entries(quarantine, residual, whole) if whole else residual
    merged = merge_trees(quarantine, base=parent, ours=onto, theirs=residual, style=style)
    stored: dict[str, tuple[Resolution, PatchFile]] = {}
    for file in plan.resolution_files:
        resolution = read_resolution(plan, file)
        stored[resolution.key] = resolution, file
    questions = questions_of(merged)
    left: list[Question] = []
    answered: list[Answered] = []
    entries: dict[str, Entry | None] = {}
    for question in questions:
        if question.key not in stored or not question.is_open:
            left.append(question)
            continue
        resolution, file = stored[question.key]
        _check(bench, question, resolution, file)
        entries |= _entries(bench, question, resolution, merged.tree, residual)
        answered.append(Answered(question, resolution, file.name))
    used = {answer.file for answer in answered}
    tree = replace_entries(quarantine, merged.tree, entries) if entries else merged.tree
    unfit = tuple(file.name for file in plan.resolution_files if file.name not in used)
    return Merged(tree, residual, _with_causes(bench, left), tuple(answered), unfit)


def check_merged(bench: Workbench, merged: Merged) -> None:
    """Refuse what is left open, and answers to conflicts that there are not.

    Raises Unresolved with the conflicts, PlanError for an answer that is not needed any more.
    """
    plan = bench.plan
    if merged.open:
        onto = "" if bench.onto == plan.onto else f" --onto {shlex.quote(bench.onto)}"
        raise Unresolved(
            merged.open,
            onto=bench.onto,
            command=f"porttool resolve {shlex.quote(plan.name)}{onto}",
            unfit=merged.unfit,
        )
    if merged.unfit:
        raise not_needed(plan, merged.unfit[0])


def not_needed(plan: Plan, name: str) -> PlanError:
    """Return the refusal of an answer to a conflict that is not there any more."""
    path = plan.folder / name
    return PlanError(
        f"{name} answers a conflict that there is not",
        where=str(path),
        why="the place merges by itself now, or one of its sides has changed",
        next=f"remove it: git rm -- {shlex.quote(str(path))}",
    )


def _check(bench: Workbench, question: Question, resolution: Resolution, file: PatchFile) -> None:
    why = None
    if set(resolution.paths) != set(question.paths):
        why = f"it is about {', '.join(resolution.paths)}, the conflict {', '.join(question.paths)}"
    elif resolution.take == "edit":
        why = (
            check_answer(question, resolution.content, sides_of(bench.quarantine, question))
            if question.is_text
            else f"a conflict of the kind {question.kind} cannot be edited, only one side taken"
        )
    if why is not None:
        raise PlanError(
            f"{file.name} is no answer to its conflict",
            where=str(bench.plan.folder / file.name),
            why=why,
            next=f"remove it, and porttool resolve {shlex.quote(bench.plan.name)}",
        )


def _entries(
    bench: Workbench, question: Question, resolution: Resolution, merged: TreeId, residual: TreeId
) -> dict[str, Entry | None]:
    quarantine = bench.quarantine
    if resolution.take == "edit":
        path = question.paths[0]
        there = quarantine.entry(merged, path)
        mode = there.mode if there and there.is_file else FILE
        return {path: Entry(mode, quarantine.write_blob(resolution.content))}
    if resolution.take == "delete":
        return dict.fromkeys((*question.paths, *question.stages))
    side = quarantine.tree_of(bench.onto_id) if resolution.take == "onto" else residual
    return side_entries(quarantine, question, side)


def _with_causes(bench: Workbench, questions: Sequence[Question]) -> tuple[Question, ...]:
    if not questions:
        return ()
    base = merge_base(bench.quarantine, bench.experiment.parent, bench.onto_id)
    return tuple(
        replace(question, causes=causes_of(bench.quarantine, question, base, bench.onto_id))
        for question in questions
    )
