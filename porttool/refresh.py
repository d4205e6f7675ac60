"""Make a review branch again on today's onto, and keep what people have put on top of it.

The branch moves by compare-and-swap, together with its report, or not at all; where nothing would
be different, nothing is written.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from porttool.account import tool_version
from porttool.apply import apply
from porttool.errors import EXIT_DONE, NeedsPerson, PortError, RepositoryError
from porttool.git.commits import CommitFacts, CommitId, TreeId
from porttool.git.merge import merge_trees
from porttool.git.publish import RefMoved, RefUpdate, publish_with_note
from porttool.git.quarantine import Quarantine
from porttool.git.repo import Repository
from porttool.ownership import (
    Made,
    added_to,
    find_made,
    left_behind,
    merges,
    nobody_knows,
    picking,
)
from porttool.plan.plan import (
    PLAN_NAME,
    PORTS_FOLDER,
    Plan,
    check_inside,
    load_plan,
    no_working_tree,
)
from porttool.record import load_report, readable_report
from porttool.report import Commit, Report, counted, to_json
from porttool.series import Applied, Moved
from porttool.standing import elsewhere_command
from porttool.workbench import Workbench

Progress = Callable[[str], None]


def refresh(
    repo: Repository,
    plan: Plan,
    *,
    keep: bool = False,
    dry_run: bool = False,
    despite_precondition: bool = False,
    progress: Progress,
) -> Applied:
    """Make the port's branch again on the branch that it was made on, as that is now.

    Commits that somebody has put on top stop it, unless they are to be kept: then each is picked
    onto the new branch, in memory. Raises RepositoryError where there is no branch, or no report
    tells which of its commits are porttool's; NeedsPerson where a commit cannot be picked; and all
    that `apply` raises. Then nothing has changed.
    """
    old, made = _branch(repo, plan)
    report = readable_report(made, plan.name)
    onto = made.onto if repo.find(made.onto) is not None else plan.onto
    onto_id = repo.resolve(onto)
    if report is not None:
        merged = repo.find_ported(onto_id, CommitId(plan.experiment.commits[-1]), plan.name)
        if merged is not None:
            message = f"{plan.name} is already ported: {onto} has it since {merged}"
            return Applied("already-ported", report, plan.review_branch, EXIT_DONE, message)
        now = (onto_id, plan.digest, tool_version())
        if now == (report.onto_id, report.digest, report.version):
            why = f"{onto}, port.yaml and porttool are what it was made from"
            return _unchanged(report, plan, why)
    added = added_to(repo, made, old)
    if merges(added) or (added and not keep):
        again = f"porttool refresh {shlex.quote(plan.name)} --keep"
        raise left_behind(repo, plan, made, added, onto, keep=again)
    move = partial(_move, before=report, made=made, old=old, added=added, dry_run=dry_run)
    applied = apply(
        repo,
        plan,
        onto=onto,
        despite_precondition=despite_precondition,
        finish=move,
        progress=progress,
    )
    if applied.outcome in ("moved", "unchanged", "dry-run"):
        told = _other_onto(plan, made, report)
        return replace(applied, message=f"{applied.message}\n{told}") if told else applied
    stays = f"{plan.review_branch} stays as it was"
    first, _, rest = applied.message.partition("\n")
    if "no branch was made" in first:
        first = first.replace("no branch was made", stays)
        return replace(applied, message="\n".join(filter(None, (first, rest))))
    return replace(applied, message=f"{applied.message}\n{stays}")


def _other_onto(plan: Plan, made: Made, report: Report | None) -> str:
    """Return what to say where port.yaml has changed, and names another branch to port onto."""
    changed = report is None or report.digest != plan.digest
    if not changed or plan.onto == made.onto or made.onto.endswith(f"/{plan.onto}"):
        return ""
    command = elsewhere_command(plan.name, plan.review_branch, plan.onto)
    return f"it is on {made.onto} as before; onto {plan.onto}, as port.yaml has it: {command}"


def plans_with_branches(repo: Repository) -> list[Plan]:
    """Return the plans under `patches/` that can be read and have a branch here, by name.

    Raises PlanError where there is no working tree to read them from.
    """
    if repo.root is None:
        raise no_working_tree(repo.git_dir)
    root = repo.root
    found = []
    for path in sorted((root / PORTS_FOLDER).glob(f"*/{PLAN_NAME}")):
        check_inside(root, path)
        try:
            plan = load_plan(path)
        except PortError:
            continue  # `status` says what is wrong with it
        if repo.ref(f"refs/heads/{plan.review_branch}") is not None:
            found.append(plan)
    return found


def refusal(plan: Plan, error: PortError) -> dict[str, Any]:
    """Return a refusal of one port among several in the form of an answer."""
    return {
        "port": plan.name,
        "outcome": "refused",
        "branch": plan.review_branch,
        "exit_code": error.exit_code,
        "message": str(error),
        "moved": None,
        "error": error.as_dict(),
    }


def _branch(repo: Repository, plan: Plan) -> tuple[CommitId, Made]:
    """Return the branch's tip, and what of it porttool has made."""
    old = repo.ref(f"refs/heads/{plan.review_branch}")
    if old is None:
        report = load_report(repo, plan)
        raise RepositoryError(
            f"the branch {plan.review_branch} is not a branch of this repository",
            where=report.tip,
            why="a remote has it, and only a branch that is here can be moved",
            next=f"git branch {shlex.quote(plan.review_branch)} {report.tip}, "
            "then the same command again",
        )
    made = find_made(repo, old, plan.name)
    if made is None:
        raise nobody_knows(repo, plan, old, plan.onto)
    return old, made


