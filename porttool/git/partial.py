"""What a partial clone left out: fetched at once and by name, into the quarantine.

Left to itself git fetches each object at the moment that it misses it, with a connection for each
and not a word about it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable

from porttool.errors import RepositoryError
from porttool.git.commits import CommitId, TreeId
from porttool.git.quarantine import Quarantine
from porttool.git.repo import Repository


def fetch_left_out(
    repo: Repository,
    quarantine: Quarantine,
    treeishes: Iterable[CommitId | TreeId],
    say: Callable[[str], None],
) -> None:
    """Fetch the files of these trees that are not here, saying so; whole clones miss none.

    Raises RepositoryError where no remote has them. The user's repository stays as it is.
    """
    if not quarantine.promisors:
        return
    trees = [quarantine.tree_of(treeish) for treeish in treeishes]
    missing = _missing(quarantine, trees)
    while missing:
        remotes = ", ".join(quarantine.promisors)
        say(f"fetching {len(missing)} objects that this partial clone left out, from {remotes}")
        failures = [_fetch(quarantine, remote, missing) for remote in quarantine.promisors]
        still = _missing(quarantine, trees)
        if set(missing) <= set(still):
            raise RepositoryError(
                f"this clone is partial, and {len(still)} objects are not to be had from {remotes}",
                where=str(repo.root or repo.git_dir),
                why="; ".join(failure for failure in failures if failure)
                or "the remote lacks them",
                next=f"git -C {shlex.quote(str(repo.root or repo.git_dir))} fetch --refetch "
                f"--no-filter {shlex.quote(quarantine.promisors[0])}",
            )
        missing = still


def _missing(quarantine: Quarantine, trees: Iterable[TreeId]) -> list[str]:
    listing = quarantine.git.run(
        "rev-list", "--objects", "--missing=print", "--no-object-names", *trees, "--"
    ).out.decode()
    return [line[1:] for line in listing.split("\n") if line.startswith("?")]


def _fetch(quarantine: Quarantine, remote: str, ids: Iterable[str]) -> str:
    """Fetch objects as git itself does when it misses one; return what went wrong."""
    done = quarantine.git.run(
        *("-c", "fetch.negotiationAlgorithm=noop", "fetch", "--quiet", "--no-tags"),
        *("--no-write-fetch-head", "--recurse-submodules=no", "--filter=blob:none", "--stdin"),
        *("--", remote),
        input="".join(f"{id}\n" for id in ids).encode(),
        ok=range(256),
    )
    return done.words if done.status else ""
