"""Policies as plain functions of information states, made from networks.

Axes: B rows, E encoding width, A actions.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from torch import nn

from coolrl_lost_cities.games.classic.deep_cfr.networks import forward_rows
from coolrl_lost_cities.games.classic.deep_cfr.regret import regret_matching

U8 = NDArray[np.uint8]
F32 = NDArray[np.float32]
Bool = NDArray[np.bool_]

# (player, features_BE, legal_BA) -> probabilities_BA, zero where illegal
Policy = Callable[[int, U8, Bool], F32]


def average_policy(strategy_network: nn.Module) -> Policy:
    """Return what the strategy network has learnt to play: the softmax over legal actions."""

    def policy(player: int, features_BE: U8, legal_BA: Bool) -> F32:
        logits_BA = np.where(legal_BA, forward_rows(strategy_network, features_BE), -np.inf)
        # A row without a legal action has no maximum; it comes out as zeros.
        top_B1 = logits_BA.max(axis=1, keepdims=True)
        weights_BA = np.exp(logits_BA - np.where(np.isfinite(top_B1), top_B1, 0.0))
        policy_BA: F32 = weights_BA / np.maximum(weights_BA.sum(axis=1, keepdims=True), 1e-30)
        return policy_BA.astype(np.float32)

    return policy


def current_policy(advantage_networks: Sequence[nn.Module]) -> Policy:
    """Return regret matching on each player's own advantage network: what traversals play."""

    def policy(player: int, features_BE: U8, legal_BA: Bool) -> F32:
        return regret_matching(forward_rows(advantage_networks[player], features_BE), legal_BA)

    return policy
