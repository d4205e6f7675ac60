# ruff: noqa: N815 -- fields are arrays, and array names end in their axes
"""Replay memory: what traversals found, kept as a uniform sample of everything ever added.

Axes: S samples, B batch rows, E encoding width, A actions, M bytes of a packed legal mask
(eight actions a byte, lowest bit first), L most legal actions that a state can have, W 64-bit words
of a record, C colors, X actions of a color.

Values belong to legal actions only, so a sample stores them in the order of the set bits of its
mask: 16 numbers instead of 106 under the standard rules. Features are packed without loss. A sample
is one record, since a batch finds its rows far apart: 280 bytes under the standard rules, of which
192 are features, 14 mask, 64 values and 4 weight.
"""

import json
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numba
import numpy as np
import torch
from numpy.typing import NDArray

from coolrl_lost_cities.games.classic.counter_rng import derive, next_below, next_unit, to_int
from coolrl_lost_cities.games.classic.deep_cfr.packing import (
    PackedRows,
    Packing,
    Scratch,
    pack_one,
    packed_words,
    packing_of,
    rows_of_words,
    scratch,
    unpack_one,
)

U8 = NDArray[np.uint8]
I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
F32 = NDArray[np.float32]
Bool = NDArray[np.bool_]

_LINE = 8  # words of a cache line
_AHEAD = 64  # rows that fit into the fastest cache


@dataclass(frozen=True)
class NodeSamples:
    """One row a visited decision: `values_SL` are advantages, or a policy, by legal action.

    `weights_S` carries the importance weight of the row and nothing of the iteration.
    """

    features_SE: U8
    legal_SM: U8
    values_SL: F32
    weights_S: F32

    def __len__(self) -> int:
        return len(self.weights_S)


@dataclass(frozen=True)
class Batch:
    """Dense training rows; targets are zero where illegal."""

    features_BE: U8
    legal_BA: Bool
    targets_BA: F32
    weights_B: F32


@dataclass(frozen=True)
class SampleShape:
    """What the samples of one game look like.

    `limits_E` is the largest value of each feature. Colors can be renamed where `actions_CX` lists
    the actions of each: then the encoding starts with one block of `color_size` features a color.
    """

    limits_E: U8
    num_actions: int
    max_legal: int
    color_size: int = 0
    actions_CX: I64 | None = None


class _Colors(NamedTuple):
    size: int  # features of a color
    color_A: I64  # the color of an action, -1 for none
    place_A: I64  # the action's place among those of its color
    actions_CX: I64


class _Stored(NamedTuple):
    """The records: packed features, mask words, values and weight, in this order."""

    packing: Packing
    work: Scratch
    rows: PackedRows
    floats: F32  # the same memory
    mask_at: int  # in words
    mask_words: int
    values_at: int  # in floats
    max_legal: int


def mask_bytes(num_actions: int) -> int:
    """Return M, the bytes of a packed mask of that many actions."""
    return (num_actions + 7) // 8


def sample_bytes(shape: SampleShape) -> int:
    """Return what one stored sample takes."""
    return 8 * _layout(shape, packing_of(shape.limits_E))[2]


def empty_batch(shape: SampleShape, batch_size: int, *, pinned: bool = False) -> Batch:
    """Return a batch to be filled; pinned memory is what a GPU copies from fastest."""

    def array(dtype: torch.dtype, *sizes: int) -> Any:
        return torch.empty(batch_size, *sizes, dtype=dtype, pin_memory=pinned).numpy()

    return Batch(
        array(torch.uint8, len(shape.limits_E)),
        array(torch.bool, shape.num_actions),
        array(torch.float32, shape.num_actions),
        array(torch.float32),
    )


def _lowest_bits() -> NDArray[np.uint8]:
    """Return the place of a word's only set bit, by the top six bits of its product."""
    places = np.zeros(64, np.uint8)
    for place in range(64):
        places[(_DE_BRUIJN_INT << place) % (1 << 64) >> 58] = place
    return places


_DE_BRUIJN_INT = 0x03F79D71B4CB0A89  # every six bits of it differ (Leiserson et al. 1998)
_DE_BRUIJN = np.uint64(_DE_BRUIJN_INT)
_LOWEST_BIT = _lowest_bits()
_ONE, _S58 = np.uint64(1), np.uint64(58)


