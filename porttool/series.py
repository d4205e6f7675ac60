"""The review branch: a series of commits, one idea each, published with its report."""

from __future__ import annotations

from typing import Literal

from porttool.errors import EXIT_DONE, RepositoryError
from porttool.frozen import dataclass
from porttool.git.commits import (
    PORT,
    PORT_PLAN,
    PORTED_FROM,
    CommitId,
    TreeId,
    add_trailers,
    trailers,
)
from porttool.git.publish import RefUpdate, publish_with_note
from porttool.plan.plan import Plan
from porttool.plan.switch import FlatSwitch, Switch
from porttool.record import find_report
from porttool.report import Commit, Report, counted, to_json
from porttool.workbench import Workbench

Outcome = Literal[
    "created",
    "moved",
    "unchanged",
    "dry-run",
    "already-ported",
    "already-applied",
    "empty",
    "nothing-to-do",
    "asked",
    "parked",
]


@dataclass(frozen=True)
class Moved:
    """A branch from one tip to another, and what became of the commits that were put on top of it.

    `kept` are those commits as they are now, `dropped` those of which the new branch has everything
    already. `range_diff` is git's comparison of the two series.
    """

    old: str
    new: str
    kept: tuple[Commit, ...]
    dropped: tuple[Commit, ...]
    range_diff: str


@dataclass(frozen=True)
class Applied:
    """How `apply` ended, the whole account of it, and what to tell the user."""

    outcome: Outcome
    report: Report
    branch: str
    exit_code: int
    message: str
    moved: Moved | None = None


def commit_series(bench: Workbench, adapted: TreeId, gated: TreeId) -> list[CommitId]:
    """Write one commit an idea: the experiment as adapted, its gate, then each patch.

    Equal inputs give equal ids: the committer is the user at the later of onto's and the
    experiment's commit dates.
    """
    quarantine, plan, experiment = bench.quarantine, bench.plan, bench.experiment
    onto_id = bench.onto_id
    picked = [commit.id for commit in experiment.commits]
    marks = [
        *((PORTED_FROM, id) for id in picked),
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
        add_trailers(experiment.tip.message, marks, picked_from=picked),
        experiment.tip.encoding,
    )
    if plan.switch is not None:
        commit(gated, user, add_trailers(_gate_message(plan, plan.switch).encode(), marks))
    else:
        commit(gated, user, add_trailers(f"{plan.name}: configurations\n".encode(), marks))
    tree = gated
    for patch in plan.patch_files:
        parts = quarantine.read_patch(patch.data, name=str(plan.folder / patch.name))
        tree = quarantine.apply_patch(tree, parts.diff, name=patch.name)
        commit(tree, parts.author, add_trailers(parts.message, marks))
    return series


def create_branch(bench: Workbench, report: Report, *, replace_branch: bool) -> Applied:
    """Create the branch and its report by compare-and-swap: the only step that anybody can see.

    Raises RepositoryError when another branch of that name is there, unless it is to be replaced
    and nobody has committed on it.
    """
    repo, quarantine, plan = bench.repo, bench.quarantine, bench.plan
    ref = f"refs/heads/{plan.review_branch}"
    old = repo.ref(ref)
    kept = find_report(repo, old, plan.name) if old is not None else None
    if old == report.tip and kept is not None:
        message = f"{plan.review_branch} is already what this port gives on {report.onto}"
        return Applied("unchanged", report, plan.review_branch, EXIT_DONE, message)
    if old is not None and old != report.tip:
        if not _is_ours(bench, old, kept):
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
                why=_other_inputs(kept, report),
                next=f"porttool apply {plan.name} --onto {report.onto} --replace",
            )
    tip = CommitId(report.tip)
    publish_with_note(
        repo,
        quarantine,
        [RefUpdate(ref, old, tip)],
        commit=tip,
        text=to_json(report).encode(),
        by=quarantine.commit(tip).committed,
        reason=f"porttool: {plan.name} onto {report.onto}",
    )
    if old == tip:
        message = f"{plan.review_branch} is what this port gives; its report is stored again"
        return Applied("unchanged", report, plan.review_branch, EXIT_DONE, message)
    message = (
        f"created {plan.review_branch} with {counted(len(report.series), 'commit')}\n"
        f"next: porttool verify {plan.name}"
    )
    return Applied("created", report, plan.review_branch, EXIT_DONE, message)


def _is_ours(bench: Workbench, tip: CommitId, kept: Report | None) -> bool:
    """Tell whether every commit of a branch was made by porttool for this port.

    Without a report, which a fetch may not have brought, the trailers have to say so.
    """
    repo, plan = bench.repo, bench.plan
    if kept is not None:
        own = {commit.id for commit in kept.series}
        marked = [(PORT, plan.name) in trailers(repo.commit(CommitId(id)).message) for id in own]
        return tip in own and all(marked)
    commit, found = repo.commit(tip), 0
    while (PORT, plan.name) in trailers(commit.message) and len(commit.parents) == 1:
        commit, found = repo.commit(commit.parents[0]), found + 1
    return found > 0 and repo.is_ancestor(commit.id, bench.onto_id)


def _other_inputs(kept: Report | None, report: Report) -> str:
    if kept is None:
        return "no report came with it that says from which"
    if kept.digest != report.digest:
        return "port.yaml or a patch has changed since"
    if kept.onto_id != report.onto_id:
        return f"it was made on {kept.onto_id[:12]}, {report.onto} is at {report.onto_id[:12]}"
    return f"it was made by porttool {kept.version} or another user, this is {report.version}"


def _declaration(switch: Switch) -> str:
    if switch.module is not None:
        return f"It is declared in {switch.module}."
    if isinstance(switch, FlatSwitch) and switch.idiom == "env":
        return f"{switch.variable}=1 in the environment turns it on."
    return f"`{switch.key}: true` in the settings turns it on."


def _gate_message(plan: Plan, switch: Switch) -> str:
    variants = "".join(f"\n{variant.path} turns it on." for variant in plan.variants)
    return (
        f"{plan.name}: behind {switch.gate}, off by default\n\n"
        f"With the switch off nothing is wrapped. {_declaration(switch)}{variants}\n"
    )
