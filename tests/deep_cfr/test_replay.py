"""Memories of real samples: lossless, small, and colors renamed row by row."""

from dataclasses import replace

import numpy as np
import pytest

from coolrl_lost_cities.games.classic import engine
from coolrl_lost_cities.games.classic.counter_rng import streams
from coolrl_lost_cities.games.classic.deep_cfr.encoding import (
    encode,
    encoding_size,
    feature_limits,
    permute_colors,
)
from coolrl_lost_cities.games.classic.deep_cfr.memory import (
    NodeSamples,
    color_orders,
    dense,
    sample_bytes,
)
from coolrl_lost_cities.games.classic.deep_cfr.replay import build_memory, sample_shape
from coolrl_lost_cities.games.classic.deep_cfr.traversal import TraversalSpec, run_traversals
from coolrl_lost_cities.games.classic.rules import TINY, TINY_WAGER, Rules

FULL = Rules()
ODD = Rules(
    num_colors=3,
    num_ranks=4,
    lowest_rank=5,
    num_wagers=2,
    hand_size=3,
    expedition_cost=70,  # scores beyond what a byte holds
    bonus_cards=3,
    bonus=90,
    max_steps=300,
)


def samples_of(rules: Rules) -> NodeSamples:
    spec = TraversalSpec(
        seed=1, iteration=1, traverser=0, first_id=0, num_traversals=12, lanes=16, exploration=0.5
    )
    noise = np.random.default_rng(0)

    def advantages(player: int, features_BE: np.ndarray, legal_BA: np.ndarray) -> np.ndarray:
        return noise.standard_normal(legal_BA.shape).astype(np.float32)

    return run_traversals(rules, spec, advantages).advantage


@pytest.mark.parametrize("rules", [FULL, ODD, TINY, TINY_WAGER, replace(FULL, num_wagers=0)])
def test_no_feature_of_a_random_game_passes_its_limit(rules: Rules) -> None:
    generator = np.random.default_rng(3)
    states_BR = engine.new_games(rules, engine.shuffle_decks(rules, streams(5, 0, 200)))
    limits_E = feature_limits(rules)
    features_BE = np.empty((200, encoding_size(rules)), np.uint8)
    legal_BA = np.empty((200, rules.num_actions), np.bool_)
    largest_E = np.zeros_like(limits_E)
    for _ in range(min(rules.max_steps, 200)):
        for viewer in range(2):
            encode(rules, states_BR, features_BE, np.full(200, viewer))
            largest_E = np.maximum(largest_E, features_BE.max(axis=0))
        engine.legal_actions(rules, states_BR, legal_BA)
        actions_B = np.where(legal_BA, generator.random(legal_BA.shape), -1.0).argmax(axis=1)
        engine.step(rules, states_BR, actions_B)
    assert (largest_E <= limits_E).all()
    assert (largest_E > 0).mean() > 0.7


def test_six_million_samples_take_less_than_three_gigabytes() -> None:
    assert sample_bytes(sample_shape(FULL)) == 280
    assert 6_000_000 * sample_bytes(sample_shape(FULL)) < 3e9


@pytest.mark.parametrize("rules", [FULL, ODD, TINY, TINY_WAGER])
def test_stored_samples_come_back_without_loss(rules: Rules) -> None:
    samples = samples_of(rules)
    memory = build_memory(rules, len(samples) + 10, np.random.default_rng(0))
    memory.add(samples)
    number_B = np.random.default_rng(7).integers(0, len(samples), 300)
    batch = memory.sample(300, np.random.default_rng(7))
    legal_SA, values_SA = dense(samples, rules.num_actions)
    np.testing.assert_array_equal(batch.features_BE, samples.features_SE[number_B])
    np.testing.assert_array_equal(batch.legal_BA, legal_SA[number_B])
    np.testing.assert_array_equal(batch.targets_BA, values_SA[number_B])
    np.testing.assert_array_equal(batch.weights_B, samples.weights_S[number_B])


@pytest.mark.parametrize("rules", [FULL, ODD])
def test_each_row_has_its_colors_renamed_by_an_order_of_its_own(rules: Rules) -> None:
    memory = build_memory(rules, 5000, np.random.default_rng(0))
    memory.add(samples_of(rules))
    plain = memory.sample(64, np.random.default_rng(2))
    permuted = memory.sample(64, np.random.default_rng(2), permute_colors=True)
    generator = np.random.default_rng(2)
    generator.integers(0, len(memory), 64)
    word = int(generator.integers(0, 1 << 64, dtype=np.uint64))
    orders_BC = color_orders(word, 64, rules.num_colors)
    assert len(np.unique(orders_BC, axis=0)) > 5
    for b, order_C in enumerate(orders_BC):
        row = slice(b, b + 1)
        features_BE, targets_BA = permute_colors(
            rules, plain.features_BE[row], plain.targets_BA[row], order_C.tolist()
        )
        _, legal_BA = permute_colors(
            rules, plain.features_BE[row], plain.legal_BA[row], order_C.tolist()
        )
        np.testing.assert_array_equal(permuted.features_BE[row], features_BE)
        np.testing.assert_array_equal(permuted.targets_BA[row], targets_BA)
        np.testing.assert_array_equal(permuted.legal_BA[row], legal_BA)
    np.testing.assert_array_equal(permuted.weights_B, plain.weights_B)


def test_colors_stay_where_features_name_actions() -> None:
    memory = build_memory(TINY, 500, np.random.default_rng(0))
    memory.add(samples_of(TINY))
    with pytest.raises(ValueError, match="name no colors"):
        memory.sample(4, np.random.default_rng(0), permute_colors=True)
