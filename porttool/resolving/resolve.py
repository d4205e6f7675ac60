"""Open the conflicts of a port for a person, and keep what the person made of them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from porttool.errors import NeedsPerson, PlanError, PortError
from porttool.experiment import find_experiment, learn_experiment
from porttool.frozen import dataclass
from porttool.git.quarantine import Quarantine
from porttool.git.replacing import replace_files
from porttool.git.repo import Repository
from porttool.interruption import uninterrupted
from porttool.learning.lesson import Lesson
from porttool.plan.plan import MAX_BYTES, RESOLUTIONS_FOLDER, Plan, check_inside
from porttool.report import counted
from porttool.resolving.conflicts import Question, Unresolved, question_lines
from porttool.resolving.folder import (
    Opened,
    find_folder,
    make_folder,
    remove_folder,
    resolve_folder,
)
from porttool.resolving.residual import Merged, merge_residual
from porttool.resolving.resolutions import (
    Resolution,
    Take,
    check_answer,
    resolution_bytes,
    resolution_name,
    sides_of,
)
from porttool.workbench import Workbench

Progress = Callable[[str], None]
# Git would else turn line ends in them, and a resolution is kept to the byte.
_ATTRIBUTES = b"* -text\n"


def _unsaid(words: str) -> None:
    """Say nothing of what was changed."""


@dataclass(frozen=True)
class Resolving:
    """How `resolve` ended, and what to tell the user.

    `folder` is where the open files lie, `kept` names the answers below the port's folder.
    """

    outcome: Literal["opened", "kept", "aborted", "nothing-to-resolve"]
    message: str
    folder: Path | None = None
    questions: tuple[Question, ...] = ()
    kept: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the same as JSON data."""
        return {
            "outcome": self.outcome,
            "message": self.message,
            "folder": None if self.folder is None else str(self.folder),
            "conflicts": [question.as_dict() for question in self.questions],
            "kept": list(self.kept),
        }


def sides_taken(
    ours: Iterable[str], theirs: Iterable[str], delete: Iterable[str]
) -> dict[str, Take]:
    """Return what is taken for each path; raises PlanError for a path that is named twice."""
    found: dict[str, Take] = {}
    sides: tuple[tuple[Take, Iterable[str]], ...] = (
        ("onto", ours),
        ("experiment", theirs),
        ("delete", delete),
    )
    for take, paths in sides:
        for path in paths:
            if found.setdefault(path, take) != take:
                raise _two_answers([path])
    return found


def open_conflicts(
    repo: Repository,
    plan: Plan,
    *,
    onto: str,
    progress: Progress,
    changed: Progress = _unsaid,
) -> Resolving:
    """Make the folder in which a person resolves what is open.

    Raises Unresolved for a conflict that cannot be resolved file by file, NeedsPerson where the
    folder is there already. `changed` is told when it is made.
    """
    with _merged(repo, plan, onto, progress) as (bench, merged):
        port = shlex.quote(plan.name)
        if not merged.open:
            many = counted(len(merged.answered), "conflict")
            message = (
                f"{many} of {plan.name} on {onto}, all answered"
                if merged.answered
                else (f"nothing of {plan.name} conflicts with {onto}")
            )
            message += "".join(f"\n{name} answers no conflict; remove it" for name in merged.unfit)
            return Resolving("nothing-to-resolve", f"{message}\nnext: porttool apply {port}")
        if not all(question.is_open for question in merged.open):
            raise Unresolved(merged.open, onto=onto, command="", unfit=merged.unfit)
        texts = [question.paths[0] for question in merged.open if question.is_text]
        contents = bench.quarantine.read_many(merged.tree, texts)
        with uninterrupted():
            opened = make_folder(resolve_folder(repo, plan), onto, merged.open, contents)
            changed("the folder was made")
        choices = [question for question in merged.open if not question.is_text]
        lines = [
            f"{counted(len(merged.open), 'conflict')} of {plan.name} with {onto}",
            *(f"  {line}" for question in merged.open for line in question_lines(question, onto)),
            *(f"  {name} does not fit any more" for name in merged.unfit),
            *([f"edit the files in {opened.files}"] if texts else []),
            f"next: porttool resolve {port} --done"
            + "".join(f" --ours {shlex.quote(question.paths[0])}" for question in choices),
        ]
        if choices:
            lines.append(f"  (or --theirs, the experiment's, or --delete, instead of {onto}'s)")
        return Resolving("opened", "\n".join(lines), opened.files, merged.open)


