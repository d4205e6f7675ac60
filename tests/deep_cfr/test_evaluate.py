"""Matches: known results, fair sampling, honest intervals."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from coolrl_lost_cities.games.classic import bots, engine, reference
from coolrl_lost_cities.games.classic.counter_rng import streams
from coolrl_lost_cities.games.classic.deep_cfr import encoding, evaluate
from coolrl_lost_cities.games.classic.deep_cfr.evaluate import play_matches
from coolrl_lost_cities.games.classic.rules import TINY, TINY_WAGER, Rules

FULL = Rules()


def uniform(player, features_GE, legal_GA):
    return legal_GA / legal_GA.sum(axis=1, keepdims=True)


def never_play(player, features_GE, legal_GA):
    """Discard any card and draw from the deck, as ``discard_only`` does."""
    allowed_GA = legal_GA.copy()
    allowed_GA[:, : FULL.num_card_kinds] = False
    allowed_GA[:, FULL.draw_deck + 1 :] = False
    return allowed_GA / allowed_GA.sum(axis=1, keepdims=True)


def test_discarding_against_discarding_is_always_a_draw():
    result = play_matches(FULL, never_play, "discard_only", 40, seed=0)
    assert result.draws == result.games == 40
    assert (result.wins, result.losses, result.win_rate) == (0, 0, 0.0)
    assert (result.mean_score, result.score_se, result.mean_points) == (0.0, 0.0, 0.0)
    assert (result.opened_colors, result.expedition_score) == (0.0, 0.0)
    assert result.mean_steps == 4 * 22  # 44 deck cards, two steps each
    assert result.cut_games == 0


def test_uniform_play_equals_the_random_bot_and_loses_to_the_heuristic():
    even = play_matches(FULL, uniform, "random", 1_000, seed=3)
    assert even.wins + even.draws + even.losses == 1_000
    assert even.interval_low < 0.5 < even.interval_high
    assert abs(even.mean_score) < 4 * even.score_se
    beaten = play_matches(FULL, uniform, "safe_heuristic", 200, seed=3)
    assert beaten.win_rate <= 0.02
    assert beaten.mean_score < -100
    assert beaten.mean_points < -40


def test_cut_games_are_counted():
    rules = replace(FULL, max_steps=11)
    result = play_matches(rules, uniform, "random", 20, seed=1)
    assert (result.cut_games, result.mean_steps) == (20, 11.0)


def test_the_policy_is_asked_for_its_own_seat_and_only_where_it_has_a_choice():
    seats = set()

    def policy(player, features_GE, legal_GA):
        seats.add(player)
        assert (legal_GA.sum(axis=1) > 1).all()
        # The first common features: my card step, my draw step.
        assert (features_GE[:, -5] + features_GE[:, -4] == 1).all()
        return uniform(player, features_GE, legal_GA)

    result = play_matches(FULL, policy, "random", 20, seed=2)
    assert seats == {0, 1}
    assert result.games == 20


def play_one_by_one(rules, policy, bot, num_games, seed):
    """Play what ``play_matches`` plays, a game at a time; return the finished reference games."""
    deal_seed, policy_seed, bot_seed = np.random.SeedSequence(seed).generate_state(3, np.uint64)
    decks_DN = engine.shuffle_decks(rules, streams(int(deal_seed), 0, num_games // 2))
    features_1E = np.empty((1, encoding.encoding_size(rules)), np.uint8)
    legal_1A = np.empty((1, rules.num_actions), np.bool_)
    finished = []
    for number in range(num_games):
        seat, deck_1N = number % 2, decks_DN[number // 2 : number // 2 + 1]
        policy_word_1 = streams(int(policy_seed), number, 1)
        bot_word_1 = streams(int(bot_seed), number, 1)
        state_1R = engine.new_games(rules, deck_1N)
        game = reference.deal(rules, deck_1N[0].tolist())
        while not game.over:
            engine.legal_actions(rules, state_1R, legal_1A)
            if game.player != seat:
                action_1 = bots.bot_actions(bot, rules, state_1R, legal_1A, bot_word_1)
            elif legal_1A.sum() == 1:
                action_1 = legal_1A.argmax(axis=1)
            else:
                encoding.encode(rules, state_1R, features_1E)
                policy_1A = policy(seat, features_1E, legal_1A)
                first = np.zeros(1, np.int64)
                action_1 = evaluate.sample_actions(policy_1A, legal_1A, policy_word_1, first)
            game.take(int(action_1[0]))
            engine.step(rules, state_1R, action_1)
        finished.append(game)
    return finished


def leaning(player, features_GE, legal_GA):
    """Depend on every byte of the row and on the seat, so that a mixed-up row would show."""
    lean_G = features_GE.astype(np.float64) @ np.arange(features_GE.shape[1]) + player
    weights_GA = legal_GA * (1.0 + np.abs(np.sin(np.outer(lean_G, np.arange(legal_GA.shape[1])))))
    return weights_GA / weights_GA.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("bot", bots.BOTS)
@pytest.mark.parametrize(
    ("rules", "num_games"), [(FULL, 8), (TINY_WAGER, 40)], ids=["full", "tiny_wager"]
)
def test_a_match_is_the_same_games_as_play_one_by_one(rules, num_games, bot):
    games = play_one_by_one(rules, leaning, bot, num_games, seed=8)
    points = [
        (game.scores()[number % 2], game.scores()[1 - number % 2])
        for number, game in enumerate(games)
    ]
    opened = [
        pile for number, game in enumerate(games) for pile in game.expeditions[number % 2] if pile
    ]
    result = play_matches(rules, leaning, bot, num_games, seed=8)
    assert result.wins == sum(own > other for own, other in points)
    assert result.losses == sum(own < other for own, other in points)
    assert result.mean_score == pytest.approx(np.mean([own - other for own, other in points]))
    assert result.mean_points == pytest.approx(np.mean([own for own, _ in points]))
    assert result.opened_colors == pytest.approx(len(opened) / num_games)
    total = sum(own for own, _ in points)
    assert result.expedition_score == pytest.approx(total / max(1, len(opened)))
    assert result.mean_steps == pytest.approx(np.mean([len(game.events) for game in games]))
    assert result.cut_games == sum(game.cut for game in games)
    # However many lanes: one, some that refill at odd times, more than there are games.
    for lanes in (1, 5, 1000):
        assert play_matches(rules, leaning, bot, num_games, seed=8, lanes=lanes) == result


def test_the_policy_is_asked_for_full_batches_until_the_last_games_run_out():
    sizes = []

    def policy(player, features_GE, legal_GA):
        sizes.append(len(features_GE))
        return uniform(player, features_GE, legal_GA)

    play_matches(FULL, policy, "discard_only", 200, seed=4, lanes=20)
    # Games are finished one after the other, and the lanes hold no finished one.
    both_seats = [first + second for first, second in pairwise(sizes[: len(sizes) // 2])]
    assert max(sizes) <= 20
    assert np.mean(both_seats) > 19


def rows_asked_about(rules, num_games, seed):
    """Play a match; return its result and how often each information state came up."""
    rows = Counter()

    def policy(player, features_GE, legal_GA):
        rows.update((player, row.tobytes()) for row in features_GE)
        return uniform(player, features_GE, legal_GA)

    return play_matches(rules, policy, "safe_heuristic", num_games, seed), rows


@pytest.mark.parametrize("rules", [FULL, TINY_WAGER], ids=["full", "tiny_wager"])
def test_a_match_repeats_and_its_first_games_do_not_depend_on_how_many_follow(rules):
    result, rows = rows_asked_about(rules, 20, seed=5)
    assert rows_asked_about(rules, 20, seed=5) == (result, rows)
    assert rows_asked_about(rules, 20, seed=6)[1] != rows
    _, first_rows = rows_asked_about(rules, 4, seed=5)
    assert first_rows.total() >= 4
    assert first_rows <= rows


def test_sampling_follows_the_policy():
    policy_GA = np.tile(np.array([[0.5, 0.0, 0.2, 0.3]], np.float32), (40_000, 1))
    legal_GA = policy_GA > 0
    words_B = streams(1, 0, 40_000)
    games_G = np.arange(40_000)
    actions_G = evaluate.sample_actions(policy_GA, legal_GA, words_B, games_G)
    shares = np.bincount(actions_G, minlength=4) / 40_000
    errors = np.sqrt(policy_GA[0] * (1 - policy_GA[0]) / 40_000)
    assert (np.abs(shares - policy_GA[0]) <= 5 * errors).all()
    # A row draws with the generator of its own game.
    alone = evaluate.sample_actions(policy_GA[:1], legal_GA[:1], streams(1, 0, 9), np.array([7]))
    assert alone[0] == actions_G[7]


@pytest.mark.parametrize(
    "row",
    [
        [0.5, 0.4, 0.0, 0.0],  # sums to 0.9
        [0.5, 0.3, 0.2, 0.0],  # 0.2 on an illegal action
        [1.5, -0.5, 0.0, 0.0],
        [float("nan"), 1.0, 0.0, 0.0],
    ],
)
def test_what_is_no_policy_is_refused(row):
    policy_GA = np.array([[0.5, 0.5, 0.0, 0.0], row], np.float32)
    legal_GA = np.array([[True, True, False, False]] * 2)
    with pytest.raises(ValueError, match=r"row 1 of the policy .* expected probabilities of legal"):
        evaluate.sample_actions(policy_GA, legal_GA, streams(0, 0, 2), np.arange(2))


def test_odd_numbers_of_games_and_unknown_bots_are_refused():
    with pytest.raises(ValueError, match="num_games is 7; expected an even number"):
        play_matches(TINY, uniform, "random", 7, seed=0)
    with pytest.raises(ValueError, match="bot is 'nobody'"):
        play_matches(TINY, uniform, "nobody", 2, seed=0)


@pytest.mark.parametrize(
    ("rate", "trials", "low", "high"),
    # Computed by hand from Wilson's formula with z = 1.96.
    [(0.0, 10, 0.0, 0.2775), (0.5, 100, 0.4038, 0.5962), (0.9, 50, 0.7864, 0.9565)],
)
def test_wilson_intervals_are_known(rate, trials, low, high):
    assert evaluate.wilson_interval(rate, trials) == pytest.approx((low, high), abs=1e-4)


def test_the_design_effect_widens_intervals_where_mirrored_games_agree_and_never_narrows():
    agree_B = np.array([True, True, False, False] * 50)
    differ_B = np.array([True, False, True, False] * 50)
    assert evaluate.design_effect(agree_B) == pytest.approx(2.0, rel=0.02)
    assert evaluate.design_effect(differ_B) == 1.0
    assert evaluate.design_effect(np.ones(10, np.bool_)) == 1.0
    independent_B = np.random.default_rng(0).random(20_000) < 0.3
    assert evaluate.design_effect(independent_B) == pytest.approx(1.0, abs=0.05)


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    """400 matches of 40 independent games won with chance 0.3; 95% of intervals hold 0.3."""
    generator = np.random.default_rng(7)
    covered = 0
    for _ in range(400):
        won_B = generator.random(40) < 0.3
        low, high = evaluate.wilson_interval(won_B.mean(), 40 / evaluate.design_effect(won_B))
        covered += low <= 0.3 <= high
    # The standard error of the share is 1.1%; the floor of the design effect adds to the cover.
    assert 0.93 <= covered / 400 <= 0.995
