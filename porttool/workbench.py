"""What one port is made from, and what was decided about it before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from porttool.deciding.sites import Decision, PlacedSeed
from porttool.experiment import Experiment
from porttool.frozen import dataclass
from porttool.git.commits import CommitId, TreeId
from porttool.git.quarantine import Quarantine
from porttool.git.repo import Repository
from porttool.learning.lesson import Lesson
from porttool.plan.plan import Plan
from porttool.report import Conflict, Excluded
from porttool.source.syntax import Source, TextEdit


@dataclass(frozen=True)
class Workbench:
    """What one port is made from: the repository, the room to work in, and both sides."""

    repo: Repository
    quarantine: Quarantine
    plan: Plan
    experiment: Experiment
    onto: str
    onto_id: CommitId


@dataclass(frozen=True)
class Residual:
    """What became of the paths that the residual is about, by the experiment's paths.

    `there` are those of which onto had the residual's changes already, `resolved` names the file
    below the port's folder with which a person decided a conflict.
    """

    there: frozenset[str] = frozenset()
    resolved: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Decided:
    """What is to be done on onto, before anything is written.

    `base` is onto with the residual of the experiment merged in; `sources` are its files that
    matter to the port, parsed. `conflicts` is where a plain cherry-pick would have stopped, and
    `gates` the edits that gate the seeds, by path. The lesson speaks of onto's paths; `files` has
    onto's path of those that the experiment has under another one, `origins` the file that the
    definitions in a file of onto stood in before.
    """

    lesson: Lesson
    base: TreeId
    conflicts: tuple[Conflict, ...]
    sources: Mapping[str, Source]
    placed: tuple[PlacedSeed, ...]
    decisions: tuple[Decision, ...]
    excluded: tuple[Excluded, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    residual: Residual = field(default_factory=Residual)
    gates: Mapping[str, tuple[TextEdit, ...]] = field(default_factory=dict)

    @property
    def asks(self) -> tuple[Decision, ...]:
        """The questions that only a person can answer."""
        return tuple(decision for decision in self.decisions if decision.action == "ask")
