"""Policies as plain functions of information states, made from networks.

Axes: B rows, E encoding width, A actions.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from torch import nn

from coolrl_lost_cities.games.classic.deep_cfr.config import Precision
from coolrl_lost_cities.games.classic.deep_cfr.inference import Rows, pack_network
from coolrl_lost_cities.games.classic.deep_cfr.regret import regret_matching
from coolrl_lost_cities.games.classic.deep_cfr.softmax import softmax
from coolrl_lost_cities.games.classic.deep_cfr.traversal import ROW_BLOCK

U8 = NDArray[np.uint8]
F32 = NDArray[np.float32]
Bool = NDArray[np.bool_]

# (player, features_BE, legal_BA) -> probabilities_BA, zero where illegal
Policy = Callable[[int, U8, Bool], F32]


def average_policy(strategy_network: nn.Module, precision: Precision = "fp32") -> Policy:
    """Return what the strategy network has learnt to play now: the softmax over legal actions."""
    return softmax_policy(pack_network(strategy_network, precision))


def softmax_policy(rows: Rows) -> Policy:
    """Return the softmax over legal actions of what a strategy network answers."""

    def policy(player: int, features_BE: U8, legal_BA: Bool) -> F32:
        return softmax(_outputs(rows, features_BE), legal_BA)

    return policy


def current_policy(
    advantage_networks: Sequence[nn.Module], precision: Precision = "fp32"
) -> Policy:
    """Return regret matching on each player's own advantage network: what traversals play now."""
    return matching_policy([pack_network(network, precision) for network in advantage_networks])


def matching_policy(rows: Sequence[Rows]) -> Policy:
    """Return regret matching on what each player's own advantage network answers."""

    def policy(player: int, features_BE: U8, legal_BA: Bool) -> F32:
        own = rows[min(player, len(rows) - 1)]  # one network may play both seats
        return regret_matching(_outputs(own, features_BE), legal_BA)

    return policy


def _outputs(rows: Rows, features_BE: U8) -> F32:
    """Run a forward whose rows do not depend on how many there are."""
    count = len(features_BE)
    spare = -count % ROW_BLOCK
    if spare == 0:
        return rows(features_BE)
    return rows(np.concatenate([features_BE, np.zeros((spare, features_BE.shape[1]), np.uint8)]))[
        :count
    ]
