"""What the radar finds, as values: a state for each commit, and for a branch the worst of them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal

from porttool.frozen import dataclass

State = Literal["already there", "ports clean", "needs rules", "conflicts"]

# From the best to the worst; a branch is as its worst commit is.
STATES: tuple[State, ...] = ("already there", "ports clean", "needs rules", "conflicts")


@dataclass(frozen=True)
class Named:
    """A commit and its subject."""

    id: str
    subject: str


@dataclass(frozen=True)
class Clash:
    """What git cannot merge: the kind, and the paths that it is about."""

    kind: str
    paths: tuple[str, ...]


@dataclass(frozen=True)
class CommitState:
    """One commit, picked onto onto's tip in memory, and what came of it.

    `with_earlier` counts the commits of its branch that it was picked together with, because it
    builds on them. `since` is the commit of onto's first-parent history at which it began to
    conflict, `moment` that commit's place in `Radar.line`. `port` is the port that it belongs to,
    `port_branch` that port's branch where it is made already.
    """

    id: str
    subject: str
    author: str
    date: str
    state: State
    reasons: tuple[str, ...] = ()
    with_earlier: int = 0
    clashes: tuple[Clash, ...] = ()
    since: Named | None = None
    moment: int | None = None
    port: str = ""
    port_branch: str = ""


@dataclass(frozen=True)
class BranchState:
    """A branch with its commits, oldest first; merges are counted and not picked.

    `fork` is where it left onto, `behind` what onto's first-parent history has gained since, `left`
    the place of that history's last commit that the branch has, in `Radar.line`.
    """

    name: str
    also: tuple[str, ...]
    tip: str
    date: str
    fork: str
    left: int
    behind: int
    num_merges: int
    commits: tuple[CommitState, ...]

    @property
    def state(self) -> State:
        """The worst state of its commits."""
        return max((commit.state for commit in self.commits), key=STATES.index, default=STATES[0])

    @property
    def since(self) -> Named | None:
        """The first commit of onto at which one of its commits began to conflict."""
        found = [c for c in self.commits if c.moment is not None]
        return min(found, key=lambda commit: commit.moment or 0).since if found else None

    @property
    def counts(self) -> dict[State, int]:
        """How many commits are in each state, those without any left out."""
        found = {state: sum(c.state == state for c in self.commits) for state in STATES}
        return {state: number for state, number in found.items() if number}


@dataclass(frozen=True)
class LeftOut:
    """A branch that was not looked at, and why."""

    name: str
    why: str


@dataclass(frozen=True)
class Radar:
    """Every unmerged branch, the one that ports best first.

    `line` is onto's first-parent history since the oldest branch left it, oldest first.
    """

    onto: str
    onto_id: str
    line: tuple[Named, ...]
    branches: tuple[BranchState, ...]
    left_out: tuple[LeftOut, ...] = ()

    @property
    def counts(self) -> dict[State, int]:
        """How many branches are in each state."""
        return {state: sum(b.state == state for b in self.branches) for state in STATES}

    def as_dict(self) -> dict[str, Any]:
        """Return the same as JSON data, what is computed beside what is kept."""
        return {
            "onto": self.onto,
            "onto_id": self.onto_id,
            "counts": self.counts,
            "branches": [
                {
                    **asdict(branch),
                    "state": branch.state,
                    "since": None if branch.since is None else asdict(branch.since),
                    "counts": branch.counts,
                }
                for branch in self.branches
            ],
            "line": [asdict(commit) for commit in self.line],
            "left_out": [asdict(left) for left in self.left_out],
        }
