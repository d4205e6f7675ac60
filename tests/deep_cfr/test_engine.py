"""The compiled engine against the plain one, move by move, and its rules one by one."""

from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from coolrl_lost_cities.games.classic import bots, engine, reference
from coolrl_lost_cities.games.classic.counter_rng import streams
from coolrl_lost_cities.games.classic.rules import (
    TINY,
    TINY_WAGER,
    Rules,
    action_name,
    discard_action,
    draw_pile_action,
    play_action,
)

FULL = Rules()
# Every field away from its default, an odd step limit that cuts inside a turn, a score cap.
ODD = Rules(
    num_colors=3,
    num_ranks=4,
    lowest_rank=5,
    num_wagers=2,
    hand_size=3,
    expedition_cost=9,
    bonus_cards=3,
    bonus=7,
    max_steps=61,
)


def play_against_reference(
    rules: Rules, num_games: int, seed: int, deck_weight: float = 1.0
) -> tuple[int, int]:
    """Play random games on both engines at once; return the games cut and the steps compared.

    Drawing from the deck is ``deck_weight`` times as likely as from any one pile.
    """
    decks_BN = engine.shuffle_decks(rules, streams(seed, 0, num_games))
    states_BR = engine.new_games(rules, decks_BN)
    games = [reference.deal(rules, deck.tolist()) for deck in decks_BN]
    legal_BA = np.empty((num_games, rules.num_actions), np.bool_)
    generator = np.random.default_rng(seed)
    expected_BR = np.empty_like(states_BR)
    cut = compared = 0
    while True:
        engine.legal_actions(rules, states_BR, legal_BA)
        expected_BA = np.zeros_like(legal_BA)
        for b, game in enumerate(games):
            expected_BA[b, game.legal_actions()] = True
        np.testing.assert_array_equal(legal_BA, expected_BA)
        for b, game in enumerate(games):
            expected_BR[b] = np.frombuffer(record(game, decks_BN[b].tobytes()), np.uint8)
        np.testing.assert_array_equal(states_BR, expected_BR)
        assert engine.scores(rules, states_BR).tolist() == [game.scores() for game in games]
        running = ~engine.is_over(states_BR)
        if not running.all():
            cut += int(engine.was_cut(states_BR).sum())
            if not running.any():
                return cut, compared
            # Finished games are compared once more than they are stepped, then leave.
            states_BR, decks_BN = states_BR[running], decks_BN[running]
            expected_BR, legal_BA = expected_BR[running], legal_BA[running]
            games = [game for game, still in zip(games, running, strict=True) if still]
        keys_BA = generator.random(legal_BA.shape)
        keys_BA[:, rules.draw_deck] **= 1.0 / deck_weight
        actions_B = np.where(legal_BA, keys_BA, -1.0).argmax(axis=1)
        engine.step(rules, states_BR, actions_B)
        for game, action in zip(games, actions_B.tolist(), strict=True):
            game.take(action)
        compared += len(games)