@numba.njit(cache=True, nogil=True)
def _expand_one(
    mask_M: U64, values_L: F32, colors: _Colors, order_C: I64, out: tuple[Bool, F32]
) -> None:
    """Write mask (in words) and values over all actions, those of a color under its new name."""
    legal_A, targets_A = out
    for action in range(len(legal_A)):
        legal_A[action] = False
        targets_A[action] = 0.0
    i = 0
    for m in range(len(mask_M)):
        word = mask_M[m]
        while word != 0:
            bit = word & (~word + _ONE)
            word ^= bit
            action = 64 * m + to_int(_LOWEST_BIT[(bit * _DE_BRUIJN) >> _S58])
            color = colors.color_A[action]
            if color >= 0:
                action = colors.actions_CX[order_C[color], colors.place_A[action]]
            legal_A[action] = True
            targets_A[action] = values_L[i]
            i += 1


@numba.njit(cache=True, nogil=True)
def _expand(masks_SM: U64, values_SL: F32, colors: _Colors, legal_SA: Bool, values_SA: F32) -> None:
    order_C = np.empty(0, np.int64)
    for s in range(len(masks_SM)):
        _expand_one(masks_SM[s], values_SL[s], colors, order_C, (legal_SA[s], values_SA[s]))


def dense(samples: NodeSamples, num_actions: int) -> tuple[Bool, F32]:
    """Return the legal mask and the values of every sample over all actions, zero where illegal."""
    legal_SA = np.empty((len(samples), num_actions), np.bool_)
    values_SA = np.empty((len(samples), num_actions), np.float32)
    masks = np.zeros((len(samples), 8 * _mask_words(num_actions)), np.uint8)
    masks[:, : samples.legal_SM.shape[1]] = samples.legal_SM
    colors = _colors(num_actions, 0, None)
    _expand(masks.view(np.uint64), samples.values_SL, colors, legal_SA, values_SA)
    return legal_SA, values_SA


@numba.njit(cache=True, nogil=True)
def _offer(
    stored: _Stored,
    offered: tuple[U8, U8, F32, F32],
    iteration_weight: np.float32,
    num_seen: int,
    word_1: U64,
) -> np.uint64:
    """Store what algorithm R keeps, or without a generator the latest; what comes back is zero if
    all features were in their limits.

    In order, so that of two samples that drew the same slot the later one stays.
    """
    features_SE, legal_SM, values_SL, weights_S = offered
    excess = np.uint64(0)
    capacity = len(stored.floats)
    for s in range(len(weights_S)):
        slot = num_seen + s
        if len(word_1) == 0:
            slot %= capacity
        elif slot >= capacity:
            slot = to_int(next_unit(word_1, to_int(0)) * (slot + 1))
            if slot >= capacity:
                continue
        excess |= pack_one(stored.packing, stored.rows, slot, features_SE[s], stored.work)
        mask = stored.rows.bytes[slot, 8 * stored.mask_at :]
        for m in range(8 * stored.mask_words):
            mask[m] = legal_SM[s, m] if m < legal_SM.shape[1] else 0
        floats = stored.floats[slot, stored.values_at :]
        for i in range(stored.max_legal):
            floats[i] = values_SL[s, i]
        floats[stored.max_legal] = weights_S[s] * iteration_weight
    return excess


@numba.njit(cache=True, nogil=True)
def _shuffle_colors(word: np.uint64, orders_BC: I64) -> None:
    word_1 = np.empty(1, np.uint64)
    for b in range(len(orders_BC)):
        word_1[0] = derive(word, np.uint64(b))
        for color in range(orders_BC.shape[1]):
            other = next_below(word_1, to_int(0), color + 1)
            orders_BC[b, color] = orders_BC[b, other]
            orders_BC[b, other] = color


def color_orders(word: int, batch_size: int, num_colors: int) -> I64:
    """Return one random renaming of the colors a row: color ``c`` becomes ``orders_BC[b, c]``.

    They follow from the word, a number of 64 bits.
    """
    orders_BC = np.empty((batch_size, num_colors), np.int64)
    _shuffle_colors(np.uint64(word), orders_BC)
    return orders_BC


