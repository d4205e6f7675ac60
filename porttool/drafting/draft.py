"""Draft a port from a commit: find what can be found, and say what could not be."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from porttool.apply import apply
from porttool.deciding.decide import place_seeds
from porttool.deciding.sites import PlacedSeed
from porttool.drafting.checks import FoundChecks, find_checks
from porttool.drafting.origin import Origin, bundle_of, find_origin, port_name
from porttool.drafting.settings_files import FoundSettings, find_settings
from porttool.drafting.switches import (
    Proposal,
    instead_of_loaded,
    is_loaded,
    propose_switch,
)
from porttool.drafting.wrapping import (
    Possible,
    lesson_by_class,
    lessons_by_wrapper,
    possible_wrappers,
)
from porttool.errors import PlanError, PortError, RepositoryError
from porttool.experiment import find_experiment
from porttool.frozen import dataclass
from porttool.git.commits import TreeId
from porttool.git.partial import fetch_left_out
from porttool.git.quarantine import Quarantine
from porttool.git.repo import Repository
from porttool.learning.lesson import Lesson
from porttool.plan.part import read_part
from porttool.plan.plan import PLAN_NAME, PORTS_FOLDER, Plan, PlanDocument
from porttool.report import counted
from porttool.source.syntax import Source, parse_source
from porttool.survey import decide_sites
from porttool.workbench import Workbench
from porttool.wrappers import Wrapper, known_wrapper

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Learned:
    """What one wrapper explains of an experiment: how many objects it wraps, and by which rules."""

    wrapper: Wrapper
    num_seeds: int
    num_rules: int

    @property
    def callee(self) -> str:
        """Return the wrapper's name in full."""
        return self.wrapper.callee


@dataclass(frozen=True)
class Draft:
    """Everything that goes into a drafted `port.yaml`, and what a person should know about it.

    `learned` is what is wrapped, the most first; where no known wrapper is among it, `possible` is
    what may be one that porttool does not know. `num_open` is the number of questions that `apply`
    will ask. `refused` says what `apply` refuses, or why nothing could be learned.
    """

    name: str
    origin: Origin
    mainline: int | None
    bundle: bytes | None
    learned: tuple[Learned, ...] = ()
    possible: tuple[Possible, ...] = ()
    proposal: Proposal | None = None
    settings: FoundSettings = FoundSettings()
    checks: FoundChecks = FoundChecks((), ())
    num_open: int = 0
    refused: str = ""

    @property
    def path(self) -> str:
        """Return where the plan is written, from the repository's root."""
        return f"{PORTS_FOLDER}/{self.name}/{PLAN_NAME}"

    @property
    def lines(self) -> tuple[str, ...]:
        """Return what is said when it was written: what was found, what was not, what is next."""
        found = [f"wrote {self.path}: look at the lines that say so"]
        if self.learned:
            first = self.learned[0]
            objects, rules = counted(first.num_seeds, "object"), counted(first.num_rules, "rule")
            found.append(f"{first.callee} wraps {objects}; {rules} learned")
        else:
            found.append(f"what it wraps was not found{_because(self.refused)}: say it in wrapper")
        if self.proposal is not None:
            found.append(f"the switch: {self.proposal.why}")
        found += [f"not clear: {doubt}" for doubt in self.proposal.doubts] if self.proposal else []
        if self.learned and self.refused:
            found.append(f"apply will stop: {self.refused}")
        elif self.num_open:
            found.append(f"apply will ask about {counted(self.num_open, 'place')}")
        if self.bundle is not None:
            found.append("the commit is on no remote, so a bundle of it lies beside the plan")
        return (*found, f"next: porttool apply {shlex.quote(self.name)} --dry-run")

    def as_dict(self) -> dict[str, Any]:
        """Return the same facts as data, for `--json`."""
        proposal = self.proposal
        return {
            "port": self.name,
            "path": self.path,
            "branch": self.origin.branch,
            "onto": self.origin.onto,
            "commits": [commit.id for commit in self.origin.commits],
            "wrapper": self.learned[0].callee if self.learned else None,
            "objects": self.learned[0].num_seeds if self.learned else 0,
            "rules": self.learned[0].num_rules if self.learned else 0,
            "switch": proposal.switch.gate if proposal else None,
            "not_clear": list(proposal.doubts) if proposal else [],
            "settings": list(self.settings.chosen),
            "checks": [check.name for check in self.checks.checks],
            "open": self.num_open,
            "refused": self.refused,
        }


@dataclass(frozen=True)
class _Seen:
    """Where the experiment's seeds are: on onto, or on its own parent where nobody could decide."""

    placed: tuple[PlacedSeed, ...]
    sources: Mapping[str, Source]
    tree: TreeId
    num_open: int = 0
    refused: str = ""


def wrapper_values(wrapper: Wrapper) -> dict[str, str]:
    """Return what a plan has to say of a wrapper: its name, and all that is not known of that."""
    if known_wrapper(wrapper.callee) is not None:
        return {"callee": wrapper.callee}
    return {"callee": wrapper.callee, "unwrap": wrapper.unwrap, "prefix": wrapper.prefix}


def _because(refused: str) -> str:
    return f" ({refused})" if refused else ""


