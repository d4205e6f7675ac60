"""The experiment's commits: where they are, what they were made on, and what they changed."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from porttool.errors import CannotLearn, RepositoryError
from porttool.frozen import dataclass
from porttool.git.commits import CommitFacts, CommitId, TreeId
from porttool.git.merge import merge_trees
from porttool.git.objects import FILE, SUBMODULE, SYMLINK, Entry, Objects
from porttool.git.quarantine import Quarantine
from porttool.git.renames import renames
from porttool.git.repo import Repository
from porttool.learning.learn import Hunk, Lesson, check_replay, for_gated_port, learn
from porttool.plan.plan import Plan
from porttool.relied import with_relied_on

_MAX_LISTED = 8


@dataclass(frozen=True)
class Experiment:
    """Commits, oldest first, what the first was made on, and the tree that they make.

    `tree` is the last commit's own where the commits are a chain; else every commit is picked onto
    the one before, and it is what comes out.
    """

    commits: tuple[CommitFacts, ...]
    parent: CommitId
    parent_tree: TreeId
    tree: TreeId

    @property
    def tip(self) -> CommitFacts:
        """The last commit."""
        return self.commits[-1]

    def sides(self, objects: Objects) -> tuple[dict[str, bytes], dict[str, bytes]]:
        """Return the files that the experiment changed, as they were before and after.

        A new file is absent before, a deleted one after. Links and submodules are left out.
        """
        paths = [
            change.path
            for change in objects.changed(self.parent_tree, self.tree)
            if not {change.mode_before, change.mode} & {SYMLINK, SUBMODULE}
        ]
        return (
            objects.read_many(self.parent_tree, paths),
            objects.read_many(self.tree, paths),
        )


def whole_entries(
    objects: Objects, experiment: Experiment, content: TreeId
) -> dict[str, Entry | None]:
    """Return what an experiment changed beside the contents of files, for the tree that has those.

    Links and submodules are taken as they are, and files that got another mode with it.
    """
    found: dict[str, Entry | None] = {}
    for change in objects.changed(experiment.parent_tree, experiment.tree):
        now = objects.entry(experiment.tree, change.path)
        if {change.mode_before, change.mode} & {SYMLINK, SUBMODULE}:
            found[change.path] = now
        elif now is not None and now.mode != (change.mode_before or FILE):
            there = objects.entry(content, change.path)
            found[change.path] = Entry(now.mode, there.id if there else now.id)
    return found


def find_experiment(repo: Repository, quarantine: Quarantine, plan: Plan) -> Experiment:
    """Find the experiment's commits in the repository, else in the port's bundle.

    Raises RepositoryError with what to fetch, for a merge without a mainline, for a commit without
    a parent, and for commits that are no chain and cannot be picked onto each other.
    """
    wanted = [CommitId(id) for id in plan.experiment.commits]
    missing = [id for id in wanted if not repo.has(id)]
    if missing and plan.bundle_path is not None and plan.bundle_path.is_file():
        quarantine.unbundle(plan.bundle_path)
        absent = [id for id in missing if not quarantine.has(id)]
        if absent:
            raise _not_in_bundle(plan, plan.bundle_path, absent[0])
    elif missing:
        raise _nowhere(repo, plan, missing[0])
    commits = tuple(quarantine.commit(id) for id in wanted)
    parents = [_parent(quarantine, plan, commit) for commit in commits]
    tree = commits[0].tree
    for (earlier, later), parent in zip(pairwise(commits), parents[1:], strict=True):
        if parent != earlier.id:
            _check_order(quarantine, plan, earlier, later, parent)
        tree = _picked(quarantine, plan, tree, (earlier, parent, later))
    return Experiment(commits, parents[0], quarantine.tree_of(parents[0]), tree)


def compared_with(plan: Plan, mainline: int | None) -> Plan:
    """Return the plan with another mainline, and a digest of its own: it is not what is written."""
    if mainline is None or mainline == plan.experiment.mainline:
        return plan
    experiment = plan.experiment.model_copy(update={"mainline": mainline})
    digest = hashlib.sha256(f"{plan.digest} {mainline}".encode()).hexdigest()
    return plan.model_copy(update={"experiment": experiment, "digest": digest})


def learn_experiment(quarantine: Quarantine, plan: Plan, experiment: Experiment) -> Lesson:
    """Learn rules and seeds, and hold them against the experiment: replayed, they must give it.

    Raises CannotLearn for a Python file that was renamed and changed at once, too: such a file
    would come along whole, and nothing that wraps in it would be known.
    """
    for old, new in renames(quarantine, experiment.parent_tree, experiment.tree).items():
        changed = quarantine.entry(experiment.parent_tree, old) != quarantine.entry(
            experiment.tree, new
        )
        if changed and old.endswith(".py"):
            raise CannotLearn(
                f"the experiment renames {old} to {new} and changes it",
                where=new,
                why="what changed in a file is learned from its two sides under one name",
                next="rename it in a commit of its own, and list only the commits after that one "
                f"in {plan.path} (experiment.commits)",
            )
    before, after = experiment.sides(quarantine)
    lesson = learn(before, after, plan.wrapper.wrapper())
    check_replay(lesson, before, after)
    entries = whole_entries(quarantine, experiment, experiment.tree)
    whole = [Hunk(path, 0, 0, "", "", "residual", "not a file's content") for path in entries]
    lesson = replace(lesson, hunks=(*lesson.hunks, *whole))
    if plan.switch is None:
        return lesson
    # A gated port meets objects that are not wrapped: its rules have to be neutral on them.
    return for_gated_port(with_relied_on(lesson, quarantine, experiment.tree))


def _parent(quarantine: Quarantine, plan: Plan, commit: CommitFacts) -> CommitId:
    """Return the parent that a commit is compared with, as `git cherry-pick -m` picks it."""
    where = f"{plan.path} (experiment.commits)"
    mainline = plan.experiment.mainline
    num_parents = len(commit.parents)
    if num_parents == 0:
        raise RepositoryError(
            f"the experiment's commit {commit.id} has no parent",
            where=where,
            why="a port is learned from what a commit changed, and this one begins a history",
            next="name the commits that were made on it, oldest first: "
            f"git rev-list --reverse {commit.id}..{shlex.quote(plan.experiment.branch)}",
        )
    if mainline is None and num_parents > 1:
        parents = "; ".join(
            f"{number}: {parent[:12]} {quarantine.commit(parent).subject}"
            for number, parent in enumerate(commit.parents, start=1)
        )
        raise RepositoryError(
            f"the experiment's commit {commit.id} is a merge of {num_parents} parents",
            where=where,
            why=f"its change depends on the parent that it is compared with; they are {parents}",
            next="write `mainline: 1` (or the number of another parent) under `experiment:` in "
            f"{plan.path}, or name the commits that the merge brought in, oldest first",
        )
    number = mainline or 1
    if number > num_parents:
        raise RepositoryError(
            f"mainline {number}: the experiment's commit {commit.id} has {num_parents} "
            + ("parent" if num_parents == 1 else "parents"),
            where=f"{plan.path} (experiment.mainline)",
            why="a mainline is the number of a parent, counted from 1",
            next="remove mainline" if num_parents == 1 else f"write one from 1 to {num_parents}",
        )
    return commit.parents[number - 1]


def _check_order(
    quarantine: Quarantine, plan: Plan, earlier: CommitFacts, later: CommitFacts, parent: CommitId
) -> None:
    """Refuse commits that are not in one line of history, or not in its order."""
    done = quarantine.git.run("merge-base", "--is-ancestor", earlier.id, parent, ok=(0, 1))
    if done.status == 0:
        return
    raise RepositoryError(
        "the experiment's commits are not one chain, and not one branch's in its order",
        where=f"{plan.path} (experiment.commits)",
        why=f"{later.id} is not made on {earlier.id}, nor on anything made on it",
        next="list them oldest first, all of one branch: "
        f"git log --reverse --format=%H {shlex.quote(plan.experiment.branch)}",
    )


def _picked(
    quarantine: Quarantine,
    plan: Plan,
    tree: TreeId,
    step: tuple[CommitFacts, CommitId, CommitFacts],
) -> TreeId:
    """Return a tree, made by the commits up to the first of a step, with the last one picked onto
    it, which was made on the second.
    """
    earlier, parent, later = step
    base = quarantine.tree_of(parent)
    if base == tree:
        return later.tree
    merged = merge_trees(quarantine, base=base, ours=tree, theirs=later.tree)
    if merged.clean:
        return merged.tree
    between = _between(quarantine, earlier.id, parent)
    paths = dict.fromkeys(path for conflict in merged.conflicts for path in conflict.paths)
    raise RepositoryError(
        f"the experiment's commit {later.id} cannot be picked onto {earlier.id}",
        where=", ".join(paths),
        why="the commits between them, which the plan does not list, change the same places: "
        + "; ".join(between),
        next=f"list those that belong to the experiment as well, in {plan.path} "
        "(experiment.commits), oldest first",
    )


def _between(quarantine: Quarantine, earlier: CommitId, parent: CommitId) -> Sequence[str]:
    """Return id and subject of the commits that were left out, the oldest first."""
    listing = quarantine.git.run(
        "rev-list", "--reverse", "--topo-order", f"{earlier}..{parent}", "--"
    )
    ids = listing.out.decode().split()
    shown = [f"{id} {quarantine.commit(CommitId(id)).subject}" for id in ids[:_MAX_LISTED]]
    return [*shown, f"and {len(ids) - _MAX_LISTED} more"] if len(ids) > _MAX_LISTED else shown


def _nowhere(repo: Repository, plan: Plan, id: CommitId) -> RepositoryError:
    bundle = plan.bundle_path
    remotes = repo.remotes()
    branch = shlex.quote(plan.experiment.branch)
    name = shlex.quote(bundle.name if bundle else "experiment.bundle")
    add = f"git bundle create {name} {branch}"
    if remotes:
        next = f"git fetch {shlex.quote(remotes[0])} {branch}"
    else:
        next = f"add the branch to this repository, or its bundle to {plan.folder}: {add}"
        next += "" if bundle else ", and experiment.bundle: experiment.bundle to port.yaml"
    return RepositoryError(
        f"the experiment's commit {id} is not in this repository",
        where=f"{plan.path} (experiment.{'bundle' if bundle else 'commits'})",
        why="no branch here contains it, and "
        + (
            f"the bundle that the plan names is not there: {bundle}"
            if bundle
            else "the port brings no bundle of it"
        ),
        next=next,
    )


def _not_in_bundle(plan: Plan, bundle: Path, id: CommitId) -> RepositoryError:
    branch = shlex.quote(plan.experiment.branch)
    return RepositoryError(
        f"the bundle {bundle.name} does not hold the experiment's commit {id}",
        where=f"{plan.path} (experiment.commits)",
        why=f"neither this repository nor {bundle} has it",
        next=f"correct the id; these are the bundle's: git bundle list-heads "
        f"{shlex.quote(str(bundle))}; or make it anew where the branch is: "
        f"git bundle create {shlex.quote(bundle.name)} {branch}",
    )