@numba.njit(cache=True, nogil=True)
def _gather(
    stored: _Stored,
    rows_B: I64,
    colors: _Colors,
    orders_BC: I64,
    batch: tuple[U8, Bool, F32, F32],
) -> np.uint64:
    """Write the rows into the batch; the number that comes back means nothing."""
    features_BE, legal_BA, targets_BA, weights_B = batch
    unpacked, words_SW = stored.work.features, stored.rows.words_SW
    num_colors, size = orders_BC.shape[1], colors.size
    touched = np.uint64(0)
    for b in range(len(rows_B)):
        if b % _AHEAD == 0:
            # Read one word of every cache line of some rows ahead: these reads wait for main
            # memory all at once, those below would wait one after the other.
            for row in rows_B[b : b + _AHEAD]:
                for w in range(0, words_SW.shape[1], _LINE):
                    touched ^= words_SW[row, w]
        row = rows_B[b]
        unpack_one(stored.packing, stored.rows, row, stored.work)
        for color in range(num_colors):
            first = color * size
            to = orders_BC[b, color] * size
            for e in range(size):
                features_BE[b, np.uint64(to + e)] = unpacked[np.uint64(first + e)]
        for e in range(num_colors * size, features_BE.shape[1]):
            features_BE[b, e] = unpacked[e]
        _expand_one(
            words_SW[row, stored.mask_at : stored.mask_at + stored.mask_words],
            stored.floats[row, stored.values_at :],
            colors,
            orders_BC[b],
            (legal_BA[b], targets_BA[b]),
        )
        weights_B[b] = stored.floats[row, stored.values_at + stored.max_legal]
    return touched


