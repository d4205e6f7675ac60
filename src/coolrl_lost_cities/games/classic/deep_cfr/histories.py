"""What is known when both hands are: the input of a value network.

A value is learned from whole histories, not from what one player knows, because the cards that the
opponent holds explain most of what happens next. The deck's order stays out. Only training sees
these features; no policy does.

Axes: V history features, E features of an information state, C colors.

The vector is that of `encoding`, with the opponent's hand by kind at the end of each color's block;
so blocks are renamed with their colors as there.
"""

import numpy as np
from numba import njit

from coolrl_lost_cities.games.classic.counter_rng import to_int
from coolrl_lost_cities.games.classic.deep_cfr.encoding import (
    color_block_size,
    encoding_scale,
    encoding_size,
    feature_limits,
)
from coolrl_lost_cities.games.classic.engine import L_CARD_KINDS, L_COLORS, L_KINDS, MOVER, O_HAND
from coolrl_lost_cities.games.classic.kernel_options import KERNEL
from coolrl_lost_cities.games.classic.rules import Rules


@njit(**KERNEL)
def extend_one(
    lay: np.ndarray,
    state_R: np.ndarray,
    color_size: int,
    features_E: np.ndarray,
    out_V: np.ndarray,
) -> None:
    """Write the history features of a game from the mover's information state, both uint8."""
    kinds = lay[L_KINDS]
    hand = lay[O_HAND] + (1 - to_int(state_R[MOVER])) * lay[L_CARD_KINDS]
    at = 0
    for color in range(lay[L_COLORS]):
        for feature in range(color_size):
            out_V[at + feature] = features_E[color * color_size + feature]
        at += color_size
        for kind in range(kinds):
            out_V[at + kind] = to_int(state_R[hand + color * kinds + kind])
        at += kinds
    common = lay[L_COLORS] * color_size
    for feature in range(len(features_E) - common):
        out_V[at + feature] = features_E[common + feature]


def history_block_size(rules: Rules) -> int:
    """Return the features of one color's block."""
    return color_block_size(rules) + rules.num_kinds


def history_size(rules: Rules) -> int:
    """Return V, the width of a history."""
    return encoding_size(rules) + rules.num_card_kinds


def history_scale(rules: Rules, kept_E: np.ndarray) -> np.ndarray:
    """Return the float32 factor of each feature that brings it to about 0 to 1, shape (V,).

    It is 0 for features of the information state that are not kept.
    """
    hand = np.ones(rules.num_kinds, np.float32)
    hand[0] = 1.0 / max(1, rules.num_wagers)
    return _extended(rules, encoding_scale(rules) * kept_E, hand)


def history_limits(rules: Rules) -> np.ndarray:
    """Return the largest value that each feature can take, uint8 of shape (V,)."""
    hand = np.ones(rules.num_kinds, np.uint8)
    hand[0] = rules.num_wagers
    return _extended(rules, feature_limits(rules), hand)


def _extended(rules: Rules, state_E: np.ndarray, hand_K: np.ndarray) -> np.ndarray:
    blocks = rules.num_colors * color_block_size(rules)
    by_color = state_E[:blocks].reshape(rules.num_colors, -1)
    hands = np.tile(hand_K, (rules.num_colors, 1))
    return np.concatenate([np.concatenate([by_color, hands], axis=1).ravel(), state_E[blocks:]])