def _move(
    bench: Workbench,
    report: Report,
    *,
    before: Report | None,
    made: Made,
    old: CommitId,
    added: Sequence[CommitFacts],
    dry_run: bool,
) -> Applied:
    quarantine, plan = bench.quarantine, bench.plan
    if before is not None and _same(quarantine, before, made.tip, report):
        return _unchanged(before, plan, "it is what this port gives now, commit for commit")
    own = CommitId(report.tip)
    tip, kept, dropped = _replayed(bench, own, added, made)
    change = Moved(
        old=old,
        new=tip,
        kept=kept,
        dropped=dropped,
        range_diff=_range_diff(quarantine, (made.onto_id, old), (bench.onto_id, tip)),
    )
    facts = [f"from {old[:12]} to {tip[:12]}, on {report.onto} {bench.onto_id[:12]}"]
    facts += [f"{counted(len(kept), 'commit')} kept on top"] if kept else []
    facts += [f"{one.id[:12]} dropped, for it has all of `{one.subject}`" for one in dropped]
    if dry_run:
        message = f"would move {plan.review_branch} {', '.join(facts)}; no ref was written"
        return Applied("dry-run", report, plan.review_branch, EXIT_DONE, message, change)
    ref = f"refs/heads/{plan.review_branch}"
    try:
        publish_with_note(
            bench.repo,
            quarantine,
            [RefUpdate(ref, old, tip)],
            commit=own,
            text=to_json(report).encode(),
            by=quarantine.commit(own).committed,
            reason=f"porttool: {plan.name} again, onto {report.onto}",
        )
    except RefMoved as moved:
        if (moved.ref, moved.seen) != (ref, tip):
            raise
        return _unchanged(report, plan, "another run of porttool has made the same meanwhile")
    message = f"moved {plan.review_branch} {', '.join(facts)}\nnext: porttool verify {plan.name}"
    return Applied("moved", report, plan.review_branch, EXIT_DONE, message, change)


def _same(quarantine: Quarantine, before: Report, own: CommitId, report: Report) -> bool:
    """Tell whether a branch made from the same plan on the same commit has the same trees.

    Another user's name alone is no reason to move it.
    """
    if (before.onto_id, before.digest) != (report.onto_id, report.digest):
        return False
    now = _trees(quarantine, CommitId(report.tip), CommitId(report.onto_id))
    return now == _trees(quarantine, own, CommitId(report.onto_id))


def _trees(quarantine: Quarantine, tip: CommitId, onto: CommitId) -> list[TreeId]:
    trees, commit = [], quarantine.commit(tip)
    while commit.id != onto and commit.parents:
        trees.append(commit.tree)
        commit = quarantine.commit(commit.parents[0])
    return trees


def _replayed(
    bench: Workbench, onto: CommitId, added: Sequence[CommitFacts], made: Made
) -> tuple[CommitId, tuple[Commit, ...], tuple[Commit, ...]]:
    """Pick commits onto a tip, and return the new one, what was picked, and what was empty.

    Author, date and message stay; the committer is the user, no earlier than what is below.
    """
    quarantine, tip = bench.quarantine, onto
    kept, dropped = [], []
    identity = bench.repo.identity() if added else None
    for commit in added:
        below = quarantine.commit(tip)
        base = quarantine.commit(commit.parents[0]).tree
        merged = merge_trees(quarantine, base=base, ours=below.tree, theirs=commit.tree)
        if not merged.clean:
            paths = dict.fromkeys(path for clash in merged.conflicts for path in clash.paths)
            raise NeedsPerson(
                f"{commit.id[:12]} {commit.subject} cannot be kept: it conflicts with the branch "
                "as it is made now; nothing was changed",
                where=", ".join(paths),
                why="; ".join(dict.fromkeys(clash.kind for clash in merged.conflicts)),
                next=picking(bench.repo, bench.plan, made, bench.onto),
            )
        if merged.tree == below.tree:
            dropped.append(Commit(commit.id, commit.subject))
            continue
        assert identity is not None
        moment = max(below.committed.seconds, commit.committed.seconds)
        tip = quarantine.write_commit(
            merged.tree,
            [tip],
            author=commit.author,
            committer=identity.at(moment).raw(),
            message=commit.message,
            encoding=commit.encoding,
        )
        kept.append(Commit(tip, commit.subject))
    return tip, tuple(kept), tuple(dropped)


def _range_diff(
    quarantine: Quarantine,
    before: tuple[CommitId, CommitId],
    now: tuple[CommitId, CommitId],
) -> str:
    """Return git's comparison of two series, each from a commit to a tip."""
    done = quarantine.git.run(
        *("range-diff", "--no-color", "--no-notes", "--no-ext-diff", "--no-textconv"),
        *(f"{base}..{tip}" for base, tip in (before, now)),
    )
    return done.out.decode("utf-8", "replace").rstrip("\n")


def _unchanged(report: Report, plan: Plan, why: str) -> Applied:
    message = f"{plan.review_branch} stays as it is: {why}"
    return Applied("unchanged", report, plan.review_branch, EXIT_DONE, message)
