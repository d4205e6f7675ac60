# ruff: noqa: N815 -- fields are arrays, and array names end in their axes
"""Rows of small whole numbers in fewer bytes, without loss, eight features at a time.

Axes: S rows, E features, G groups of eight neighbouring features, W words of a packed row.

A group is stored with 1, 2, 4 or 8 bits a feature, as its largest feature needs: one 64-bit word
becomes 8, 16, 32 or 64 bits by three shifts, and comes back by three. A packed row holds the widest
groups first, so that each group lies where a number of its width may lie. Under the standard rules
445 features take 192 bytes.
"""

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

U8 = NDArray[np.uint8]
U64 = NDArray[np.uint64]

_GROUP = 8


class Packing(NamedTuple):
    """Which groups there are of each width; `order_G` lists them, the widest first."""

    order_G: NDArray[np.uint16]
    num_8: int
    num_4: int
    num_2: int
    num_1: int


class PackedRows(NamedTuple):
    """Rows as words, and the same memory as smaller numbers."""

    words_SW: U64
    halves: NDArray[np.uint32]
    quarters: NDArray[np.uint16]
    bytes: U8


class Scratch(NamedTuple):
    """One unpacked row: as words by group, as features, and as words in the order of packing."""

    words_G: U64
    features: U8  # the memory of words_G; eight features a group, the last group filled up
    sorted_G: U64


def packing_of(limits_E: U8) -> Packing:
    """Return how to pack rows whose feature ``e`` is never above ``limits_E[e]``."""
    num_groups = -(-len(limits_E) // _GROUP)
    padded = np.zeros(num_groups * _GROUP, np.uint8)
    padded[: len(limits_E)] = limits_E
    width_G = np.searchsorted([1, 3, 15], padded.reshape(num_groups, _GROUP).max(axis=1))
    num_1, num_2, num_4, num_8 = (int((width_G == width).sum()) for width in range(4))
    order_G = np.argsort(-width_G, kind="stable").astype(np.uint16)
    return Packing(order_G, num_8, num_4, num_2, num_1)


def packed_words(packing: Packing) -> int:
    """Return W, the 64-bit words of a packed row."""
    return -(-(8 * packing.num_8 + 4 * packing.num_4 + 2 * packing.num_2 + packing.num_1) // 8)


def rows_of_words(words_SW: U64) -> PackedRows:
    """Return rows of words as `pack_one` writes them, at the front of each row."""
    return PackedRows(
        words_SW, words_SW.view(np.uint32), words_SW.view(np.uint16), words_SW.view(np.uint8)
    )


def scratch(packing: Packing) -> Scratch:
    """Return what `pack_one` and `unpack_one` work in."""
    words_G = np.zeros(len(packing.order_G), np.uint64)
    return Scratch(words_G, words_G.view(np.uint8), np.empty_like(words_G))


class _Steps(NamedTuple):
    """Three shifts that spread the bits of a packed group, and what is kept after each."""

    first: np.uint64
    keep_a: np.uint64
    middle: np.uint64
    keep_b: np.uint64
    last: np.uint64
    keep_c: np.uint64


def _steps(first: int, keep_a: int, keep_b: int, keep_c: int) -> _Steps:
    numbers = (first, keep_a, first // 2, keep_b, first // 4, keep_c)
    return _Steps(*(np.uint64(number) for number in numbers))


_ONE = _steps(28, 0x0000000F0000000F, 0x0003000300030003, 0x0101010101010101)
_TWO = _steps(24, 0x000000FF000000FF, 0x000F000F000F000F, 0x0303030303030303)
_FOUR = _steps(16, 0x0000FFFF0000FFFF, 0x00FF00FF00FF00FF, 0x0F0F0F0F0F0F0F0F)


@numba.njit(cache=True, nogil=True, inline="always")
def _squeeze(word: np.uint64, steps: _Steps) -> np.uint64:
    word = (word | (word >> steps.last)) & steps.keep_b
    word = (word | (word >> steps.middle)) & steps.keep_a
    return word | (word >> steps.first)


@numba.njit(cache=True, nogil=True, inline="always")
def _spread(word: np.uint64, steps: _Steps) -> np.uint64:
    word = (word | (word << steps.first)) & steps.keep_a
    word = (word | (word << steps.middle)) & steps.keep_b
    return (word | (word << steps.last)) & steps.keep_c


# Plain loops below: numba's slice assignments look for overlaps first, which costs more than this.


@numba.njit(cache=True, nogil=True)
def pack_one(
    packing: Packing, rows: PackedRows, row: int, features_E: U8, work: Scratch
) -> np.uint64:
    """Store one row; what comes back is not zero if a feature needs more bits than it has."""
    num_8, num_4, num_2, num_1 = packing.num_8, packing.num_4, packing.num_2, packing.num_1
    sorted_G = work.sorted_G
    for e in range(len(features_E)):
        work.features[e] = features_E[e]
    for g in range(len(packing.order_G)):
        sorted_G[g] = work.words_G[np.uint64(packing.order_G[g])]
    out_8 = rows.words_SW[row]
    out_4 = rows.halves[row, 2 * num_8 :]
    out_2 = rows.quarters[row, 4 * num_8 + 2 * num_4 :]
    out_1 = rows.bytes[row, 8 * num_8 + 4 * num_4 + 2 * num_2 :]
    four = sorted_G[num_8:]
    two = sorted_G[num_8 + num_4 :]
    one = sorted_G[num_8 + num_4 + num_2 :]
    excess = np.uint64(0)
    for g in range(num_8):
        out_8[g] = sorted_G[g]
    for g in range(num_4):
        excess |= four[g] & ~_FOUR.keep_c
        out_4[g] = np.uint32(_squeeze(four[g], _FOUR))
    for g in range(num_2):
        excess |= two[g] & ~_TWO.keep_c
        out_2[g] = np.uint16(_squeeze(two[g], _TWO))
    for g in range(num_1):
        excess |= one[g] & ~_ONE.keep_c
        out_1[g] = np.uint8(_squeeze(one[g], _ONE))
    return excess


@numba.njit(cache=True, nogil=True)
def unpack_one(packing: Packing, rows: PackedRows, row: int, work: Scratch) -> None:
    """Write one row's features to the front of `work.features`."""
    num_8, num_4, num_2, num_1 = packing.num_8, packing.num_4, packing.num_2, packing.num_1
    sorted_G = work.sorted_G
    in_8 = rows.words_SW[row]
    in_4 = rows.halves[row, 2 * num_8 :]
    in_2 = rows.quarters[row, 4 * num_8 + 2 * num_4 :]
    in_1 = rows.bytes[row, 8 * num_8 + 4 * num_4 + 2 * num_2 :]
    four = sorted_G[num_8:]
    two = sorted_G[num_8 + num_4 :]
    one = sorted_G[num_8 + num_4 + num_2 :]
    for g in range(num_8):
        sorted_G[g] = in_8[g]
    for g in range(num_4):
        four[g] = _spread(np.uint64(in_4[g]), _FOUR)
    for g in range(num_2):
        two[g] = _spread(np.uint64(in_2[g]), _TWO)
    for g in range(num_1):
        one[g] = _spread(np.uint64(in_1[g]), _ONE)
    for g in range(len(packing.order_G)):
        work.words_G[np.uint64(packing.order_G[g])] = sorted_G[g]
