"""Since when a pick conflicts: halved along onto's first-parent history, all picks in one batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from porttool.frozen import dataclass
from porttool.git.commits import CommitId, TreeId
from porttool.git.picks import Pick, deciding_entries, pick_many
from porttool.git.quarantine import Quarantine

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Search:
    """A pick that conflicts at place `high` of a line of commits, and is clean on `clean_on`.

    That is the tree at place `low`, or of the commit that the branch left, which builds on it.
    `likely` are places, in order, where the line changed a path that the pick is about; they are
    tried first, and dropped once one has turned out not to be the first.
    """

    pick: Pick
    clean_on: TreeId
    low: int
    high: int
    likely: tuple[int, ...] = ()

    @property
    def found(self) -> bool:
        """Tell whether only one place is left."""
        return self.high - self.low <= 1

    @property
    def probe(self) -> int:
        """Return the place to try next."""
        between = [place for place in self.likely if self.low < place < self.high]
        if between:
            # Behind the last likely place nothing should have changed: it is tried before all.
            return between[len(between) // 2] if self.high in self.likely else between[-1]
        return self.high - 1 if self.likely else (self.low + self.high) // 2

    def narrowed(self, place: int, tree: TreeId, *, clean: bool) -> Search:
        """Return what is left when the pick was tried on the tree at a place."""
        if clean:
            return replace(self, low=place, clean_on=tree)
        guessed_wrong = self.likely and place not in self.likely
        return replace(self, high=place, likely=() if guessed_wrong else self.likely)


def find_onsets(
    quarantine: Quarantine,
    searches: Mapping[CommitId, Search],
    trees: Sequence[TreeId],
    progress: Progress,
) -> dict[CommitId, int]:
    """Return the place at which each pick began to conflict; `trees` are those of the line.

    Where a pick conflicted, was clean again and conflicts now, it is one of its beginnings.
    """
    open_ = {id: _without_merging(quarantine, s, trees) for id, s in searches.items()}
    found = {id: search.high for id, search in open_.items()}
    while open_ := {id: search for id, search in open_.items() if not search.found}:
        progress(f"looking for the commit since which {len(open_)} of them conflict")
        picks = [replace(search.pick, onto=trees[search.probe]) for search in open_.values()]
        given = pick_many(quarantine, picks, told=False)
        for (id, search), picked in zip([*open_.items()], given, strict=True):
            place = search.probe
            narrowed = search.narrowed(place, trees[place], clean=picked.clean)
            open_[id] = _without_merging(quarantine, narrowed, trees)
            found[id] = open_[id].high
    return found


def _without_merging(quarantine: Quarantine, search: Search, trees: Sequence[TreeId]) -> Search:
    """Narrow a search by what is known: where nothing that decides has changed, nothing has."""
    while not search.found:
        place = search.probe
        sides = (search.clean_on, trees[search.high])
        known = [deciding_entries(quarantine, search.pick, tree) for tree in sides]
        here = deciding_entries(quarantine, search.pick, trees[place])
        if here is None or here not in known:
            break
        search = search.narrowed(place, trees[place], clean=here == known[0])
    return search
