"""What a merge could not decide, as one question a conflict, and the commits that brought it about.

A question is about one or several paths, which only make sense together, and its `key` says which
question it is: the same paths with the same content on all sides have the same key.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from porttool.errors import NeedsPerson
from porttool.frozen import dataclass
from porttool.git.commits import CommitFacts, CommitId, TreeId
from porttool.git.merge import Kind, MergeResult, Stage
from porttool.git.objects import Entry, Objects

_MAX_CAUSES = 3
_TEXT: tuple[Kind, ...] = ("content", "add/add")
_ONE_SIDE: tuple[Kind, ...] = (
    "binary",
    "LFS pointer",
    "mode",
    "modify/delete",
    "rename/delete",
    "rename/rename",
    "submodule",
)


@dataclass(frozen=True)
class Question:
    """A conflict that a person has to decide.

    `stages` holds the sides of every path that has any; `causes` are the commits of onto that
    changed one of the paths since the experiment's base, the latest first.
    """

    kind: Kind
    paths: tuple[str, ...]
    stages: Mapping[str, tuple[Stage, ...]]
    causes: tuple[CommitFacts, ...] = ()

    @property
    def key(self) -> str:
        """Return what tells this question from every other one."""
        facts = [
            f"{path}\0{stage.number}\0{stage.mode}\0{stage.id}"
            for path in sorted(self.stages)
            for stage in sorted(self.stages[path], key=lambda stage: stage.number)
        ]
        text = "\n".join((*sorted(self.paths), "", *facts))
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()

    @property
    def is_text(self) -> bool:
        """Whether the conflict stands between markers in one file, which a person can edit."""
        return self.kind in _TEXT and len(self.paths) == 1

    @property
    def is_open(self) -> bool:
        """Whether it can be answered here at all: by an edit, or by taking one side."""
        return self.is_text or self.kind in _ONE_SIDE

    def as_dict(self) -> dict[str, Any]:
        """Return the same as JSON data."""
        causes = [{"id": commit.id, "subject": commit.subject} for commit in self.causes]
        return {"kind": self.kind, "paths": list(self.paths), "commits": causes}


class Unresolved(NeedsPerson):
    """What no rule explains conflicts with what onto has there; `questions` are the conflicts.

    `unfit` names stored resolutions of other conflicts than there are now.
    """

    def __init__(
        self, questions: Sequence[Question], *, onto: str, command: str, unfit: Sequence[str] = ()
    ) -> None:
        self.questions = tuple(questions)
        self.unfit = tuple(unfit)
        lines = [line for question in questions for line in question_lines(question, onto)]
        lines += [f"{name} does not fit any more: one of its sides has changed" for name in unfit]
        closed = [question for question in questions if not question.is_open]
        super().__init__(
            "a part of the experiment that no rule explains conflicts with what onto has there; "
            "no branch was made",
            where=", ".join(dict.fromkeys(path for q in questions for path in q.paths)),
            why="\n         ".join(lines),
            next=f"move or rename {closed[0].paths[0]} in the experiment as {onto} does, and put "
            "its new id into port.yaml"
            if closed
            else command,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the same facts as data, each conflict by itself."""
        questions = [question.as_dict() for question in self.questions]
        return {**super().as_dict(), "conflicts": questions, "unfit": list(self.unfit)}


def question_lines(question: Question, onto: str) -> list[str]:
    """Return a conflict and its causes for reading."""
    return [
        f"{question.kind}: {', '.join(question.paths)}",
        *(f"  changed on {onto} by {c.id[:12]} {c.subject}" for c in question.causes),
    ]


def questions_of(merged: MergeResult) -> tuple[Question, ...]:
    """Return the conflicts of a merge; those that share a path are one question."""
    groups: list[tuple[list[Kind], dict[str, None]]] = []
    for conflict in merged.conflicts:
        kinds, paths = [conflict.kind], dict.fromkeys(conflict.paths)
        for group in [group for group in groups if group[1].keys() & paths.keys()]:
            groups.remove(group)
            kinds, paths = [*group[0], *kinds], group[1] | paths
        groups.append((kinds, paths))
    questions = []
    for kinds, paths in groups:
        # What is said of the whole file goes before what is said of its lines.
        kind = next((kind for kind in kinds if kind not in _TEXT), kinds[0])
        stages = {path: merged.stages[path] for path in paths if path in merged.stages}
        questions.append(Question(kind, tuple(paths), stages))
    return tuple(sorted(questions, key=lambda question: question.paths))


def causes_of(
    objects: Objects, question: Question, base: CommitId | None, onto: CommitId
) -> tuple[CommitFacts, ...]:
    """Return the commits of onto since `base` that changed a conflict's paths, through renames."""
    span = f"{base}..{onto}" if base else onto
    found: dict[CommitId, CommitFacts] = {}
    for path in question.paths:
        # A file that stands in the place of a folder is told under a name that nobody gave it.
        given = re.sub(r"~onto(_\d+)?$", "", path)
        follow = ["--follow"]
        if question.kind == "directory rename":
            given, follow = given.rpartition("/")[0], []
        listing = objects.git.run(
            *("log", *follow, "--format=%H", f"-{_MAX_CAUSES}", span, "--", f":(literal){given}")
        ).out
        for id in map(CommitId, listing.decode().split()):
            found[id] = objects.commit(id)
    latest = sorted(found.values(), key=lambda commit: -commit.committed.seconds)
    return tuple(latest[:_MAX_CAUSES])


def merge_base(objects: Objects, one: CommitId, other: CommitId) -> CommitId | None:
    """Return the best common ancestor, or None where the histories are unrelated."""
    done = objects.git.run("merge-base", one, other, ok=(0, 1))
    return CommitId(done.out.decode().strip()) if done.status == 0 else None


def side_entries(objects: Objects, question: Question, side: TreeId) -> dict[str, Entry | None]:
    """Return what one side has at the paths of a conflict, None where it has nothing."""
    paths: Iterable[str] = dict.fromkeys((*question.paths, *question.stages))
    return {path: objects.entry(side, path) for path in paths}
