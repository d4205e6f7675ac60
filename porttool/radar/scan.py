"""Every commit of every unmerged branch picked onto onto's tip, in memory, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime

from porttool.errors import PortError, RepositoryError
from porttool.frozen import dataclass
from porttool.git.commits import CommitFacts, CommitId, TreeId
from porttool.git.partial import fetch_left_out
from porttool.git.picks import Pick, Picked, pick_many
from porttool.git.quarantine import Quarantine
from porttool.git.repo import Repository
from porttool.plan.plan import PLAN_NAME, PORTS_FOLDER, Plan, check_inside, load_plan
from porttool.radar.already import brought_over, touched
from porttool.radar.history import History, Unmerged, read_history
from porttool.radar.onset import Search, find_onsets
from porttool.radar.values import (
    STATES,
    BranchState,
    Clash,
    CommitState,
    Named,
    Radar,
    State,
)
from porttool.radar.wraps import why_rules
from porttool.report import counted
from porttool.wrappers import TABLE, Wrapper

Progress = Callable[[str], None]


@dataclass(frozen=True)
class _Try:
    """How a commit was picked onto the tip, and what that gave.

    `base` is its parent, or the commit of onto that its branch left, where it cannot be picked
    without the commits before it.
    """

    commit: CommitFacts
    base: CommitId
    picked: Picked


def default_onto(repo: Repository) -> str:
    """Return `main`, else `master`; raises RepositoryError where neither is a branch."""
    for name in ("main", "master"):
        if repo.find(name) is not None:
            return name
    raise RepositoryError(
        "there is no branch main or master to look from",
        where=str(repo.root or repo.git_dir),
        next="porttool radar --onto BRANCH",
    )


def scan(repo: Repository, onto: str, progress: Progress) -> Radar:
    """Return the state of every unmerged branch on onto.

    Nothing is written to the repository, nothing is checked out, and none of its code is run.
    """
    onto_id = repo.resolve(onto)
    progress("reading branches")
    history = read_history(repo, onto, onto_id)
    ids = dict.fromkeys(id for branch in history.unmerged for id in branch.commits)
    plans = _plans(repo)
    reviewed = {f"refs/heads/{plan.review_branch}" for plan in plans.values()}
    made = repo.refs(reviewed) if reviewed else {}
    with Quarantine(repo) as quarantine:
        commits = quarantine.commits(ids)
        tree = quarantine.tree_of(onto_id)
        ends = [end for commit in commits.values() for end in (commit.id, *commit.parents)]
        fetch_left_out(repo, quarantine, [onto_id, *ends], progress)
        quarantine.use_attributes(tree)
        _read_ahead(quarantine, [*commits.values(), *quarantine.commits(history.gained).values()])
        progress(f"looking for {counted(len(ids), 'commit')} among those of {onto}")
        brought = brought_over(repo, quarantine, ids, history.gained)
        asked = [commit for commit in commits.values() if commit.id not in brought]
        progress(f"picking {counted(len(asked), 'commit')} onto {onto}")
        tries = _pick(quarantine, history, asked, tree)
        line = [quarantine.commit(id) for id in history.line.commits]
        onsets = _onsets(quarantine, history, tries, line, progress)
        wrappers = _wrappers(plans)
        states = {
            id: _state(
                quarantine,
                commit,
                brought.get(id, ""),
                tries.get(id),
                line=line,
                moment=onsets.get(id),
                tree=tree,
                wrappers=wrappers,
                port=plans.get(id),
                made=made,
            )
            for id, commit in commits.items()
        }
        branches = [_branch(quarantine, history, unmerged, states) for unmerged in history.unmerged]
    branches.sort(key=lambda b: (STATES.index(b.state), _num_conflicts(b), b.behind, b.name))
    named = tuple(Named(commit.id, commit.subject) for commit in line)
    return Radar(onto, onto_id, named, tuple(branches), history.left_out)


def _read_ahead(quarantine: Quarantine, commits: Sequence[CommitFacts]) -> None:
    """Read together what each commit changed: one by one it would be most of the waiting."""
    quarantine.commits(parent for commit in commits for parent in commit.parents)
    quarantine.read_ahead(
        (quarantine.commit(commit.parents[0]).tree, commit.tree)
        for commit in commits
        if commit.parents
    )


def _pick(
    quarantine: Quarantine, history: History, commits: Sequence[CommitFacts], tree: TreeId
) -> dict[CommitId, _Try]:
    """Pick each commit alone; one that builds on its branch's earlier ones together with them."""
    alone = pick_many(quarantine, [Pick(c.parents[0], c.id, tree) for c in commits])
    found = {
        commit.id: _Try(commit, commit.parents[0], given)
        for commit, given in zip(commits, alone, strict=True)
    }
    stopped = [
        one
        for one in found.values()
        if not one.picked.clean and one.base != history.forks[one.commit.id]
    ]
    # What does not even fit where its branch left onto needs the commits between.
    at_fork = [
        Pick(one.base, one.commit.id, quarantine.tree_of(history.forks[one.commit.id]))
        for one in stopped
    ]
    needing = [
        one.commit
        for one, given in zip(stopped, pick_many(quarantine, at_fork, told=False), strict=True)
        if not given.clean
    ]
    together = [Pick(history.forks[commit.id], commit.id, tree) for commit in needing]
    for commit, given in zip(needing, pick_many(quarantine, together), strict=True):
        found[commit.id] = _Try(commit, history.forks[commit.id], given)
    return found


