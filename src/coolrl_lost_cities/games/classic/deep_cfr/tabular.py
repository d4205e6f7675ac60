"""Monte Carlo CFR with a table where Deep CFR has networks: the same traversals, the same samples.

What it converges to on a tiny game is known exactly, so it shows whether the estimator is right
without any question of what a network can learn.

Axes: B rows, N rows of a table, S samples, E encoding width, A actions.
"""

import numba
import numpy as np
from numpy.typing import NDArray

from coolrl_lost_cities.games.classic.counter_rng import mix64
from coolrl_lost_cities.games.classic.deep_cfr.encoding import encoding_size
from coolrl_lost_cities.games.classic.deep_cfr.memory import NodeSamples, dense
from coolrl_lost_cities.games.classic.deep_cfr.regret import regret_matching
from coolrl_lost_cities.games.classic.deep_cfr.traversal import TraversalSpec, run_traversals
from coolrl_lost_cities.games.classic.rules import Rules

U8 = NDArray[np.uint8]
I64 = NDArray[np.int64]
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
Bool = NDArray[np.bool_]


@numba.njit(cache=True)
def _find(slots: I64, keys_NE: U8, rows_BE: U8, number_B: I64) -> None:
    """Write the number of each row, or -1.

    `slots` is an open hash table of numbers of keys, a power of two long and never full.
    """
    for b in range(len(rows_BE)):
        number_B[b] = slots[_slot_of(slots, keys_NE, rows_BE[b])]


@numba.njit(cache=True)
def _add(slots: I64, keys_NE: U8, num_keys: int, rows_BE: U8) -> int:
    """Number the rows that are new; return how many keys there are then."""
    for b in range(len(rows_BE)):
        slot = _slot_of(slots, keys_NE, rows_BE[b])
        if slots[slot] < 0:
            slots[slot] = num_keys
            keys_NE[num_keys] = rows_BE[b]
            num_keys += 1
    return num_keys


@numba.njit(cache=True)
def _slot_of(slots: I64, keys_NE: U8, row_E: U8) -> int:
    mask = len(slots) - 1
    word = np.uint64(14695981039346656037)  # FNV-1a
    for byte in row_E:
        word = (word ^ np.uint64(byte)) * np.uint64(1099511628211)
    slot = np.int64(mix64(word) & np.uint64(mask))
    while slots[slot] >= 0 and not np.array_equal(keys_NE[slots[slot]], row_E):
        slot = (slot + 1) & mask
    return int(slot)


@numba.njit(cache=True)
def _accumulate(totals_NA: F64, number_S: I64, values_SA: F32, weights_S: F64) -> None:
    for s in range(len(number_S)):
        for action in range(values_SA.shape[1]):
            totals_NA[number_S[s], action] += weights_S[s] * values_SA[s, action]


class StateIndex:
    """Numbers distinct information states from 0, in the order in which they turn up."""

    def __init__(self, encoding_size: int) -> None:
        self._num_keys = 0
        self._slots = np.full(4096, -1, np.int64)
        self._keys_NE = np.empty((2048, encoding_size), np.uint8)

    def __len__(self) -> int:
        return self._num_keys

    def add(self, features_SE: U8) -> None:
        """Number those that are new."""
        while self._num_keys + len(features_SE) > len(self._keys_NE):
            self._keys_NE = np.concatenate([self._keys_NE, np.empty_like(self._keys_NE)])
            self._slots = np.full(2 * len(self._slots), -1, np.int64)
            _add(self._slots, self._keys_NE, 0, self._keys_NE[: self._num_keys])
        self._num_keys = _add(self._slots, self._keys_NE, self._num_keys, features_SE)

    def find(self, features_BE: U8) -> I64:
        """Return the number of each information state, -1 for one that was never added."""
        number_B = np.empty(len(features_BE), np.int64)
        _find(self._slots, self._keys_NE, features_BE, number_B)
        return number_B


class _Table:
    """Sums by information state, for as many as turn up."""

    def __init__(self, rules: Rules) -> None:
        self._index = StateIndex(encoding_size(rules))
        self._totals_NA = np.zeros((2048, rules.num_actions))

    def add(self, features_SE: U8, values_SA: F32, weights_S: F64) -> None:
        """Add weighted values to the rows of their information states."""
        self._index.add(features_SE)
        while len(self._index) > len(self._totals_NA):
            self._totals_NA = np.concatenate([self._totals_NA, np.zeros_like(self._totals_NA)])
        _accumulate(self._totals_NA, self._index.find(features_SE), values_SA, weights_S)

    def totals(self, features_BE: U8) -> F64:
        """Return the sums of each information state (BA), zero where nothing was added."""
        number_B = self._index.find(features_BE)
        return np.where(number_B[:, None] >= 0, self._totals_NA[number_B], 0.0)


class TabularCFR:
    """Linear Monte Carlo CFR (Brown and Sandholm 2019): iteration t counts t times."""

    def __init__(self, rules: Rules, *, seed: int, lanes: int, exploration: float) -> None:
        self._rules = rules
        self._seed = seed
        self._lanes = lanes
        self._exploration = exploration
        self._regrets = [_Table(rules), _Table(rules)]
        self._policies = [_Table(rules), _Table(rules)]
        self.iteration = 0

    def run_iteration(self, num_traversals: int) -> None:
        """Traverse for one player and then for the other, who already meets the new policy."""
        self.iteration += 1
        for player in range(2):
            spec = TraversalSpec(
                seed=self._seed,
                iteration=self.iteration,
                traverser=player,
                first_id=0,
                num_traversals=num_traversals,
                lanes=self._lanes,
                exploration=self._exploration,
            )
            samples = run_traversals(self._rules, spec, self._advantages)
            self._add(self._regrets[player], samples.advantage)
            self._add(self._policies[1 - player], samples.strategy)

    def _advantages(self, player: int, features_BE: U8, _legal_BA: Bool) -> F32:
        return self._regrets[player].totals(features_BE).astype(np.float32)

    def _add(self, table: _Table, samples: NodeSamples) -> None:
        _, values_SA = dense(samples, self._rules.num_actions)
        weights_S = samples.weights_S.astype(np.float64) * self.iteration
        table.add(samples.features_SE, values_SA, weights_S)

    def current_policy(self, player: int, features_BE: U8, legal_BA: Bool) -> F32:
        """Return what regret matching plays now (BA)."""
        return regret_matching(self._advantages(player, features_BE, legal_BA), legal_BA)

    def average_policy(self, player: int, features_BE: U8, legal_BA: Bool) -> F32:
        """Return the average policy (BA), uniform where the player never came."""
        totals_BA = np.where(legal_BA, self._policies[player].totals(features_BE), 0.0)
        untouched_B1 = totals_BA.sum(axis=1, keepdims=True) == 0.0
        totals_BA = np.where(untouched_B1, legal_BA, totals_BA)
        averages_BA: F32 = totals_BA / np.maximum(totals_BA.sum(axis=1, keepdims=True), 1e-300)
        return averages_BA.astype(np.float32)