class ReservoirMemory:
    """Preallocated arrays that hold a uniform sample of all rows added (Vitter 1985, algorithm R).

    The arrays are only committed by the operating system as they fill. `generator` decides which
    rows stay and is part of the state; with `keep` "latest" the oldest go, and it is not asked.
    """

    def __init__(
        self,
        capacity: int,
        shape: SampleShape,
        generator: np.random.Generator,
        keep: Literal["uniform", "latest"] = "uniform",
    ) -> None:
        self.capacity = capacity
        self.keep = keep
        self.num_seen = 0
        self.shape = shape
        self._generator = generator
        self._colors = _colors(shape.num_actions, shape.color_size, shape.actions_CX)
        self._same_BC = np.empty((0, 0), np.int64)
        packing = packing_of(shape.limits_E)
        mask_at, values_at, words = _layout(shape, packing)
        # Not `empty`: what no sample fills is stored too, and has to repeat.
        words_SW = np.zeros((capacity, words), np.uint64)
        self._stored = _Stored(
            packing=packing,
            work=scratch(packing),
            rows=rows_of_words(words_SW),
            floats=words_SW.view(np.float32),
            mask_at=mask_at,
            mask_words=_mask_words(shape.num_actions),
            values_at=2 * values_at,
            max_legal=shape.max_legal,
        )

    def __len__(self) -> int:
        return min(self.num_seen, self.capacity)

    @property
    def num_bytes(self) -> int:
        """What the memory takes when it is full."""
        return self.capacity * sample_bytes(self.shape)

    def add(self, samples: NodeSamples, iteration_weight: float = 1.0) -> None:
        """Offer every sample; stored weights are importance weight times `iteration_weight`.

        Raises ValueError for a feature above its limit; some of the samples are stored then.
        """
        shape = self.shape
        expected = (len(shape.limits_E), mask_bytes(shape.num_actions), shape.max_legal)
        arrays = (samples.features_SE, samples.legal_SM, samples.values_SL, samples.weights_S)
        widths = tuple(array.shape[1] for array in arrays[:3])
        if widths != expected:
            raise ValueError(
                f"samples have rows of {widths} features, mask bytes and values; "
                f"expected {expected}"
            )
        drawn = 1 if self.keep == "uniform" else 0
        word_1 = self._generator.integers(0, 1 << 64, drawn, np.uint64)
        excess = _offer(
            self._stored,
            arrays,
            np.float32(iteration_weight),
            self.num_seen,
            word_1,
        )
        if excess:
            s, e = np.argwhere(samples.features_SE > shape.limits_E)[0]
            raise ValueError(
                f"feature {e} is {samples.features_SE[s, e]}; expected at most "
                f"{shape.limits_E[e]}, the limit that the encoding names for it"
            )
        self.num_seen += len(samples)

    def sample(
        self,
        batch_size: int,
        generator: np.random.Generator,
        *,
        permute_colors: bool = False,
        out: Batch | None = None,
    ) -> Batch:
        """Draw rows uniformly with replacement, into `out` where it is given.

        With `permute_colors` each row has its colors renamed by a random order of its own. The
        memory must hold a row. Raises ValueError for a shape that names no colors.
        """
        batch = out if out is not None else empty_batch(self.shape, batch_size)
        rows_B = generator.integers(0, len(self), batch_size)
        num_colors = len(self._colors.actions_CX)
        if permute_colors:
            if num_colors == 0:
                raise ValueError("the samples name no colors to be permuted")
            word = int(generator.integers(0, 1 << 64, dtype=np.uint64))
            orders_BC = color_orders(word, batch_size, num_colors)
        else:
            if len(self._same_BC) < batch_size:
                self._same_BC = np.tile(np.arange(num_colors), (batch_size, 1))
            orders_BC = self._same_BC
        _gather(
            self._stored,
            rows_B,
            self._colors,
            orders_BC,
            (batch.features_BE, batch.legal_BA, batch.targets_BA, batch.weights_B),
        )
        return batch

    def value_scale(self) -> float:
        """Return the weighted root mean square of the stored values; 1 if they are all zero."""
        first, last = self._stored.values_at, self._stored.values_at + self.shape.max_legal
        weights_S = self._stored.floats[: len(self), last].astype(np.float64)
        values_SL = self._stored.floats[: len(self), first:last]
        squares_S = np.einsum("sl,sl->s", values_SL, values_SL)
        mean_square = float(weights_S @ squares_S) / max(float(weights_S.sum()), 1e-300)
        return float(np.sqrt(mean_square)) or 1.0

    def state_dict(self) -> dict[str, Any]:
        """Return the filled records as a tensor that shares this memory, the generator as JSON.

        The tensor is good until the next `add`: a copy would double the memory while a checkpoint
        is written.
        """
        return {
            "capacity": self.capacity,
            "num_seen": self.num_seen,
            "generator": json.dumps(self._generator.bit_generator.state),
            "limits_E": torch.from_numpy(self.shape.limits_E),
            "records": torch.from_numpy(self._stored.rows.bytes[: len(self)]),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a stored state; raise ValueError, leaving this memory as it was, if it
        belongs to a memory of another capacity or row shape.
        """
        if state["capacity"] != self.capacity:
            raise ValueError(
                f"the stored memory has a capacity of {state['capacity']}, this one of "
                f"{self.capacity}; set memory.*_capacity to the stored value to resume"
            )
        if not np.array_equal(state["limits_E"].numpy(), self.shape.limits_E):
            raise ValueError(
                f"the stored memory has {len(state['limits_E'])} features, this one "
                f"{len(self.shape.limits_E)}, or their ranges differ; resume with the rules and "
                "the encoding that wrote the checkpoint"
            )
        own, stored = self._stored.rows.bytes, state["records"].numpy()
        if own.shape[1] != stored.shape[1]:
            raise ValueError(
                f"records of the stored memory have {stored.shape[1]} bytes, here {own.shape[1]}; "
                "resume with the rules that wrote the checkpoint"
            )
        own[: len(stored)] = stored
        self.num_seen = state["num_seen"]
        self._generator.bit_generator.state = json.loads(state["generator"])


def _mask_words(num_actions: int) -> int:
    return -(-num_actions // 64)


def _layout(shape: SampleShape, packing: Packing) -> tuple[int, int, int]:
    """Return the words of a record at which mask and values start, and the words of it all."""
    mask_at = packed_words(packing)
    values_at = mask_at + _mask_words(shape.num_actions)
    return mask_at, values_at, values_at + (shape.max_legal + 2) // 2


def _colors(num_actions: int, size: int, actions_CX: I64 | None) -> _Colors:
    color_A, place_A = np.full(num_actions, -1), np.zeros(num_actions, np.int64)
    if actions_CX is None:
        return _Colors(0, color_A, place_A, np.empty((0, 0), np.int64))
    for color, actions_X in enumerate(actions_CX):
        color_A[actions_X] = color
        place_A[actions_X] = np.arange(len(actions_X))
    return _Colors(size, color_A, place_A, actions_CX)
