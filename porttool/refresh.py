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
from porttool.git.publish import RefUpdate, publish_with_note
from porttool.git.quarantine import Quarantine
from porttool.git.repo import Repository
from porttool.plan.plan import PLAN_NAME, PORTS_FOLDER, Plan, check_inside, load_plan
from porttool.record import load_report, reported_tip
from porttool.report import Commit, Report, counted, to_json
from porttool.series import Applied, Moved
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
    report = load_report(repo, plan)
    ref = f"refs/heads/{plan.review_branch}"
    old = repo.ref(ref)
    own = None if old is None else reported_tip(repo, old)
    if old is None or own is None:
        raise RepositoryError(
            f"the branch {plan.review_branch} is not a branch of this repository",
            where=report.tip,
            why="a remote has it, and only a branch that is here can be moved",
            next=f"git branch {shlex.quote(plan.review_branch)} {report.tip}, "
            "then the same command again",
        )
    onto = report.onto if repo.find(report.onto) is not None else plan.onto
    onto_id = repo.resolve(onto)
    merged = repo.find_ported(onto_id, CommitId(plan.experiment.commits[-1]), plan.name)
    if merged is not None:
        message = f"{plan.name} is already ported: {onto} has it since {merged}"
        return Applied("already-ported", report, plan.review_branch, EXIT_DONE, message)
    if (onto_id, plan.digest, tool_version()) == (report.onto_id, report.digest, report.version):
        return _unchanged(report, plan, f"{onto}, port.yaml and porttool are what it was made from")
    added = _added(repo, plan, own, old)
    if added and not keep:
        raise RepositoryError(
            f"{plan.review_branch} holds {counted(len(added), 'commit')} that porttool did not "
            "make; nothing was changed",
            where="; ".join(f"{commit.id[:12]} {commit.subject}" for commit in added),
            why="making the branch again would leave them behind",
            next=f"porttool refresh {shlex.quote(plan.name)} --keep",
        )
    move = partial(_move, before=report, old=old, own=own, added=added, dry_run=dry_run)
    applied = apply(
        repo,
        plan,
        onto=onto,
        despite_precondition=despite_precondition,
        finish=move,
        progress=progress,
    )
    if applied.outcome in ("moved", "unchanged", "dry-run"):
        return applied
    return replace(applied, message=f"{applied.message}\n{plan.review_branch} stays as it was")


def plans_with_branches(repo: Repository) -> list[Plan]:
    """Return the plans under `patches/` that can be read and have a branch here, by name."""
    root = repo.root or repo.git_dir
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


def _added(repo: Repository, plan: Plan, own: CommitId, tip: CommitId) -> tuple[CommitFacts, ...]:
    """Return the commits that were put on top of porttool's, oldest first.

    Raises RepositoryError where one of them is a merge: what it took in cannot be picked.
    """
    listing = repo.git.run("rev-list", "--reverse", "--topo-order", f"{own}..{tip}", "--").out
    commits = tuple(repo.commit(CommitId(id)) for id in listing.decode().split())
    merges = [commit for commit in commits if len(commit.parents) != 1]
    if merges:
        spare = f"{plan.review_branch}-mine"
        raise RepositoryError(
            f"{plan.review_branch} holds a merge, which cannot be kept; nothing was changed",
            where=f"{merges[0].id[:12]} {merges[0].subject}",
            why="only commits with one parent can be picked onto the new branch",
            next=f"git branch -m {shlex.quote(plan.review_branch)} {shlex.quote(spare)} && "
            f"porttool apply {shlex.quote(plan.name)} --onto {shlex.quote(plan.onto)}, and pick "
            "your own commits onto it",
        )
    return commits


def _move(
    bench: Workbench,
    report: Report,
    *,
    before: Report,
    old: CommitId,
    own: CommitId,
    added: Sequence[CommitFacts],
    dry_run: bool,
) -> Applied:
    quarantine, plan = bench.quarantine, bench.plan
    made = CommitId(report.tip)
    if _same(quarantine, before, own, report):
        return _unchanged(before, plan, "it is what this port gives now, commit for commit")
    tip, kept, dropped = _replayed(bench, made, added)
    moved = Moved(
        old=old,
        new=tip,
        kept=kept,
        dropped=dropped,
        range_diff=_range_diff(quarantine, (CommitId(before.onto_id), old), (bench.onto_id, tip)),
    )
    facts = [f"from {old[:12]} to {tip[:12]}, on {report.onto} {bench.onto_id[:12]}"]
    facts += [f"{counted(len(kept), 'commit')} kept on top"] if kept else []
    facts += [f"{len(dropped)} dropped, for the branch has everything of them"] if dropped else []
    if dry_run:
        message = f"would move {plan.review_branch} {', '.join(facts)}; no ref was written"
        return Applied("dry-run", report, plan.review_branch, EXIT_DONE, message, moved)
    publish_with_note(
        bench.repo,
        quarantine,
        [RefUpdate(f"refs/heads/{plan.review_branch}", old, tip)],
        commit=made,
        text=to_json(report).encode(),
        by=quarantine.commit(made).committed,
        reason=f"porttool: {plan.name} again, onto {report.onto}",
    )
    message = f"moved {plan.review_branch} {', '.join(facts)}\nnext: porttool verify {plan.name}"
    return Applied("moved", report, plan.review_branch, EXIT_DONE, message, moved)


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
    bench: Workbench, made: CommitId, added: Sequence[CommitFacts]
) -> tuple[CommitId, tuple[Commit, ...], tuple[Commit, ...]]:
    """Pick commits onto a tip, and return the new one, what was picked, and what was empty.

    Author, date and message stay; the committer is the user, no earlier than what is below.
    """
    quarantine, tip = bench.quarantine, made
    kept, dropped = [], []
    identity = bench.repo.identity() if added else None
    for commit in added:
        below = quarantine.commit(tip)
        base = quarantine.commit(commit.parents[0]).tree
        merged = merge_trees(quarantine, base=base, ours=below.tree, theirs=commit.tree)
        if not merged.clean:
            paths = dict.fromkeys(path for clash in merged.conflicts for path in clash.paths)
            branch = bench.plan.review_branch
            raise NeedsPerson(
                f"{commit.id[:12]} {commit.subject} cannot be kept: it conflicts with the branch "
                "as it is made now; nothing was changed",
                where=", ".join(paths),
                why="; ".join(dict.fromkeys(clash.kind for clash in merged.conflicts)),
                next=f"git branch -m {shlex.quote(branch)} {shlex.quote(branch)}-mine && "
                f"porttool apply {shlex.quote(bench.plan.name)} --onto {shlex.quote(bench.onto)}, "
                f"and pick it there: git cherry-pick {commit.id[:12]}",
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
