"""A counter-based generator for compiled kernels: splitmix64 (Steele, Lea and Flood, 2014).

One 64-bit word is the whole state, so a generator per game or per traversal costs nothing and what
it yields never depends on which others run beside it.
"""

from typing import Any

import numpy as np
from numba import njit

# How kernels widen to signed 64 bits; mypy need not tell those from int.
to_int: Any = np.int64

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S32, _S11 = (np.uint64(n) for n in (27, 30, 31, 32, 11))
_TO_UNIT = 1.0 / (1 << 53)


@njit(cache=True, inline="always")
def mix64(word: np.uint64) -> np.uint64:
    """Return a uint64 scrambled so that near inputs give unrelated outputs."""
    word = (word ^ (word >> _S30)) * _MIX_1
    word = (word ^ (word >> _S27)) * _MIX_2
    return word ^ (word >> _S31)


@njit(cache=True)
def derive(seed: np.uint64, stream: np.uint64) -> np.uint64:
    """Return the starting word of one of many streams of a seed; both are uint64."""
    return mix64(mix64(seed + _GAMMA) ^ (stream * _MIX_2 + _GAMMA))


@njit(cache=True)
def next_word(words_B: np.ndarray, b: int) -> np.uint64:
    """Advance generator ``b`` in place and return 64 random bits as uint64."""
    words_B[b] += _GAMMA
    return mix64(words_B[b])


@njit(cache=True)
def next_unit(words_B: np.ndarray, b: int) -> np.float64:
    """Advance generator ``b`` in place and return a float64 in [0, 1)."""
    return np.float64(next_word(words_B, b) >> _S11) * _TO_UNIT


@njit(cache=True)
def next_below(words_B: np.ndarray, b: int, bound: int) -> int:
    """Advance generator ``b`` in place and return an int64 in [0, bound), bound under 2**31.

    The bias of one part in 2**32 / bound is far below anything a game can show.
    """
    return to_int(((next_word(words_B, b) >> _S32) * np.uint64(bound)) >> _S32)


@njit(cache=True)
def _derive_all(seed: np.uint64, first: np.uint64, out_B: np.ndarray) -> None:
    for b in range(len(out_B)):
        out_B[b] = derive(seed, first + np.uint64(b))


def streams(seed: int, first: int, count: int) -> np.ndarray:
    """Return the starting words (uint64) of ``count`` streams of a seed, from stream ``first``."""
    words_B = np.empty(count, np.uint64)
    _derive_all(np.uint64(seed), np.uint64(first), words_B)
    return words_B