def record(game: reference.ReferenceGame, deck: bytes) -> bytes:
    """Write a plain game down as the engine's record, from the documented layout alone."""
    rules, slots = game.rules, game.rules.num_kinds
    steps, ended = len(game.events), 2 if game.cut else int(game.over)
    discarded = 0 if game.discarded_to is None else game.discarded_to + 1
    parts = [
        bytes([game.player, game.drawing, discarded, ended, steps % 256, steps // 256]),
        bytes([len(game.deck), *map(len, game.hands), *map(len, game.known)]),
    ]
    for cards in (
        *game.hands,
        *game.known,
        *(list(chain(*mine)) for mine in game.expeditions),
        list(chain(*game.piles)),
    ):
        counts = bytearray(rules.num_card_kinds)
        for color, slot in cards:
            counts[color * slots + slot] += 1
        parts.append(counts)
    for mine in game.expeditions:
        for cards in mine:
            numbers = [slot for _, slot in cards if slot]
            points = sum(rules.lowest_rank + slot - 1 for slot in numbers)
            last = numbers[-1] if numbers else 0
            parts.append(bytes([len(cards) - len(numbers), last, len(numbers), points]))
    parts.append(bytes(map(len, game.piles)))
    for pile in game.piles:
        parts.append(bytes(slot for _, slot in pile).ljust(rules.cards_per_color, b"\0"))
    parts.append(deck)
    if rules.remember_history:
        log = bytearray(2 * rules.max_steps)
        for i, event in enumerate(game.events):
            card = event.from_deck
            drawn = 0 if card is None else card.color * slots + card.slot + 1
            log[2 * i : 2 * i + 2] = event.action, drawn
        parts.append(log)
    return b"".join(parts)


@pytest.mark.parametrize("rules", [TINY, TINY_WAGER, ODD], ids=["tiny", "tiny_wager", "odd"])
def test_small_rules_match_the_reference_move_by_move(rules):
    cut, compared = play_against_reference(rules, num_games=400, seed=11)
    assert compared > 400 * 4
    # The limits of TINY_WAGER and of ODD are there to be met; TINY mostly ends by its deck.
    assert cut > 0


def test_fifty_full_games_match_the_reference_move_by_move():
    _, compared = play_against_reference(FULL, num_games=50, seed=3)
    assert compared > 50 * 88


@pytest.mark.slow
def test_two_thousand_full_games_match_the_reference_move_by_move():
    # Uniform play lasts 290 steps a game; this lasts 130 and meets the same rules.
    _, compared = play_against_reference(FULL, num_games=2_000, seed=5, deck_weight=12.0)
    assert compared > 2_000 * 88


GOLDEN = Path(__file__).with_name("golden")
GOLDEN_GAMES = [("full", FULL, 7), ("tiny_wager", TINY_WAGER, 7), ("odd", ODD, 8)]


def playthrough(rules: Rules, seed: int) -> str:
    """Write down one game of the heuristic against the random bot, a line a step."""
    deck_1N = engine.shuffle_decks(rules, streams(seed, 0, 1))
    state_1R = engine.new_games(rules, deck_1N)
    words_1 = streams(seed, 1, 1)
    legal_1A = np.empty((1, rules.num_actions), np.bool_)
    lines = [f"deck {' '.join(map(str, deck_1N[0]))}"]
    while not engine.is_over(state_1R)[0]:
        engine.legal_actions(rules, state_1R, legal_1A)
        player = int(engine.players(state_1R)[0])
        bot = ("safe_heuristic", "random")[player]
        action_1 = bots.bot_actions(bot, rules, state_1R, legal_1A, words_1)
        engine.step(rules, state_1R, action_1)
        points = engine.scores(rules, state_1R)[0]
        lines.append(
            f"{player} of {legal_1A.sum():2} {action_name(rules, int(action_1[0])):13} "
            f"{points[0]:4} {points[1]:4}"
        )
    lines.append("cut" if engine.was_cut(state_1R)[0] else "over")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(("name", "rules", "seed"), GOLDEN_GAMES)
def test_a_game_goes_as_it_went_before(name, rules, seed):
    """A golden changes only with the rules, a bot or the generator: say why in that commit."""
    expected = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
    assert playthrough(rules, seed) == expected


@pytest.mark.parametrize("rules", [TINY_WAGER, ODD, FULL], ids=["tiny_wager", "odd", "full"])
def test_the_list_of_legal_actions_is_the_mask_in_order(rules):
    states_BR = engine.new_games(rules, engine.shuffle_decks(rules, streams(4, 0, 50)))
    generator = np.random.default_rng(2)
    legal_BA = np.empty((50, rules.num_actions), np.bool_)
    listed_L = np.empty(rules.num_actions, np.int16)
    lay = engine.layout(rules)
    for _ in range(min(rules.max_steps + 1, 120)):
        engine.legal_actions(rules, states_BR, legal_BA)
        for state_R, legal_A in zip(states_BR, legal_BA, strict=True):
            count = engine.list_legal_one(lay, state_R, listed_L)
            assert listed_L[:count].tolist() == np.flatnonzero(legal_A).tolist()
        actions_B = np.where(legal_BA, generator.random(legal_BA.shape), -1.0).argmax(axis=1)
        engine.step(rules, states_BR, actions_B)


def stacked_game(rules: Rules, first: list[int], second: list[int]) -> np.ndarray:
    """Deal given hands, the rest of the deck in order of kinds."""
    rest = engine.full_deck(rules).tolist()
    for kind in first + second:
        rest.remove(kind)
    return engine.new_games(rules, np.array([first + second + rest], np.uint8))


def legal_names(rules: Rules, state_1R: np.ndarray) -> list[str]:
    legal_1A = np.empty((1, rules.num_actions), np.bool_)
    engine.legal_actions(rules, state_1R, legal_1A)
    return [action_name(rules, int(action)) for action in np.flatnonzero(legal_1A[0])]


SMALL = Rules(num_colors=2, num_ranks=3, num_wagers=2, hand_size=3)  # kinds 0-3 and 4-7


def test_a_turn_is_a_card_then_a_draw_and_not_from_the_pile_just_discarded_to():
    state_1R = stacked_game(SMALL, [0, 1, 3], [4, 5, 6])
    assert legal_names(SMALL, state_1R) == [
        "play 0:w",
        "play 0:2",
        "play 0:4",
        "discard 0:w",
        "discard 0:2",
        "discard 0:4",
    ]
    engine.step(SMALL, state_1R, [discard_action(SMALL, 0, 1)])
    assert legal_names(SMALL, state_1R) == ["draw deck"]
    engine.step(SMALL, state_1R, [SMALL.draw_deck])
    assert engine.players(state_1R).tolist() == [1]
    engine.step(SMALL, state_1R, [play_action(SMALL, 1, 0)])
    # The opponent may take what the first player laid off.
    assert legal_names(SMALL, state_1R) == ["draw deck", "draw pile 0"]
    engine.step(SMALL, state_1R, [draw_pile_action(SMALL, 0)])
    assert engine.scores(SMALL, state_1R).tolist() == [[0, -40]]


def test_an_expedition_ascends_and_takes_wagers_only_before_numbers():
    state_1R = stacked_game(SMALL, [0, 2, 3], [4, 5, 6])
    for action in (play_action(SMALL, 0, 2), SMALL.draw_deck):
        engine.step(SMALL, state_1R, [action])
    for action in (discard_action(SMALL, 1, 1), SMALL.draw_deck):
        engine.step(SMALL, state_1R, [action])
    # First draw: the other wager of color 0. With the 3 down, only the 4 can follow.
    assert legal_names(SMALL, state_1R) == ["play 0:4", "discard 0:w", "discard 0:4"]


def test_the_round_ends_with_the_last_deck_card_and_then_stands_still():
    state_1R = stacked_game(SMALL, [0, 1, 3], [4, 5, 6])
    for turn in range(4):
        assert not engine.is_over(state_1R)[0], turn
        legal_1A = np.empty((1, SMALL.num_actions), np.bool_)
        engine.legal_actions(SMALL, state_1R, legal_1A)
        engine.step(SMALL, state_1R, [int(legal_1A[0].argmax())])
        engine.step(SMALL, state_1R, [SMALL.draw_deck])
    assert engine.is_over(state_1R).tolist() == [True]
    assert engine.was_cut(state_1R).tolist() == [False]
    assert legal_names(SMALL, state_1R) == []
    before_1R = state_1R.copy()
    engine.step(SMALL, state_1R, [SMALL.draw_deck])
    np.testing.assert_array_equal(state_1R, before_1R)


def test_the_step_limit_cuts_and_scores_as_it_stands():
    rules = replace(SMALL, max_steps=1)
    state_1R = stacked_game(rules, [0, 1, 3], [4, 5, 6])
    engine.step(rules, state_1R, [play_action(rules, 0, 3)])
    assert engine.was_cut(state_1R).tolist() == [True]
    assert engine.steps_taken(state_1R).tolist() == [1]
    assert engine.scores(rules, state_1R).tolist() == [[-16, 0]]


def test_steps_are_counted_past_a_byte():
    states_BR = engine.new_games(FULL, engine.shuffle_decks(FULL, streams(0, 0, 200)))
    generator = np.random.default_rng(0)
    legal_BA = np.empty((200, FULL.num_actions), np.bool_)
    for _ in range(300):
        engine.legal_actions(FULL, states_BR, legal_BA)
        actions_B = np.where(legal_BA, generator.random(legal_BA.shape), -1.0).argmax(axis=1)
        engine.step(FULL, states_BR, actions_B)
    running = ~engine.is_over(states_BR)
    assert running.sum() > 10
    assert set(engine.steps_taken(states_BR[running]).tolist()) == {300}


@pytest.mark.parametrize("action", [-1, 0, SMALL.draw_deck, SMALL.num_actions])
def test_an_illegal_action_is_refused_and_moves_nothing(action):
    states_BR = np.repeat(stacked_game(SMALL, [1, 2, 3], [4, 5, 6]), 2, axis=0)
    before_BR = states_BR.copy()
    with pytest.raises(ValueError, match=f"action {action} is illegal in game 1"):
        engine.step(SMALL, states_BR, [play_action(SMALL, 0, 1), action])
    np.testing.assert_array_equal(states_BR, before_BR)


def test_decks_that_are_not_the_game_are_refused():
    deck_N = engine.full_deck(SMALL)
    with pytest.raises(ValueError, match=r"decks have shape \(1, 9\); expected \(games, 10\)"):
        engine.new_games(SMALL, deck_N[None, :9])
    doubled_N = np.where(deck_N == 7, 6, deck_N)
    with pytest.raises(ValueError, match="deck 1 holds"):
        engine.new_games(SMALL, np.stack([deck_N, doubled_N]))


def test_shuffles_are_fair_and_depend_on_their_seed_alone():
    decks_BN = engine.shuffle_decks(SMALL, streams(3, 0, 40_000))
    assert (np.sort(decks_BN, axis=1) == engine.full_deck(SMALL)).all()
    # Every kind is in every place as often as its copies say, within 5 standard errors.
    for kind, copies in enumerate([2, 1, 1, 1] * 2):
        share = copies / SMALL.num_cards
        error = np.sqrt(share * (1 - share) / 40_000)
        np.testing.assert_allclose((decks_BN == kind).mean(axis=0), share, atol=5 * error)
    alone_BN = engine.shuffle_decks(SMALL, streams(3, 17, 1))
    np.testing.assert_array_equal(alone_BN[0], decks_BN[17])


def play_in_batches(width: int) -> np.ndarray:
    """Return 64 random games after 100 steps, played so many at a time."""
    decks_BN = engine.shuffle_decks(FULL, streams(5, 0, 64))
    records = []
    for first in range(0, 64, width):
        states_BR = engine.new_games(FULL, decks_BN[first : first + width])
        words_B = streams(6, first, len(states_BR))
        legal_BA = np.empty((len(states_BR), FULL.num_actions), np.bool_)
        for _ in range(100):
            engine.legal_actions(FULL, states_BR, legal_BA)
            actions_B = bots.bot_actions("random", FULL, states_BR, legal_BA, words_B)
            engine.step(FULL, states_BR, actions_B)
        records.append(states_BR)
    return np.concatenate(records)


def test_a_game_is_the_same_whatever_is_played_beside_it():
    together_BR = play_in_batches(64)
    assert len(np.unique(together_BR, axis=0)) == 64
    for width in (1, 3):
        np.testing.assert_array_equal(play_in_batches(width), together_BR)


if __name__ == "__main__":
    for golden, its_rules, its_seed in GOLDEN_GAMES:
        (GOLDEN / f"{golden}.txt").write_text(playthrough(its_rules, its_seed), encoding="utf-8")
