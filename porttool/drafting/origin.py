"""What is to be ported, as a person named it: commits, the branch they are on, and where to."""

from __future__ import annotations

import re
import shlex

from porttool.errors import RepositoryError
from porttool.frozen import dataclass
from porttool.git.commits import CommitFacts, CommitId
from porttool.git.repo import Branch, Repository

MAX_COMMITS = 50
_USUAL = ("main", "master", "trunk", "develop")


@dataclass(frozen=True)
class Origin:
    """The commits of an experiment, oldest first, and the branches that have them.

    `branch` is the first of `branches`, without the remote's name. `unpushed` says that there is a
    remote and that no branch of one has them.
    """

    commits: tuple[CommitFacts, ...]
    branch: str
    branches: tuple[str, ...]
    onto: str
    onto_id: CommitId
    unpushed: bool


def find_origin(repo: Repository, revision: str, onto: str | None) -> Origin:
    """Return what a revision means: one commit, or of a branch all that onto lacks.

    Raises RepositoryError where there is nothing to port, or nothing that a plan could name.
    """
    tip = repo.resolve(revision)
    onto = onto or _usual_onto(repo, revision)
    onto_id = repo.resolve(onto)
    if repo.is_ancestor(tip, onto_id):
        raise RepositoryError(
            f"{onto} has {tip[:12]} already",
            where=repo.commit(tip).subject,
            why="what is on the branch needs no port",
            next="name a commit that is not on it: "
            f"git log --oneline --all --not {shlex.quote(onto)}",
        )
    having = [one for one in _having(repo, tip) if _short(one) != onto]
    if not having:
        raise RepositoryError(
            f"no branch has the commit {tip[:12]}",
            where=repo.commit(tip).subject,
            why="a port names the branch that its commits can be fetched from",
            next=f"git branch experiments/NAME {tip[:12]}",
        )
    named = [one for one in having if revision in (one.name, _short(one))]
    # The branch that ends in the commit is the likeliest one, and a local one goes first.
    having.sort(key=lambda one: (one not in named, one.tip != tip, one.ref, one.name))
    commits = _listed(repo, tip, onto_id, onto) if named else (repo.commit(tip),)
    remote = any(one.ref.startswith("refs/remotes/") for one in having)
    return Origin(
        commits,
        _short(having[0]),
        tuple(dict.fromkeys(map(_short, having))),
        onto,
        onto_id,
        unpushed=bool(repo.remotes()) and not remote,
    )


def port_name(branch: str) -> str:
    """Return a port's name for a branch: its last part, in the letters that a name may have."""
    last = branch.rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", last).strip("-.") or "experiment"


def bundle_of(repo: Repository, origin: Origin) -> bytes:
    """Return a bundle of the branch, built on what onto has as well."""
    tip = origin.commits[-1].id
    base = repo.merge_base(tip, origin.onto_id)
    without = [f"^{base}"] if base else []
    ref = f"refs/heads/{origin.branch}"
    return repo.git.run("bundle", "create", "--quiet", "-", ref, *without).out


def _usual_onto(repo: Repository, revision: str) -> str:
    """Return the branch that ports go to where nobody says: the remote's own, or a usual name."""
    for remote in repo.remotes():
        asked = repo.git.run(
            "symbolic-ref", "--quiet", f"refs/remotes/{remote}/HEAD", ok=(0, 1, 128)
        )
        ref = asked.out.decode("utf-8", "surrogateescape").strip()
        if asked.status == 0 and repo.find(ref) is not None:
            return ref.removeprefix(f"refs/remotes/{remote}/")
    for name in _USUAL:
        if name != revision and repo.find(name) is not None:
            return name
    raise RepositoryError(
        "which branch to port onto cannot be told",
        where=str(repo.root or repo.git_dir),
        why=f"there is no branch {', '.join(_USUAL)}, and no remote says which one is its own",
        next=f"porttool init {shlex.quote(revision)} --onto BRANCH",
    )


def _having(repo: Repository, tip: CommitId) -> list[Branch]:
    listing = repo.git.run(
        "for-each-ref", f"--contains={tip}", "--format=%(refname)", "refs/heads", "refs/remotes"
    )
    refs = set(listing.out.decode("utf-8", "surrogateescape").splitlines())
    return [branch for branch in repo.branches() if branch.ref in refs]


def _short(branch: Branch) -> str:
    """Return a branch's name without that of its remote."""
    return branch.name.split("/", 1)[1] if branch.ref.startswith("refs/remotes/") else branch.name


def _listed(
    repo: Repository, tip: CommitId, onto_id: CommitId, onto: str
) -> tuple[CommitFacts, ...]:
    listing = repo.git.run("rev-list", "--reverse", "--topo-order", tip, f"^{onto_id}", "--")
    ids = listing.out.decode().split()
    if len(ids) > MAX_COMMITS:
        raise RepositoryError(
            f"the branch has {len(ids)} commits that {onto} has not",
            where=repo.commit(tip).subject,
            why=f"a port is an experiment, of at most {MAX_COMMITS} commits here",
            next="name the one commit that makes the experiment: porttool init COMMIT",
        )
    return tuple(repo.commit(CommitId(id)) for id in ids)
