"""Regret matching.

Axes: B rows, A actions.
"""

import numba
import numpy as np
from numpy.typing import NDArray

from coolrl_lost_cities.games.classic.counter_rng import to_int
from coolrl_lost_cities.games.classic.kernel_options import KERNEL

F32 = NDArray[np.float32]
I16 = NDArray[np.int16]
Bool = NDArray[np.bool_]


@numba.njit(**KERNEL)
def match_listed(advantages_A: F32, actions_L: I16, num_listed: int, policy_L: F32) -> None:
    """Write the policy over the first `num_listed` entries of `actions_L` into `policy_L`.

    The one row both the dense wrapper below and the traversal are made of. Sums run in float64
    so that a row of tiny advantages still adds up to one.
    """
    total = 0.0
    best = -np.inf
    for i in range(num_listed):
        advantage = np.float64(advantages_A[actions_L[i]])
        total += max(advantage, 0.0)
        best = max(best, advantage)
    if total > 0.0:
        for i in range(num_listed):
            policy_L[i] = max(np.float64(advantages_A[actions_L[i]]), 0.0) / total
        return
    ties = 0
    for i in range(num_listed):
        if np.float64(advantages_A[actions_L[i]]) == best:
            ties += 1
    for i in range(num_listed):
        policy_L[i] = 1.0 / ties if np.float64(advantages_A[actions_L[i]]) == best else 0.0


@numba.njit(cache=True, nogil=True)
def _match_rows(advantages_BA: F32, legal_BA: Bool, policy_BA: F32) -> None:
    num_rows, num_actions = legal_BA.shape
    actions_A = np.empty(num_actions, np.int16)
    listed_A = np.empty(num_actions, np.float32)
    for row in range(num_rows):
        num_listed = to_int(0)  # a literal would be compiled for apart
        for action in range(num_actions):
            policy_BA[row, action] = 0.0
            if legal_BA[row, action]:
                actions_A[num_listed] = action
                num_listed += 1
        match_listed(advantages_BA[row], actions_A, num_listed, listed_A)
        for i in range(num_listed):
            policy_BA[row, actions_A[i]] = listed_A[i]


def regret_matching(advantages_BA: F32, legal_BA: Bool) -> F32:
    """Return a policy proportional to the positive legal advantages, zero where illegal.

    Rows with no positive legal advantage put all weight on the best legal action (Brown et al.
    2019, sec. 4), shared equally by exact ties, so that untouched advantages mean a uniform
    policy. Rows with no legal action come back as zeros.
    """
    policy_BA = np.empty(legal_BA.shape, np.float32)
    _match_rows(advantages_BA, legal_BA, policy_BA)
    return policy_BA
