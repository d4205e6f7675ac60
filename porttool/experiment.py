"""The experiment's commits: where they are, what they were made on, and what they changed."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from porttool.errors import RepositoryError
from porttool.git.commits import CommitFacts, CommitId, TreeId
from porttool.git.objects import Objects
from porttool.git.quarantine import Quarantine
from porttool.git.repo import Repository
from porttool.plan.plan import Plan


@dataclass(frozen=True)
class Experiment:
    """A chain of commits, oldest first, and the tree that the first one was made on."""

    commits: tuple[CommitFacts, ...]
    parent_tree: TreeId

    @property
    def tip(self) -> CommitFacts:
        """The last commit of the chain."""
        return self.commits[-1]

    def sides(self, objects: Objects) -> tuple[dict[str, bytes], dict[str, bytes]]:
        """Return the files that the experiment changed, as they were before and after.

        A new file is absent before, a deleted one after. Links and submodules are left out.
        """
        paths = [change.path for change in objects.changed(self.parent_tree, self.tip.tree)]
        return (
            objects.read_many(self.parent_tree, paths),
            objects.read_many(self.tip.tree, paths),
        )


def find_experiment(repo: Repository, quarantine: Quarantine, plan: Plan) -> Experiment:
    """Find the experiment's commits in the repository, else in the port's bundle.

    Raises RepositoryError with what to fetch, and for commits that are not one chain.
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
    for commit in commits:
        if len(commit.parents) != 1:
            raise RepositoryError(
                f"the experiment's commit {commit.id} has {len(commit.parents)} parents",
                where=f"{plan.path} (experiment.commits)",
                why="a port needs one parent to compare with",
                next="name the commits that the merge brought in, oldest first",
            )
    for earlier, later in pairwise(commits):
        if later.parents != (earlier.id,):
            raise RepositoryError(
                "the experiment's commits are not one chain",
                where=f"{plan.path} (experiment.commits)",
                why=f"{later.id} is not made on {earlier.id}",
                next="list every commit of the chain, oldest first: "
                f"git rev-list --reverse {earlier.id}^..{later.id}",
            )
    return Experiment(commits, quarantine.tree_of(commits[0].parents[0]))


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
