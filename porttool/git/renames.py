"""Which file of one tree is which file of another, as git's rename detection sees it."""

from __future__ import annotations

from porttool.git.commits import CommitId, TreeId
from porttool.git.objects import Objects

# Those of a merge: half of a file is the same, and no more than so many files are compared.
_SIMILAR = "50%"
_MAX_FILES = 7000


def renames(
    objects: Objects, before: CommitId | TreeId, after: CommitId | TreeId
) -> dict[str, str]:
    """Return the new path of every file that is not at its old one any more, but elsewhere."""
    if not any(change.status == "deleted" for change in objects.changed(before, after)):
        return {}
    listing = objects.git.run(
        *("diff-tree", "-r", "-z", f"-M{_SIMILAR}", f"-l{_MAX_FILES}", "--diff-filter=R"),
        *(objects.tree_of(before), objects.tree_of(after), "--"),
    ).out
    names = [part.decode("utf-8", "surrogateescape") for part in listing.split(b"\0")]
    # Three fields a file: the raw facts, the old path, the new one.
    return dict(zip(names[1::3], names[2::3], strict=False))
