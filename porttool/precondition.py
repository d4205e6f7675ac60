"""The plan's precondition, read from a tree: on the branch, and on onto before there is one."""

from __future__ import annotations

import dataclasses
from typing import Literal

from porttool.errors import PlanError
from porttool.frozen import dataclass
from porttool.gating.settings import derive_yaml, evaluate_precondition
from porttool.git.commits import CommitId, TreeId
from porttool.git.objects import Objects
from porttool.git.repo import Repository
from porttool.plan.plan import Plan, PreconditionPlan
from porttool.report import Clause, Precondition, Threshold


@dataclass(frozen=True)
class Targeted:
    """The precondition as far as the port has come, and the commit that it was read at.

    `derived` is the targeted config where the commit does not have it yet, else None.
    """

    precondition: Precondition
    at: CommitId
    stage: Literal["not applied", "branch", "merged"]
    derived: bytes | None = None


def read_precondition(objects: Objects, plan: Plan, treeish: CommitId | TreeId) -> Precondition:
    """Return whether the targeted config, as it is in a tree, meets the plan's rule.

    Raises PlanError where the config is not in that tree.
    """
    rule = plan.precondition
    if rule is None:
        return Precondition(met=True)
    data = objects.read(treeish, rule.config)
    if data is None:
        raise _absent(plan, rule, treeish)
    return _evaluate(rule, data)


def expected_config(plan: Plan) -> str | None:
    """Return the file of onto that `expected_precondition` reads, None where there is no rule."""
    rule = plan.precondition
    if rule is None:
        return None
    return next((v.source for v in plan.variants if v.path == rule.config), rule.config)


def expected_precondition(
    objects: Objects, plan: Plan, onto: CommitId | TreeId
) -> Precondition | None:
    """Return what `read_precondition` would say of a branch made on onto now.

    None where that cannot be known without making it: neither onto nor a variant has the config.
    """
    rule = plan.precondition
    if rule is None:
        return Precondition(met=True)
    data = _expected_data(objects, plan, rule, onto)
    return None if data is None else _evaluate(rule, data)


def find_precondition(repo: Repository, plan: Plan) -> Targeted:
    """Return the precondition of a port as far as it has come.

    Raises PlanError where the targeted config is nowhere.
    """
    rule = plan.precondition
    tip = repo.find(plan.review_branch)
    onto = repo.resolve(plan.onto)
    if tip is not None:
        return Targeted(read_precondition(repo, plan, tip), tip, "branch")
    if repo.find_ported(onto, CommitId(plan.experiment.commits[-1]), plan.name) is not None:
        return Targeted(read_precondition(repo, plan, onto), onto, "merged")
    if rule is None:
        return Targeted(Precondition(met=True), onto, "not applied")
    data = _expected_data(repo, plan, rule, onto)
    if data is None:
        raise _absent(plan, rule, onto)
    own = any(variant.path == rule.config for variant in plan.variants)
    return Targeted(_evaluate(rule, data), onto, "not applied", data if own else None)


def with_measured(precondition: Precondition, threshold: Threshold) -> Precondition:
    """Return the precondition with what was measured as one more clause."""
    met = any(clause.met for clause in precondition.clauses) or threshold.met
    return dataclasses.replace(precondition, met=met, measured=threshold)


def _expected_data(
    objects: Objects, plan: Plan, rule: PreconditionPlan, onto: CommitId | TreeId
) -> bytes | None:
    variant = next((v for v in plan.variants if v.path == rule.config), None)
    source = expected_config(plan) or rule.config
    data = objects.read(onto, source)
    if data is None or variant is None:
        return data
    # The switch's section is not in onto's file yet, and no rule asks for it.
    own = plan.switch.key if plan.switch else None
    known = {k: value for k, value in variant.changes.items() if k.split(".", 1)[0] != own}
    return derive_yaml(data, known, "", path=source)


def _evaluate(rule: PreconditionPlan, data: bytes) -> Precondition:
    found = evaluate_precondition(data, rule)
    clauses = tuple(Clause(c.text, c.seen, c.met) for c in found.clauses)
    return Precondition(found.met, rule.config, clauses)


def _absent(plan: Plan, rule: PreconditionPlan, treeish: str) -> PlanError:
    return PlanError(
        f"the precondition's config {rule.config} is not in the tree",
        where=f"{plan.path} (precondition.config), tree of {treeish}",
        next="name a file of the branch, or one that `variants` writes",
    )
