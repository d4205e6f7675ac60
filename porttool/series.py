"""The review branch: a series of commits, one idea each, published with its report."""

from __future__ import annotations

import shlex
from collections.abc import Callable
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
)
from porttool.git.publish import RefUpdate, publish_with_note
from porttool.ownership import Made, added_to, find_made, left_behind, nobody_knows
from porttool.plan.plan import Plan
from porttool.plan.switch import FlatSwitch, Switch
from porttool.record import readable_report
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


def create_branch(
    bench: Workbench, report: Report, *, replace_branch: bool, progress: Callable[[str], None]
) -> Applied:
    """Create the branch and its report by compare-and-swap: the only step that anybody can see.

    Raises RepositoryError when another branch of that name is there, unless it is to be replaced
    and porttool's note says that nobody has committed on it.
    """
    repo, quarantine, plan = bench.repo, bench.quarantine, bench.plan
    ref = f"refs/heads/{plan.review_branch}"
    old = repo.ref(ref)
    made = find_made(repo, old, plan.name) if old is not None else None
    kept = None if made is None else readable_report(made, plan.name)
    if old is not None and made is not None and made.tip == report.tip and kept is not None:
        message = f"{plan.review_branch} is already what this port gives on {report.onto}"
        added = added_to(repo, made, old)
        message += f", with {counted(len(added), 'commit')} of yours on top" if added else ""
        return Applied("unchanged", report, plan.review_branch, EXIT_DONE, message)
    if old is not None and old != report.tip:
        _refuse_to_move(bench, old, made)
        if not replace_branch:
            raise RepositoryError(
                f"the branch {plan.review_branch} exists, made from other inputs",
                where=old,
                why=_other_inputs(kept, report),
                next=_again(plan, made, report),
            )
    if old == report.tip:
        progress(f"storing the report of {plan.review_branch}")
    else:
        progress(f"{'creating' if old is None else 'moving'} {plan.review_branch}")
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
    commits = counted(len(report.series), "commit")
    done = f"created {plan.review_branch} with {commits}"
    if old is not None:
        done = f"made {plan.review_branch} anew with {commits}; it was at {old}"
    message = f"{done}\nnext: porttool verify {shlex.quote(plan.name)}"
    return Applied("created", report, plan.review_branch, EXIT_DONE, message)


def _refuse_to_move(bench: Workbench, old: CommitId, made: Made | None) -> None:
    """Raise RepositoryError where the branch may hold commits that are not porttool's."""
    repo, plan = bench.repo, bench.plan
    if made is None:
        raise nobody_knows(repo, plan, old, bench.onto)
    added = added_to(repo, made, old)
    if added:
        keep = f"porttool refresh {shlex.quote(plan.name)} --keep"
        same = made.onto == bench.onto
        raise left_behind(repo, plan, made, added, bench.onto, keep=keep if same else "")


def _again(plan: Plan, made: Made | None, report: Report) -> str:
    if made is not None and made.onto == report.onto:
        return f"porttool refresh {shlex.quote(plan.name)}"
    port, onto = shlex.quote(plan.name), shlex.quote(report.onto)
    return f"porttool apply {port} --onto {onto} --replace"


def _other_inputs(kept: Report | None, report: Report) -> str:
    if kept is None:
        return "another version of porttool stored its report, which this one cannot read"
    if kept.onto != report.onto:
        return f"it was made on {kept.onto}, this would be on {report.onto}"
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