def keep_answers(
    repo: Repository,
    plan: Plan,
    *,
    takes: Mapping[str, Take],
    progress: Progress,
    changed: Progress = _unsaid,
) -> Resolving:
    """Keep what a person has made of the open conflicts as files of the port.

    `takes` says of a path which side is taken as it is. Raises NeedsPerson for markers that are
    left, a file that does not parse, a conflict without an answer, and where the conflicts are not
    those that the folder was made for; then nothing is written. `changed` is told what is.
    """
    folder = resolve_folder(repo, plan)
    opened = find_folder(folder, plan)
    with _merged(repo, plan, opened.onto, progress) as (bench, merged):
        # Answers are there already where a run was killed before it had removed the folder.
        held = {one.question.key: one.resolution for one in merged.answered}
        known = (*merged.open, *(one.question for one in merged.answered))
        questions = tuple(one for one in known if one.key in opened.keys)
        if len(questions) != len(opened.keys):
            raise _other_conflicts(plan, opened)
        unknown = set(takes) - {path for question in questions for path in question.paths}
        if unknown:
            raise PlanError(
                f"{min(unknown)} is in no open conflict",
                where=str(opened.files),
                why="open are " + ", ".join(path for q in questions for path in q.paths),
                next="name one of them with --ours, --theirs or --delete",
            )
        answers = [_answer(bench, opened, question, takes) for question in questions]
        if any(held.get(answer.key, answer) != answer for answer in answers):
            raise _other_conflicts(plan, opened)
    with uninterrupted():
        kept = _write(repo, plan, questions, answers)
        changed("the answers were kept")
    remove_folder(folder)
    port = shlex.quote(plan.name)
    onto = "" if opened.onto == plan.onto else f" --onto {shlex.quote(opened.onto)}"
    message = "\n".join(
        [
            f"kept {counted(len(kept), 'answer')} of {plan.name}",
            *(f"  {plan.folder / name}" for name in kept),
            "they belong to the port: commit them with port.yaml",
            f"next: porttool apply {port}{onto}",
        ]
    )
    return Resolving("kept", message, None, questions, kept)


def abort(repo: Repository, plan: Plan, *, changed: Progress = _unsaid) -> Resolving:
    """Remove the folder of a port, and what was edited in it; `changed` is told that it was."""
    folder = resolve_folder(repo, plan)
    with uninterrupted():
        there = remove_folder(folder)
        if there:
            changed("the folder was removed")
    said = f"removed {folder}" if there else f"no conflict of {plan.name} was open"
    return Resolving("aborted", said)


@contextmanager
def _merged(
    repo: Repository, plan: Plan, onto: str, progress: Progress
) -> Iterator[tuple[Workbench, Merged]]:
    with Quarantine(repo) as quarantine:
        progress(f"merging what no rule explains onto {onto}")
        experiment = find_experiment(repo, quarantine, plan)
        lesson: Lesson = learn_experiment(quarantine, plan, experiment)
        bench = Workbench(repo, quarantine, plan, experiment, onto, repo.resolve(onto))
        yield bench, merge_residual(bench, lesson, style="zdiff3")


def _answer(
    bench: Workbench, opened: Opened, question: Question, takes: Mapping[str, Take]
) -> Resolution:
    taken = {takes[path] for path in question.paths if path in takes}
    if len(taken) > 1:
        raise _two_answers(question.paths)
    if taken:
        return Resolution(question.key, question.kind, question.paths, taken.pop())
    choices = f"--ours, --theirs or --delete {shlex.quote(question.paths[0])}"
    content = opened.read(question) if question.is_text else None
    if content is None:
        raise NeedsPerson(
            f"the conflict of {', '.join(question.paths)} has no answer",
            where=str(opened.files),
            why="its file is gone from the folder"
            if question.is_text
            else f"it is of the kind {question.kind}, where one side has to be taken",
            next=f"porttool resolve {shlex.quote(bench.plan.name)} --done with {choices}",
        )
    why = check_answer(question, content, sides_of(bench.quarantine, question))
    if why is None and len(content) > MAX_BYTES - 4096:
        why = f"it has {len(content)} bytes, and a file of a port has at most {MAX_BYTES}"
    if why is not None:
        raise NeedsPerson(
            f"{question.paths[0]} is not resolved yet",
            where=str(opened.files / question.paths[0]),
            why=why,
            next=f"edit it, or take one side with {choices}; then porttool resolve "
            f"{shlex.quote(bench.plan.name)} --done",
        )
    return Resolution(question.key, question.kind, question.paths, "edit", content)


def _other_conflicts(plan: Plan, opened: Opened) -> NeedsPerson:
    return NeedsPerson(
        f"the conflicts of {plan.name} are not those that the folder was made for",
        where=str(opened.files),
        why=f"{opened.onto}, the experiment or an answer has changed since",
        next=f"keep what you need of it, porttool resolve {shlex.quote(plan.name)} "
        f"--abort, and porttool resolve {shlex.quote(plan.name)}",
    )


def _two_answers(paths: Sequence[str]) -> PlanError:
    return PlanError(
        f"two answers were given for the one conflict of {', '.join(paths)}",
        next="take one of --ours, --theirs and --delete for it",
    )


def _write(
    repo: Repository, plan: Plan, questions: Sequence[Question], answers: Sequence[Resolution]
) -> tuple[str, ...]:
    """Write the answers into the port's folder, all or none; returns their names."""
    check_inside(repo.root or repo.git_dir, plan.path)
    folder = plan.folder / RESOLUTIONS_FOLDER
    if folder.is_symlink():
        raise PlanError(
            f"{RESOLUTIONS_FOLDER} is a link",
            where=str(folder),
            why="what is kept there would leave the port's folder",
            next="remove the link",
        )
    names = [resolution_name(question) for question in questions]
    after = dict(zip(names, map(resolution_bytes, answers), strict=True))
    attributes = f"{RESOLUTIONS_FOLDER}/.gitattributes"
    if not (plan.folder / attributes).exists():
        after[attributes] = _ATTRIBUTES
    try:
        before = {name: _read(plan.folder / name) for name in after}
        replace_files(plan.folder, before, after, prepare_in=[repo.git_dir])
    except (OSError, PortError) as error:
        raise PlanError(
            "the answers cannot be written",
            where=str(folder),
            why=error.strerror if isinstance(error, OSError) else error.why or error.what,
            next="make that folder writable, then the same command again; the edited files stay",
        ) from error
    return tuple(names)


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None