def draft_port(
    repo: Repository,
    revision: str,
    *,
    onto: str | None,
    name: str | None,
    progress: Progress,
) -> Draft:
    """Return a draft of a port of a revision; nothing is written.

    Raises RepositoryError for a revision that names nothing to port, PlanError for a port's name
    that is none.
    """
    progress(f"finding {revision}")
    origin = find_origin(repo, revision, onto)
    name = name or port_name(origin.branch)
    mainline = 1 if any(len(commit.parents) > 1 for commit in origin.commits) else None
    plan = _plan(repo, name, origin, mainline, {})
    bundle = bundle_of(repo, origin) if origin.unpushed else None
    draft = Draft(name, origin, mainline, bundle)
    with Quarantine(repo) as quarantine:
        experiment = find_experiment(repo, quarantine, plan)
        ends = (origin.onto_id, experiment.parent_tree, experiment.tip.tree)
        fetch_left_out(repo, quarantine, ends, progress)
        tree = quarantine.tree_of(origin.onto_id)
        changed = quarantine.changed(experiment.parent_tree, experiment.tree)
        touched = [change.path for change in changed]
        progress("looking for the project's checks")
        draft = replace(draft, checks=find_checks(quarantine, tree, touched))
        progress("learning what the experiment wraps")
        lessons, refused = lessons_by_wrapper(quarantine, plan, experiment)
        if not lessons:
            possible = possible_wrappers(*experiment.sides(quarantine))
            draft = replace(draft, refused=refused, possible=possible)
            by_class = (lesson_by_class(quarantine, plan, experiment, one) for one in possible)
            lessons = [lesson for lesson in by_class if lesson is not None][:1]
        if not lessons:
            return draft
        lesson = lessons[0]
        plan = _plan(repo, name, origin, mainline, {"wrapper": wrapper_values(lesson.wrapper)})
        bench = Workbench(repo, quarantine, plan, experiment, origin.onto, origin.onto_id)
        progress(f"finding the same places on {origin.onto}")
        seen = _seen(bench, lesson)
        draft = replace(
            draft,
            learned=tuple(Learned(one.wrapper, len(one.seeds), len(one.rules)) for one in lessons),
            num_open=seen.num_open,
            refused=seen.refused,
        )
        progress("looking for the project's settings")
        proposal = propose_switch(quarantine, seen.tree, seen.placed, seen.sources, lesson.wrapper)
        settings = find_settings(quarantine, tree, plan, proposal.switch)
        if is_loaded(proposal.switch) and not settings.chosen:
            proposal = instead_of_loaded(proposal)
        draft = replace(draft, proposal=proposal, settings=settings)
    return _tried(repo, plan, draft, progress)


def _plan(
    repo: Repository, name: str, origin: Origin, mainline: int | None, more: Mapping[str, Any]
) -> Plan:
    """Return the plan that the draft begins with: no switch, and nothing beside it on disk."""
    values: dict[str, Any] = {
        "name": name,
        "experiment": {
            "branch": origin.branch,
            "commits": [commit.id for commit in origin.commits],
            **({"mainline": mainline} if mainline else {}),
        },
        "onto": origin.onto,
        **more,
    }
    try:
        document = read_part(PlanDocument, values)
    except ValueError as error:
        raise PlanError(
            f"`{name}` cannot name a port",
            why=str(error).splitlines()[-2].strip() if "\n" in str(error) else str(error),
            next="porttool init COMMIT --name NAME",
        ) from error
    path = (repo.root or repo.git_dir) / PORTS_FOLDER / name / PLAN_NAME
    fields = {key: getattr(document, key) for key in PlanDocument.model_fields}
    return Plan.model_construct(**fields, path=path, digest="")


def _seen(bench: Workbench, lesson: Lesson) -> _Seen:
    quarantine = bench.quarantine
    try:
        decided = decide_sites(bench, lesson)
    except PortError as error:
        before, _ = bench.experiment.sides(quarantine)
        sources = {
            path: parse_source(path, data)
            for path, data in before.items()
            if path in {seed.path for seed in lesson.seeds}
        }
        placed, _ = place_seeds(sources, lesson)
        where = f" ({error.where})" if error.where else ""
        return _Seen(placed, sources, bench.experiment.parent_tree, refused=f"{error.what}{where}")
    return _Seen(decided.placed, decided.sources, decided.base, len(decided.asks))


def _tried(repo: Repository, plan: Plan, draft: Draft, progress: Progress) -> Draft:
    """Return the draft with what `apply --dry-run` says of it: nothing guesses that better."""
    if draft.proposal is None:
        return draft
    switch = draft.proposal.switch
    if draft.settings.chosen:
        switch = switch.model_copy(update={"yaml": draft.settings.chosen})
    progress("trying it")
    try:
        repo.identity()
    except RepositoryError:
        return draft  # it could commit nothing here, whatever the plan is
    try:
        applied = apply(
            repo,
            plan.model_copy(update={"switch": switch, "digest": "draft"}),
            onto=draft.origin.onto,
            dry_run=True,
            progress=lambda step: None,
        )
    except PortError as error:
        what = error.what.removesuffix("; no branch was made")
        told = (error.where, what, error.why)
        return replace(draft, refused=": ".join(part for part in told if part))
    refused = "" if applied.outcome in ("dry-run", "asked") else applied.message.splitlines()[0]
    return replace(draft, num_open=len(applied.report.asks), refused=refused)
