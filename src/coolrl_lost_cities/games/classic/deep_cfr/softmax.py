"""Softmax over legal actions.

Axes: B rows, A actions.
"""

import math

import numba
import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
Bool = NDArray[np.bool_]


@numba.njit(cache=True, nogil=True)
def _softmax_rows(logits_BA: F32, legal_BA: Bool, policy_BA: F32) -> None:
    num_rows, num_actions = legal_BA.shape
    for row in range(num_rows):
        top = -np.inf
        for action in range(num_actions):
            if legal_BA[row, action]:
                top = max(top, np.float64(logits_BA[row, action]))
        total = 0.0
        for action in range(num_actions):
            policy_BA[row, action] = 0.0
            if legal_BA[row, action]:
                weight = math.exp(np.float64(logits_BA[row, action]) - top)
                policy_BA[row, action] = weight
                total += weight
        if total > 0.0:
            for action in range(num_actions):
                policy_BA[row, action] /= total


def softmax(logits_BA: F32, legal_BA: Bool) -> F32:
    """Return the softmax over the legal actions, zero where illegal.

    Rows with no legal action come back as zeros.
    """
    policy_BA = np.empty(legal_BA.shape, np.float32)
    _softmax_rows(logits_BA, legal_BA, policy_BA)
    return policy_BA
