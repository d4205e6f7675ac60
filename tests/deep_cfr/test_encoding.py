"""What a player knows: against the plain encoder, blind to hidden cards, even-handed in colors."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coolrl_lost_cities.games.classic import engine, reference
from coolrl_lost_cities.games.classic.counter_rng import streams
from coolrl_lost_cities.games.classic.deep_cfr import encoding
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
GAMES = [FULL, ODD, TINY, TINY_WAGER]
IDS = ["full", "odd", "tiny", "tiny_wager"]


def random_actions(rules, states_BR, generator):
    legal_BA = np.empty((len(states_BR), rules.num_actions), np.bool_)
    engine.legal_actions(rules, states_BR, legal_BA)
    return np.where(legal_BA, generator.random(legal_BA.shape), -1.0).argmax(axis=1)


def positions(rules, num_games, steps, seed=0):
    """Return games after a number of random steps, some of them over."""
    generator = np.random.default_rng(seed)
    decks_BN = engine.shuffle_decks(rules, streams(seed, 0, num_games))
    states_BR = engine.new_games(rules, decks_BN)
    for _ in range(steps):
        engine.step(rules, states_BR, random_actions(rules, states_BR, generator))
    return states_BR


def encoded(rules, states_BR, viewer=None):
    # Filled with rubbish first: every byte must be written.
    features_BE = np.full((len(states_BR), encoding.encoding_size(rules)), 99, np.uint8)
    viewers_B = None if viewer is None else np.full(len(states_BR), viewer)
    encoding.encode(rules, states_BR, features_BE, viewers_B)
    return features_BE


@pytest.mark.parametrize("rules", GAMES, ids=IDS)
def test_both_views_match_the_plain_encoder_move_by_move(rules):
    generator = np.random.default_rng(4)
    decks_BN = engine.shuffle_decks(rules, streams(21, 0, 8))
    states_BR = engine.new_games(rules, decks_BN)
    games = [reference.deal(rules, deck.tolist()) for deck in decks_BN]
    for _ in range(min(rules.max_steps, 150)):
        for viewer in range(2):
            expected = [reference.encode(game, viewer) for game in games]
            assert encoded(rules, states_BR, viewer).tolist() == expected
        expected = [reference.encode(game, game.player) for game in games]
        assert encoded(rules, states_BR).tolist() == expected
        actions_B = random_actions(rules, states_BR, generator)
        engine.step(rules, states_BR, actions_B)
        for game, action in zip(games, actions_B.tolist(), strict=True):
            if not game.over:
                game.take(action)


@pytest.mark.parametrize(
    ("rules", "steps"),
    [
        *((rules, steps) for rules in (FULL, ODD) for steps in (0, 1, 5, 40)),
        *((rules, steps) for rules in (TINY, TINY_WAGER) for steps in (0, 1, 2)),
    ],
)
def test_the_cards_that_a_viewer_cannot_see_leave_its_encoding_unchanged(rules, steps):
    states_BR = positions(rules, 64, steps)
    swapped_BR = states_BR.copy()
    lay, kinds = engine.layout(rules), rules.num_card_kinds
    generator = np.random.default_rng(9)
    changed = 0
    for viewer in range(2):
        other = 1 - viewer
        hand = lay[engine.O_HAND] + other * kinds
        known = lay[engine.O_KNOWN] + other * kinds
        for before_R, state_R in zip(states_BR, swapped_BR, strict=True):
            state_R[:] = before_R
            left = int(state_R[engine.DECK_LEFT])
            top = lay[engine.O_DECK] + rules.num_cards - left
            unknown_K = state_R[hand : hand + kinds] - state_R[known : known + kinds]
            held = np.repeat(np.arange(kinds), unknown_K)
            hidden = np.concatenate([held, state_R[top : top + left]])
            generator.shuffle(hidden)
            state_R[hand : hand + kinds] -= unknown_K
            np.add.at(state_R, hand + hidden[: len(held)], 1)
            state_R[top : top + left] = hidden[len(held) :]
        changed += int((swapped_BR != states_BR).any(axis=1).sum())
        np.testing.assert_array_equal(
            encoded(rules, swapped_BR, viewer), encoded(rules, states_BR, viewer)
        )
    # Otherwise the comparison would be of a thing with itself.
    assert changed > 32


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.permutations(range(5)), st.integers(0, 120), st.integers(0, 2**32))
def test_renaming_colors_permutes_blocks_and_actions(permutation, steps, seed):
    """Play one game under two names of its colors; the views are equal up to the renaming."""
    generator = np.random.default_rng(seed)
    decks_BN = engine.shuffle_decks(FULL, streams(seed, 0, 4))
    colors_BN, slots_BN = np.divmod(decks_BN, FULL.num_kinds)
    renamed_BN = np.array(permutation)[colors_BN] * FULL.num_kinds + slots_BN
    states_BR = engine.new_games(FULL, decks_BN)
    renamed_BR = engine.new_games(FULL, renamed_BN)
    rename_A = np.empty(FULL.num_actions, np.int64)
    rename_A[FULL.draw_deck] = FULL.draw_deck
    by_color = encoding.color_actions(FULL)
    for color, renamed in enumerate(permutation):
        rename_A[by_color[color]] = by_color[renamed]
    for _ in range(steps):
        actions_B = random_actions(FULL, states_BR, generator)
        engine.step(FULL, states_BR, actions_B)
        engine.step(FULL, renamed_BR, rename_A[actions_B])
    legal_BA = np.empty((4, FULL.num_actions), np.bool_)
    engine.legal_actions(FULL, states_BR, legal_BA)
    features_BE, mask_BA = encoding.permute_colors(
        FULL, encoded(FULL, states_BR), legal_BA, permutation
    )
    np.testing.assert_array_equal(features_BE, encoded(FULL, renamed_BR))
    engine.legal_actions(FULL, renamed_BR, legal_BA)
    np.testing.assert_array_equal(mask_BA, legal_BA)


@pytest.mark.parametrize("rules", GAMES, ids=IDS)
def test_observe_gives_what_its_parts_give(rules):
    for steps in (0, 3, 6):
        states_BR = positions(rules, 50, steps)
        features_BE = np.full((50, encoding.encoding_size(rules)), 7, np.uint8)
        legal_BA = np.ones((50, rules.num_actions), np.bool_)
        count_B = np.full(50, -1, np.int32)
        encoding.observe(rules, states_BR, features_BE, legal_BA, count_B)
        np.testing.assert_array_equal(features_BE, encoded(rules, states_BR))
        expected_BA = np.empty_like(legal_BA)
        engine.legal_actions(rules, states_BR, expected_BA)
        np.testing.assert_array_equal(legal_BA, expected_BA)
        np.testing.assert_array_equal(count_B, expected_BA.sum(axis=1))


@pytest.mark.parametrize("rules", [FULL, TINY, TINY_WAGER], ids=["full", "tiny", "tiny_wager"])
def test_scaled_features_stay_within_zero_and_two(rules):
    scale_E = encoding.encoding_scale(rules)
    assert scale_E.shape == (encoding.encoding_size(rules),)
    assert scale_E.dtype == np.float32
    largest_E = np.zeros(len(scale_E))
    for steps in range(0, 240, 7):
        scaled_BE = encoded(rules, positions(rules, 200, steps, seed=steps)) * scale_E
        largest_E = np.maximum(largest_E, scaled_BE.max(axis=0))
    assert largest_E.max() <= 2.0
    assert largest_E.min() >= 0.0
    # No feature is dead: in 200 games each of these sizes, every one of them moves.
    dead = np.flatnonzero(largest_E == 0.0)
    wager_slots = {
        color * encoding.color_block_size(rules) + block * rules.num_kinds
        for color in range(rules.num_colors)
        for block in range(5)
    }
    if rules == FULL:
        assert dead.size == 0
    if rules == TINY:
        assert wager_slots <= set(dead.tolist())  # slot 0 stays empty without wagers


def test_sizes_are_the_documented_ones():
    assert encoding.color_block_size(FULL) == 88
    assert encoding.num_common_features(FULL) == 5
    assert encoding.encoding_size(FULL) == 445
    assert encoding.encoding_size(TINY) == 2 * (6 * 4 + 3 + 16) + 5 + 2 * 8
    edges = [color * encoding.color_block_size(FULL) for color in range(6)]
    assert {after - before for before, after in pairwise(edges)} == {88}


def test_permuting_refuses_what_it_cannot_do():
    features_SE = np.zeros((1, encoding.encoding_size(FULL)), np.uint8)
    values_SA = np.zeros((1, FULL.num_actions))
    with pytest.raises(ValueError, match=r"permutation is \[0, 1, 2, 3, 3\]"):
        encoding.permute_colors(FULL, features_SE, values_SA, [0, 1, 2, 3, 3])
    with pytest.raises(ValueError, match="remember_history"):
        encoding.permute_colors(TINY, features_SE, values_SA, [1, 0])
    forgetful = replace(TINY, remember_history=False)
    size = encoding.encoding_size(forgetful)
    row_SE = np.arange(size, dtype=np.uint8)[None]
    values_SA = np.arange(forgetful.num_actions)[None]
    out_SE, out_SA = encoding.permute_colors(forgetful, row_SE, values_SA, [1, 0])
    block = encoding.color_block_size(forgetful)
    assert out_SE[0].tolist() == [
        *range(block, 2 * block),
        *range(block),
        *range(2 * block, size),
    ]
    assert out_SA[0].tolist() == [4, 5, 6, 7, 0, 1, 2, 3, *range(12, 16), *range(8, 12), 16, 18, 17]