def _onsets(
    quarantine: Quarantine,
    history: History,
    tries: Mapping[CommitId, _Try],
    line: Sequence[CommitFacts],
    progress: Progress,
) -> dict[CommitId, int]:
    stopped = [one for one in tries.values() if not one.picked.clean]
    changes = [touched(quarantine, commit) for commit in line] if stopped else []
    places: dict[str, list[int]] = {}
    for place, changed in enumerate(changes):
        for path in changed:
            places.setdefault(path, []).append(place)
    searches = {}
    for one in stopped:
        before = quarantine.tree_of(one.base)
        paths = {path for clash in one.picked.conflicts for path in clash.paths}
        paths |= {change.path for change in quarantine.changed(before, one.commit.tree)}
        likely = sorted({place for path in paths for place in places.get(path, ())})
        fork = history.forks[one.commit.id]
        searches[one.commit.id] = Search(
            Pick(one.base, one.commit.id, line[-1].tree),
            quarantine.tree_of(fork),
            history.line.left(fork),
            len(line) - 1,
            tuple(likely),
        )
    trees = [commit.tree for commit in line]
    return find_onsets(quarantine, searches, trees, progress)


def _state(
    quarantine: Quarantine,
    commit: CommitFacts,
    brought: str,
    tried: _Try | None,
    *,
    line: Sequence[CommitFacts],
    moment: int | None,
    tree: TreeId,
    wrappers: Sequence[Wrapper],
    port: Plan | None,
    made: Mapping[str, str],
) -> CommitState:
    state: State = "ports clean"
    reasons: tuple[str, ...] = ()
    clashes: tuple[Clash, ...] = ()
    with_earlier = 0
    if tried is None:
        state, reasons = "already there", (brought,)
    elif tried.picked.clean and not tried.picked.changes:
        state, reasons = "already there", ("picking it changes nothing",)
    else:
        paths = touched(quarantine, commit)
        reasons = why_rules(quarantine, commit, tree, paths, wrappers)
        state = "needs rules" if reasons else state
        with_earlier = _num_between(quarantine, tried)
        if not tried.picked.clean:
            state = "conflicts"
            clashes = tuple(Clash(c.kind, c.paths) for c in tried.picked.conflicts)
    since = None if moment is None else Named(line[moment].id, line[moment].subject)
    written = commit.written
    return CommitState(
        id=commit.id,
        subject=commit.subject,
        author=f"{written.name} <{written.email}>",
        date=_day(written.seconds),
        state=state,
        reasons=reasons,
        with_earlier=with_earlier,
        clashes=clashes,
        since=since,
        moment=moment,
        port=port.name if port else "",
        port_branch=port.review_branch
        if port and f"refs/heads/{port.review_branch}" in made
        else "",
    )


def _num_between(quarantine: Quarantine, tried: _Try) -> int:
    number, here = 0, tried.commit
    while here.parents and here.parents[0] != tried.base:
        number, here = number + 1, quarantine.commit(here.parents[0])
    return number


def _branch(
    quarantine: Quarantine,
    history: History,
    unmerged: Unmerged,
    states: Mapping[CommitId, CommitState],
) -> BranchState:
    tip = unmerged.branch.tip
    fork = history.forks[tip]
    left = history.line.left(fork)
    return BranchState(
        name=unmerged.branch.name,
        also=unmerged.also,
        tip=tip,
        date=_day(quarantine.commit(tip).committed.seconds),
        fork=fork,
        left=left,
        behind=len(history.line.commits) - 1 - left,
        num_merges=unmerged.num_merges,
        commits=tuple(states[id] for id in unmerged.commits),
    )


def _num_conflicts(branch: BranchState) -> int:
    return sum(commit.state == "conflicts" for commit in branch.commits)


def _plans(repo: Repository) -> dict[CommitId, Plan]:
    """Return the ports of the working tree by the commits of their experiments.

    A plan that cannot be read is `status`'s to tell.
    """
    root = repo.root or repo.git_dir
    found: dict[CommitId, Plan] = {}
    for path in sorted((root / PORTS_FOLDER).glob(f"*/{PLAN_NAME}")):
        try:
            check_inside(root, path)
            plan = load_plan(path)
        except PortError:
            continue
        found |= {CommitId(id): plan for id in plan.experiment.commits}
    return found


def _wrappers(plans: Mapping[CommitId, Plan]) -> tuple[Wrapper, ...]:
    """Return the wrappers of the table and of the plans, a plan's own words before the table's."""
    own = {plan.wrapper.callee: plan.wrapper.wrapper() for plan in plans.values()}
    known: Iterable[Wrapper] = [*own.values(), *TABLE]
    return tuple({wrapper.callee: wrapper for wrapper in reversed([*known])}.values())


def _day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()
