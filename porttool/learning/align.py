"""Pair the items of two lists so that the least has to change."""

from __future__ import annotations

import ast
import difflib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from porttool.frozen import dataclass
from porttool.source.nodes import walk

Pairing = Iterator[tuple[int | None, int | None]]

# A full alignment costs the product of both lengths; past this, equal items are anchored first.
_LIMIT = 40_000


@dataclass(frozen=True, eq=False)
class Entry:
    """One item of a list: equal shapes are equal items; `parts` is what its text consists of."""

    node: ast.AST
    shape: object
    parts: tuple[ast.AST, ...]

    @cached_property
    def bag(self) -> Counter[str]:
        """Count what the text says; most items have an equal partner, and are never asked."""
        return features(*self.parts)


# The cost of a pair of unequal entries, given the plain cost (what the two do not share) and the
# number of features that they share; infinite where they must not be paired.
Cost = Callable[[Entry, Entry, float, int], float]


def features(*roots: ast.AST) -> Counter[str]:
    """Count the node kinds, names and constants below some nodes."""
    found: list[str] = []
    for root in roots:
        for node in walk(root):
            found.append(type(node).__name__)
            for name in node._fields:
                value = getattr(node, name, None)
                if isinstance(value, (str, int, float)):
                    found.append(repr(value))
    return Counter(found)


def align(old: Sequence[Entry], new: Sequence[Entry], cost: Cost) -> Pairing:
    """Yield (old, new) indices in order, None for an item without a partner."""
    if len(old) * len(new) <= _LIMIT:
        yield from _gap(old, new, (0, len(old), 0, len(new)), cost)
        return
    shapes = [entry.shape for entry in old], [entry.shape for entry in new]
    matcher = difflib.SequenceMatcher(None, *shapes, autojunk=False)
    for tag, i, i_end, j, j_end in matcher.get_opcodes():
        if tag == "equal":
            yield from zip(range(i, i_end), range(j, j_end), strict=True)
        else:
            yield from _gap(old, new, (i, i_end, j, j_end), cost)


def _gap(
    old: Sequence[Entry], new: Sequence[Entry], box: tuple[int, int, int, int], cost: Cost
) -> Pairing:
    i, i_end, j, j_end = box
    while i < i_end and j < j_end and old[i].shape == new[j].shape:
        yield i, j
        i, j = i + 1, j + 1
    behind = 0
    while (
        i_end - behind > i
        and j_end - behind > j
        and old[i_end - behind - 1].shape == new[j_end - behind - 1].shape
    ):
        behind += 1
    middle = old[i : i_end - behind], new[j : j_end - behind]
    for one, other in _cheapest(*middle, cost):
        yield None if one is None else i + one, None if other is None else j + other
    yield from zip(range(i_end - behind, i_end), range(j_end - behind, j_end), strict=True)


def _cheapest(old: Sequence[Entry], new: Sequence[Entry], cost: Cost) -> Pairing:
    """Pair by dynamic programming over the size of what stays unpaired or differs in a pair."""
    n, m = len(old), len(new)
    sizes, widths = [x.bag.total() for x in old], [x.bag.total() for x in new]
    total = [[0.0] * (m + 1) for _ in range(n + 1)]
    step = [["pair"] * (m + 1) for _ in range(n + 1)]
    for i in range(n - 1, -1, -1):
        total[i][m], step[i][m] = total[i + 1][m] + sizes[i], "delete"
    for j in range(m - 1, -1, -1):
        total[n][j], step[n][j] = total[n][j + 1] + widths[j], "insert"
    for i in range(n - 1, -1, -1):
        for j in range(m - 1, -1, -1):
            pair = 0.0
            if old[i].shape != new[j].shape:
                common = (old[i].bag & new[j].bag).total()
                pair = cost(old[i], new[j], sizes[i] + widths[j] - 2.0 * common, common)
            total[i][j], step[i][j] = min(
                (total[i + 1][j + 1] + pair, "pair"),
                (total[i + 1][j] + sizes[i], "delete"),
                (total[i][j + 1] + widths[j], "insert"),
                key=lambda option: option[0],
            )
    i = j = 0
    while i < n or j < m:
        action = step[i][j]
        yield None if action == "insert" else i, None if action == "delete" else j
        i, j = i + (action != "insert"), j + (action != "delete")
