"""The review branch: a series of commits, one idea each, published with its report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from porttool.bench import Bench
from porttool.errors import EXIT_DONE, RepositoryError
from porttool.git.commits import PORT, PORT_PLAN, PORTED_FROM, CommitId, TreeId, add_trailers
from porttool.git.publish import RefUpdate, publish, write_note
from porttool.git.repo import Repository
from porttool.plan.plan import Plan, SwitchPlan
from porttool.record import find_report
from porttool.report import Report, to_json

Outcome = Literal[
    "created", "unchanged", "dry-run", "already-ported", "nothing-to-do", "asked", "parked"
]


@dataclass(frozen=True)
class Applied:
    """How `apply` ended, the whole account of it, and what to tell the user."""

    outcome: Outcome
    report: Report
    branch: str
    exit_code: int
    message: str


def commit_series(bench: Bench, adapted: TreeId, gated: TreeId) -> list[CommitId]:
    """Write one commit an idea: the experiment as adapted, its gate, then each patch.

    Equal inputs give equal ids: the committer is the user at the later of onto's and the
    experiment's commit dates.
    """
    quarantine, plan, experiment = bench.quarantine, bench.plan, bench.experiment
    onto_id = bench.onto_id
    marks = [
        (PORTED_FROM, experiment.tip.id),
        (PORT, plan.name),
        (PORT_PLAN, plan.digest),
    ]
    moment = max(quarantine.commit(onto_id).committed.seconds, experiment.tip.committed.seconds)
    user = bench.repo.identity().at(moment).raw()
    series: list[CommitId] = []

    def commit(tree: TreeId, author: bytes, message: bytes, encoding: bytes | None = None) -> None:
        above = series[-1] if series else onto_id
        if tree == quarantine.tree_of(above):
            return
        series.append(
            quarantine.write_commit(
                tree,
                [above],
                author=author,
                committer=user,
                message=message,
                encoding=encoding,
            )
        )

    commit(
        adapted,
        experiment.tip.author,
        add_trailers(experiment.tip.message, marks, picked_from=experiment.tip.id),
        experiment.tip.encoding,
    )
    if plan.switch is not None:
        commit(gated, user, add_trailers(_gate_message(plan, plan.switch).encode(), marks))
    else:
        commit(gated, user, add_trailers(f"{plan.name}: configurations\n".encode(), marks))
    tree = gated
    for patch in plan.patch_files:
        parts = quarantine.read_patch(patch.data, name=patch.name)
        tree = quarantine.apply_patch(tree, parts.diff, name=patch.name)
        commit(tree, parts.author, add_trailers(parts.message, marks))
    return series


def create_branch(bench: Bench, report: Report, *, replace_branch: bool) -> Applied:
    """Create the branch and its report by compare-and-swap: the only step that anybody can see.

    Raises RepositoryError when another branch of that name is there, unless it is to be replaced
    and nobody has committed on it.
    """
    repo, quarantine, plan = bench.repo, bench.quarantine, bench.plan
    ref = f"refs/heads/{plan.review_branch}"
    old = repo.ref(ref)
    if old == report.tip:
        message = f"{plan.review_branch} is already what this port gives on {report.onto}"
        return Applied("unchanged", report, plan.review_branch, EXIT_DONE, message)
    if old is not None:
        kept = find_report(repo, old, plan.name)
        if kept is None or len(kept.series) == 0 or _has_additions(repo, kept, old):
            raise RepositoryError(
                f"the branch {plan.review_branch} exists and holds commits that are not porttool's",
                where=old,
                why="moving it would lose them",
                next=f"git branch -m {plan.review_branch} NEW-NAME, then the same command again",
            )
        if not replace_branch:
            raise RepositoryError(
                f"the branch {plan.review_branch} exists, made from other inputs",
                where=old,
                why=f"it was made on {kept.onto_id[:12]}, this one is on {report.onto_id[:12]}",
                next=f"porttool apply {plan.name} --onto {report.onto} --replace",
            )
    tip = CommitId(report.tip)
    by = repo.identity().at(quarantine.commit(tip).committed.seconds)
    note = write_note(repo, quarantine, tip, to_json(report).encode(), by)
    reason = f"porttool: {plan.name} onto {report.onto}"
    publish(repo, quarantine, [RefUpdate(ref, old, tip), note], reason=reason)
    message = (
        f"created {plan.review_branch} with {len(report.series)} commits\n"
        f"next: porttool verify {plan.name}"
    )
    return Applied("created", report, plan.review_branch, EXIT_DONE, message)


def _has_additions(repo: Repository, kept: Report, tip: CommitId) -> bool:
    trailer = f"{PORT}: {kept.port}"
    return any(trailer not in repo.commit(CommitId(c.id)).text for c in kept.series) or (
        kept.series[-1].id != tip
    )


def _gate_message(plan: Plan, switch: SwitchPlan) -> str:
    variants = "".join(f"\n{variant.path} turns it on." for variant in plan.variants)
    return (
        f"{plan.name}: behind {switch.gate}, off by default\n\n"
        f"With the switch off nothing is wrapped. It is declared in {switch.module}.{variants}\n"
    )
