"""Unmerged branches and where they left onto, read from the graph of commits in a few processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from porttool.frozen import dataclass
from porttool.git.commits import CommitId
from porttool.git.repo import Branch, Repository
from porttool.radar.values import LeftOut

PORT_BRANCHES = "port/"

Graph = Mapping[CommitId, tuple[CommitId, ...]]


@dataclass(frozen=True)
class Unmerged:
    """A tip under one or several names, with its commits that onto lacks, oldest first.

    `num_merges` of them are merges; those are not among `commits`.
    """

    branch: Branch
    also: tuple[str, ...]
    commits: tuple[CommitId, ...]
    num_merges: int


@dataclass(frozen=True)
class Line:
    """Onto's first-parent history since the oldest branch left it, oldest first.

    `entered` says at which place of it a commit of onto came in, `above` which place is the last
    that the commit builds on; both leave out what is older than the line.
    """

    commits: tuple[CommitId, ...]
    entered: Mapping[CommitId, int]
    above: Mapping[CommitId, int]

    def left(self, commit: CommitId) -> int:
        """Return the last place that a commit of onto has; -1 where the whole line is newer."""
        return self.above.get(commit, -1)


@dataclass(frozen=True)
class History:
    """The branches, where each of their commits left onto, and what onto has gained since."""

    unmerged: tuple[Unmerged, ...]
    left_out: tuple[LeftOut, ...]
    parents: Graph
    forks: Mapping[CommitId, CommitId]
    gained: tuple[CommitId, ...]
    line: Line


def read_history(repo: Repository, onto: str, onto_id: CommitId) -> History:
    """Read what of all branches onto lacks; onto's own name and review branches are left out."""
    kept, left_out = _chosen(repo.branches(not_merged_into=onto_id), onto)
    tips = [branches[0].tip for branches in kept]
    parents = _graph(repo, [*tips, f"^{onto_id}"]) if tips else {}
    gained: Graph = {}
    if tips:
        done = repo.git.run("merge-base", "--octopus", onto_id, *tips, ok=(0, 1))
        oldest = done.out.decode().split()
        gained = _graph(repo, [onto_id, *(f"^{id}" for id in oldest)])
    line = _line(onto_id, gained)
    forks = _forks(parents, line)
    order = {id: at for at, id in enumerate(reversed([*parents]))}
    unmerged = []
    for branches in kept:
        branch, *others = branches
        found = sorted(_reached(branch.tip, parents), key=order.__getitem__)
        if branch.tip not in forks:
            why = f"its history and {onto}'s have nothing in common"
            left_out.append(LeftOut(branch.name, why))
            continue
        commits = tuple(id for id in found if len(parents[id]) == 1 and id in forks)
        names = tuple(other.name for other in others)
        num_merges = sum(len(parents[id]) > 1 for id in found)
        unmerged.append(Unmerged(branch, names, commits, num_merges))
    return History(
        tuple(unmerged), tuple(left_out), parents, forks, tuple(reversed([*gained])), line
    )


def _chosen(branches: Iterable[Branch], onto: str) -> tuple[list[list[Branch]], list[LeftOut]]:
    """Return branches by tip, local names first, and those that are left out with the reason."""
    by_tip: dict[CommitId, list[Branch]] = {}
    left_out = []
    own = onto.removeprefix("refs/heads/").removeprefix("refs/remotes/")
    for branch in branches:
        remote = branch.ref.startswith("refs/remotes/")
        name = branch.name.partition("/")[2] if remote else branch.name
        if own in (name, branch.name):
            left_out.append(LeftOut(branch.name, f"it is {onto} itself, as seen elsewhere"))
        elif name.startswith(PORT_BRANCHES):
            left_out.append(LeftOut(branch.name, "a review branch: porttool status is about those"))
        else:
            by_tip.setdefault(branch.tip, []).append(branch)
    for same in by_tip.values():
        same.sort(key=lambda branch: (branch.ref.startswith("refs/remotes/"), branch.name))
    return list(by_tip.values()), left_out


def _graph(repo: Repository, revisions: Sequence[str]) -> dict[CommitId, tuple[CommitId, ...]]:
    """Return commits and their parents, every commit before its parents."""
    listing = repo.git.run(
        *("rev-list", "--topo-order", "--parents", "--stdin"),
        input="".join(f"{revision}\n" for revision in revisions).encode(),
    ).out.decode()
    found = {}
    for line in listing.splitlines():
        id, *parents = map(CommitId, line.split())
        found[id] = tuple(parents)
    return found


def _line(onto: CommitId, gained: Graph) -> Line:
    newest_first = []
    here: CommitId | None = onto
    while here is not None and here in gained:
        newest_first.append(here)
        here = gained[here][0] if gained[here] else None
    commits = tuple(reversed(newest_first))
    entered: dict[CommitId, int] = {}
    for place, id in enumerate(commits):
        waiting = [id]
        while waiting:
            new = waiting.pop()
            if new in gained and new not in entered:
                entered[new] = place
                waiting += gained[new]
    places = {id: place for place, id in enumerate(commits)}
    above: dict[CommitId, int] = {}
    for id in reversed([*gained]):
        before = max((above.get(parent, -1) for parent in gained[id]), default=-1)
        above[id] = places.get(id, before)
    return Line(commits, entered, above)


def _forks(parents: Graph, line: Line) -> dict[CommitId, CommitId]:
    """Return the commit of onto that each unmerged commit builds on; the latest of several."""
    forks: dict[CommitId, CommitId] = {}
    for id in reversed([*parents]):
        of_onto = [parent for parent in parents[id] if parent not in parents]
        found = [*of_onto, *(forks[parent] for parent in parents[id] if parent in forks)]
        if found:
            forks[id] = max(found, key=lambda fork: line.entered.get(fork, -1))
    return forks


def _reached(tip: CommitId, parents: Graph) -> set[CommitId]:
    """Return what a tip has of the unmerged commits."""
    seen: set[CommitId] = set()
    waiting = [tip]
    while waiting:
        id = waiting.pop()
        if id in parents and id not in seen:
            seen.add(id)
            waiting += parents[id]
    return seen
