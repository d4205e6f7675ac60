"""What a value network is shown: both hands, and nothing of the deck's order."""

import numpy as np
import pytest

from coolrl_lost_cities.games.classic import engine
from coolrl_lost_cities.games.classic.counter_rng import streams
from coolrl_lost_cities.games.classic.deep_cfr.config import load_config
from coolrl_lost_cities.games.classic.deep_cfr.encoding import (
    color_block_size,
    encode,
    encoding_size,
    kept_features,
)
from coolrl_lost_cities.games.classic.deep_cfr.histories import (
    extend_one,
    history_block_size,
    history_limits,
    history_scale,
    history_size,
)
from coolrl_lost_cities.games.classic.deep_cfr.networks import build_value_network, forward_rows
from coolrl_lost_cities.games.classic.engine import L_CARD_KINDS, MOVER, O_HAND, layout
from coolrl_lost_cities.games.classic.rules import TINY, Rules


def played(rules: Rules, games: int, steps: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    states_BR = engine.new_games(rules, engine.shuffle_decks(rules, streams(1, 0, games)))
    legal_BA = np.empty((games, rules.num_actions), np.bool_)
    for _ in range(steps):
        engine.legal_actions(rules, states_BR, legal_BA)
        actions_B = (rng.random(legal_BA.shape) * legal_BA).argmax(axis=1)
        engine.step(rules, states_BR, actions_B.astype(np.int32))
    return states_BR


def histories(rules: Rules, states_BR: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return information states and histories of the players who move."""
    features_BE = np.empty((len(states_BR), encoding_size(rules)), np.uint8)
    encode(rules, states_BR, features_BE)
    histories_BV = np.full((len(states_BR), history_size(rules)), 77, np.uint8)
    for state_R, features_E, history_V in zip(states_BR, features_BE, histories_BV, strict=True):
        extend_one(layout(rules), state_R, color_block_size(rules), features_E, history_V)
    return features_BE, histories_BV


@pytest.mark.parametrize("rules", [Rules(), TINY], ids=["full", "tiny"])
def test_a_history_is_the_information_state_and_the_other_hand(rules: Rules) -> None:
    states_BR = played(rules, 40, 5)
    features_BE, histories_BV = histories(rules, states_BR)
    blocks = rules.num_colors * history_block_size(rules)
    by_color = histories_BV[:, :blocks].reshape(len(states_BR), rules.num_colors, -1)
    own, other = np.split(by_color, [color_block_size(rules)], axis=2)
    common = histories_BV[:, blocks:]
    rebuilt = np.concatenate([own.reshape(len(own), -1), common], axis=1)
    np.testing.assert_array_equal(rebuilt, features_BE)
    lay = layout(rules)
    for state_R, hand in zip(states_BR, other, strict=True):
        start = lay[O_HAND] + (1 - int(state_R[MOVER])) * lay[L_CARD_KINDS]
        np.testing.assert_array_equal(hand.ravel(), state_R[start : start + lay[L_CARD_KINDS]])
    assert (histories_BV <= history_limits(rules)).all()
    scaled = histories_BV * history_scale(rules, np.ones(encoding_size(rules), np.bool_))
    assert scaled.max() <= 1.0 or rules is TINY


def test_a_value_network_does_not_see_what_the_others_go_without() -> None:
    rules = Rules()
    _, histories_BV = histories(rules, played(rules, 8, 20))
    scale_V = history_scale(rules, kept_features(rules, ["known", "piles"]))
    hidden_V = scale_V == 0
    assert hidden_V.sum() == rules.num_colors * (rules.num_kinds + rules.cards_per_color)
    small = ["value.hidden_size=16", "network.kind=color_shared"]
    network = build_value_network(load_config(None, [*small, "encoding.without=[known, piles]"]))
    changed_BV = np.where(hidden_V, histories_BV + 1, histories_BV).astype(np.uint8)
    outputs_BA = forward_rows(network, histories_BV)
    assert outputs_BA.shape == (8, rules.num_actions)
    np.testing.assert_array_equal(outputs_BA, forward_rows(network, changed_BV))
