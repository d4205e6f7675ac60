# ruff: noqa: N815 -- fields are arrays, and array names end in their axes
"""Replay memory: what traversals found, kept as a uniform sample of everything ever added.

Axes: S samples, B batch rows, E encoding width, A actions, M bytes of a packed legal mask
(eight actions a byte, lowest bit first), L most legal actions that a state can have.

Values belong to legal actions only, so a sample stores them in the order of the set bits of its
mask: 16 numbers instead of 106 under the standard rules.
"""

import json
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray

U8 = NDArray[np.uint8]
I64 = NDArray[np.int64]
F32 = NDArray[np.float32]
Bool = NDArray[np.bool_]


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


def mask_bytes(num_actions: int) -> int:
    """Return M, the bytes of a packed mask of that many actions."""
    return (num_actions + 7) // 8


@numba.njit(cache=True, nogil=True)
def _expand(legal_SM: U8, values_SL: F32, rows_B: I64, legal_BA: Bool, targets_BA: F32) -> None:
    for b in range(len(rows_B)):
        row = rows_B[b]
        i = 0
        for action in range(legal_BA.shape[1]):
            legal = (legal_SM[row, action >> 3] >> np.uint8(action & 7)) & 1
            legal_BA[b, action] = legal
            targets_BA[b, action] = 0.0
            if legal:
                targets_BA[b, action] = values_SL[row, i]
                i += 1


def dense(samples: NodeSamples, num_actions: int) -> tuple[Bool, F32]:
    """Return the legal mask and the values of every sample over all actions, zero where illegal."""
    legal_SA = np.empty((len(samples), num_actions), np.bool_)
    values_SA = np.empty((len(samples), num_actions), np.float32)
    _expand(samples.legal_SM, samples.values_SL, np.arange(len(samples)), legal_SA, values_SA)
    return legal_SA, values_SA


@numba.njit(cache=True, nogil=True)
def _replace(slots_S: I64, capacity: int, targets: NDArray, sources: NDArray) -> None:
    # In order, so that of two samples that drew the same slot the later one stays.
    for s in range(len(slots_S)):
        if slots_S[s] < capacity:
            targets[slots_S[s]] = sources[s]


class ReservoirMemory:
    """Preallocated arrays that hold a uniform sample of all rows added (Vitter 1985, algorithm R).

    The arrays are only committed by the operating system as they fill. `generator` decides which
    rows stay and is part of the state.
    """

    def __init__(
        self,
        capacity: int,
        encoding_size: int,
        num_actions: int,
        max_legal: int,
        generator: np.random.Generator,
    ) -> None:
        self.capacity = capacity
        self.num_seen = 0
        self._num_actions = num_actions
        self._generator = generator
        self._features_SE = np.empty((capacity, encoding_size), np.uint8)
        self._legal_SM = np.empty((capacity, mask_bytes(num_actions)), np.uint8)
        self._values_SL = np.empty((capacity, max_legal), np.float32)
        self._weights_S = np.empty(capacity, np.float32)

    def __len__(self) -> int:
        return min(self.num_seen, self.capacity)

    def add(self, samples: NodeSamples, iteration_weight: float = 1.0) -> None:
        """Offer every sample; stored weights are importance weight times `iteration_weight`."""
        order_S = np.arange(self.num_seen, self.num_seen + len(samples))
        drawn_S = self._generator.integers(0, order_S + 1)
        slots_S = np.where(order_S < self.capacity, order_S, drawn_S)
        _replace(slots_S, self.capacity, self._features_SE, samples.features_SE)
        _replace(slots_S, self.capacity, self._legal_SM, samples.legal_SM)
        _replace(slots_S, self.capacity, self._values_SL, samples.values_SL)
        weights_S = samples.weights_S * np.float32(iteration_weight)
        _replace(slots_S, self.capacity, self._weights_S, weights_S)
        self.num_seen += len(samples)

    def sample(self, batch_size: int, generator: np.random.Generator) -> Batch:
        """Draw rows uniformly with replacement. The memory must hold a row."""
        rows_B = generator.integers(0, len(self), batch_size)
        legal_BA = np.empty((batch_size, self._num_actions), np.bool_)
        targets_BA = np.empty((batch_size, self._num_actions), np.float32)
        _expand(self._legal_SM, self._values_SL, rows_B, legal_BA, targets_BA)
        return Batch(self._features_SE[rows_B], legal_BA, targets_BA, self._weights_S[rows_B])

    def value_scale(self) -> float:
        """Return the weighted root mean square of the stored values; 1 if they are all zero."""
        filled = len(self)
        weights_S = self._weights_S[:filled].astype(np.float64)
        squares_S = np.einsum("sl,sl->s", self._values_SL[:filled], self._values_SL[:filled])
        mean_square = float(weights_S @ squares_S) / max(float(weights_S.sum()), 1e-300)
        return float(np.sqrt(mean_square)) or 1.0

    def state_dict(self) -> dict[str, Any]:
        """Return the filled rows as tensors of their own, and the generator as JSON text."""
        filled = len(self)
        return {
            "capacity": self.capacity,
            "num_seen": self.num_seen,
            "generator": json.dumps(self._generator.bit_generator.state),
            "features_SE": torch.from_numpy(self._features_SE[:filled].copy()),
            "legal_SM": torch.from_numpy(self._legal_SM[:filled].copy()),
            "values_SL": torch.from_numpy(self._values_SL[:filled].copy()),
            "weights_S": torch.from_numpy(self._weights_S[:filled].copy()),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a stored state; raise ValueError, leaving this memory as it was, if it
        belongs to a memory of another capacity or row shape.
        """
        arrays = {
            name: (getattr(self, f"_{name}"), state[name].numpy())
            for name in ("features_SE", "legal_SM", "values_SL", "weights_S")
        }
        if state["capacity"] != self.capacity:
            raise ValueError(
                f"the stored memory has a capacity of {state['capacity']}, this one of "
                f"{self.capacity}; set memory.*_capacity to the stored value to resume"
            )
        for name, (own, stored) in arrays.items():
            if own.shape[1:] != stored.shape[1:]:
                raise ValueError(
                    f"rows of {name} in the stored memory have shape {stored.shape[1:]}, here "
                    f"{own.shape[1:]}; resume with the rules that wrote the checkpoint"
                )
        for own, stored in arrays.values():
            own[: len(stored)] = stored
        self.num_seen = state["num_seen"]
        self._generator.bit_generator.state = json.loads(state["generator"])
