"""Which commits onto has already: by what its own commits say, or by an equal patch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from porttool.git.commits import PORTED_FROM, CommitFacts, CommitId, trailers
from porttool.git.objects import Objects
from porttool.git.repo import Repository

_PICKED = re.compile(rb"^\(cherry picked from commit ([0-9a-f]{40,64})\)$", re.MULTILINE)


def brought_over(
    repo: Repository,
    objects: Objects,
    wanted: Iterable[CommitId],
    gained: Iterable[CommitId],
) -> dict[CommitId, str]:
    """Return the commits that onto has, each with the commit that brought it in words.

    `gained` are onto's commits since the branches left it, oldest first. What was reverted again
    does not count.
    """
    unmerged = set(wanted)
    onto = list(_standing(repo, objects, gained))
    found: dict[CommitId, str] = {}
    for commit in onto:
        ported = [id for key, id in trailers(commit.message) if key == PORTED_FROM]
        picked = [match.decode() for match in _PICKED.findall(commit.message)]
        for ids, how in ((ported, "ported by"), (picked, "picked by")):
            for id in unmerged.intersection(map(CommitId, ids)):
                found.setdefault(id, f"{how} {_named(commit)}")
    rest = [objects.commit(id) for id in sorted(unmerged - found.keys())]
    for id, same in _same_patches(objects, rest, onto).items():
        found[id] = f"the same patch as {_named(same)}"
    return found


def touched(objects: Objects, commit: CommitFacts) -> frozenset[str]:
    """Return the paths that a commit changed against its first parent."""
    if not commit.parents:
        return frozenset(objects.paths(commit.tree))
    before = objects.commit(commit.parents[0]).tree
    return frozenset(change.path for change in objects.changed(before, commit.tree))


def _standing(
    repo: Repository, objects: Objects, gained: Iterable[CommitId]
) -> Iterable[CommitFacts]:
    undone: set[CommitId] = set()
    standing = []
    for id in reversed([*gained]):
        commit = objects.commit(id)
        if id not in undone:
            undone |= repo.reverted_by(commit)
            standing.append(commit)
    return reversed(standing)


def _same_patches(
    objects: Objects, wanted: Iterable[CommitFacts], onto: Iterable[CommitFacts]
) -> Mapping[CommitId, CommitFacts]:
    """Return the first commit of onto with the same patch id; whole patches are the last resort."""
    by_paths: dict[frozenset[str], list[CommitFacts]] = {}
    for commit in onto:
        if len(commit.parents) == 1:
            by_paths.setdefault(touched(objects, commit), []).append(commit)
    pairs = {commit.id: by_paths.get(touched(objects, commit), []) for commit in wanted}
    pairs = {id: there for id, there in pairs.items() if there}
    asked = [*pairs, *(commit.id for there in pairs.values() for commit in there)]
    ids = _patch_ids(objects, dict.fromkeys(asked))
    found = {}
    for id, there in pairs.items():
        same = [c for c in there if id in ids and ids[id] == ids.get(c.id)]
        if same:
            found[id] = same[0]
    return found


def _patch_ids(objects: Objects, commits: Iterable[CommitId]) -> dict[CommitId, str]:
    """Return the patch id of each commit that changes anything."""
    lines = "".join(f"{id}\n" for id in commits).encode()
    if not lines:
        return {}
    # Whole ids of files: they are all that tells one binary file from another.
    patches = objects.git.run(
        *("diff-tree", "--stdin", "-r", "-p", "--full-index", "--no-ext-diff", "--no-textconv"),
        *("--no-renames", "--src-prefix=a/", "--dst-prefix=b/"),
        input=lines,
    ).out
    listing = objects.git.run("patch-id", "--stable", input=patches).out.decode()
    pairs = (line.split() for line in listing.splitlines())
    return {CommitId(commit): patch for patch, commit in pairs}


def _named(commit: CommitFacts) -> str:
    return f"{commit.id[:12]} {commit.subject}"
