"""The bots: the heuristic against its plain description, strength, and what each never does."""

import numpy as np
import pytest

from coolrl_lost_cities.games.classic import bots, engine, reference
from coolrl_lost_cities.games.classic.counter_rng import streams
from coolrl_lost_cities.games.classic.reference import Card, ReferenceGame
from coolrl_lost_cities.games.classic.rules import (
    TINY_WAGER,
    Rules,
    discard_action,
    draw_pile_action,
    play_action,
)

FULL = Rules()
ODD = Rules(
    num_colors=3,
    num_ranks=6,
    lowest_rank=3,
    num_wagers=2,
    hand_size=4,
    expedition_cost=11,
    bonus_cards=4,
    bonus=7,
    max_steps=40,
)


class PlainHeuristic:
    """``safe_heuristic`` once more, over lists of cards; worths are in hundredths of a point."""

    def __init__(self, game: ReferenceGame, first_color: int) -> None:
        self.game, self.rules = game, game.rules
        self.me, self.they = game.player, 1 - game.player
        self.hand = game.hands[self.me]
        colors = range(self.rules.num_colors)
        self.colors = [*colors[first_color:], *colors[:first_color]]
        steps_left = self.rules.max_steps - len(game.events)
        self.turns = min((len(game.deck) + 1) // 2, (steps_left + 3) // 4) - game.drawing
        self.playable = {
            color: sorted(
                card
                for card in self.hand
                if card.color == color and card.slot > self.last(self.me, color)
            )
            for color in colors
        }
        self.points = {
            color: sum(self.rules.rank(card.slot) for card in cards[::-1][: max(0, self.turns)])
            for color, cards in self.playable.items()
        }
        self.open = [
            color
            for color in colors
            if game.expeditions[self.me][color] or self.points[color] >= self.rules.expedition_cost
        ]
        self.waiting = sum(len(self.playable[color]) for color in self.open)

    def last(self, player: int, color: int) -> int:
        return max((card.slot for card in self.game.expeditions[player][color]), default=0)

    def factor(self, player: int, color: int) -> int:
        return 1 + sum(card.slot == 0 for card in self.game.expeditions[player][color])

    def hope(self, points: int) -> int:
        return min(100, 100 * points // self.rules.expedition_cost)

    def worth_to_me(self, card: Card) -> int:
        color, last = card.color, self.last(self.me, card.color)
        if card.slot == 0:
            if last > 0 or len(self.playable[color]) + 1 >= self.turns:
                return 0
            return 5 * self.hope(self.points[color])
        if card.slot <= last:
            return 0
        rank = self.rules.rank(card.slot)
        if color in self.open:
            return 100 * rank * self.factor(self.me, color)
        return rank * self.hope(self.points[color] + rank) // 2

    def worth_to_them(self, card: Card) -> int:
        last = self.last(self.they, card.color)
        points = self.rules.rank(card.slot) if card.slot > 0 else 5
        if last > 0 and card.slot <= last:
            return 0
        if self.game.expeditions[self.they][card.color]:
            return 60 * points * self.factor(self.they, card.color)
        return 20 * points

    def cost_of_skipping(self, card: Card) -> int:
        game = self.game
        hidden = len(game.deck) + len(game.hands[self.they]) - len(game.known[self.they])
        drawn = min(60, 100 * self.turns // max(1, hidden))
        pile = game.piles[card.color]
        gone = game.expeditions[0][card.color] + game.expeditions[1][card.color]
        total = 0
        for slot in range(self.last(self.me, card.color) + 1, card.slot):
            skipped = Card(card.color, slot)
            if skipped in gone or skipped in game.known[self.they]:
                continue
            chance = drawn
            if skipped in pile:
                chance = 60 if pile[-1] == skipped else 10
            total += self.rules.rank(slot) * chance
        return total * self.factor(self.me, card.color)

    def kept(self) -> list[Card]:
        """Return the best playable numbers that there are turns left to play."""
        cards = [card for color in self.open for card in self.playable[color]]

        def worth(card: Card) -> tuple[int, Card]:
            return self.rules.rank(card.slot) * self.factor(self.me, card.color), card

        return sorted(cards, key=worth, reverse=True)[: max(0, self.turns)]

    def action(self) -> int:
        return self.draw() if self.game.drawing else self.card()

    def card(self) -> int:
        hurry = self.waiting >= self.turns
        kept = self.kept()
        choices = []  # (cost, action) in the order that decides among equals
        for color in self.colors:
            for card in sorted({card for card in self.hand if card.color == color}):
                if card.slot == 0:
                    ready = self.points[color] >= self.rules.expedition_cost + 4
                    if self.last(self.me, color) == 0 and ready and not hurry:
                        choices.append((-1, play_action(self.rules, *card)))
                elif card == min((c for c in kept if c.color == color), default=None):
                    cost = 0 if hurry else self.cost_of_skipping(card)
                    choices.append((cost, play_action(self.rules, *card)))
                cost = self.worth_to_me(card) + self.worth_to_them(card)
                choices.append((cost, discard_action(self.rules, *card)))
        return min(choices, key=lambda choice: choice[0])[1]

    def draw(self) -> int:
        least = -1 if self.waiting > self.turns else 250
        choices = [(least, self.rules.draw_deck)]
        for color in self.colors:
            pile = self.game.piles[color]
            if pile and self.game.discarded_to != color:
                worth = self.worth_to_me(pile[-1]) + self.worth_to_them(pile[-1]) // 2
                choices.append((worth, draw_pile_action(self.rules, color)))
        return max(choices, key=lambda choice: choice[0])[1]


@pytest.mark.parametrize(
    ("rules", "num_games"), [(FULL, 24), (ODD, 60), (TINY_WAGER, 60)], ids=["full", "odd", "tiny"]
)
@pytest.mark.parametrize("opponent", ["safe_heuristic", "random"])
def test_the_heuristic_matches_its_plain_description_move_for_move(rules, num_games, opponent):
    """The heuristic moves in one seat, the opponent in the other; every position is compared."""
    decks_BN = engine.shuffle_decks(rules, streams(31, 0, num_games))
    states_BR = engine.new_games(rules, decks_BN)
    games = [reference.deal(rules, deck.tolist()) for deck in decks_BN]
    words_B = streams(31, 1000, num_games)
    legal_BA = np.empty((num_games, rules.num_actions), np.bool_)
    lay = engine.layout(rules)
    scratch_3C = np.empty((3, rules.num_colors), np.int64)
    compared = 0
    while not engine.is_over(states_BR).all():
        engine.legal_actions(rules, states_BR, legal_BA)
        actions_B = bots.bot_actions(opponent, rules, states_BR, legal_BA, words_B)
        for b, game in enumerate(games):
            if game.over:
                continue
            first_color = compared % rules.num_colors
            chosen = bots.heuristic_one(lay, states_BR[b], first_color, scratch_3C)
            assert chosen == PlainHeuristic(game, first_color).action()
            assert legal_BA[b, chosen]
            if game.player == 0:
                actions_B[b] = chosen
            game.take(int(actions_B[b]))
            compared += 1
        engine.step(rules, states_BR, actions_B)
    assert compared > num_games * (80 if rules == FULL else 5)


def play(first: str, second: str, num_games: int, seed: int) -> dict[str, np.ndarray]:
    """Play every deal twice with seats swapped; return both bots' points and what was cut."""
    decks_BN = engine.shuffle_decks(FULL, streams(seed, 0, num_games // 2))
    states_BR = engine.new_games(FULL, np.repeat(decks_BN, 2, axis=0))
    words_B = streams(seed, 1 << 32, num_games)
    legal_BA = np.empty((num_games, FULL.num_actions), np.bool_)
    seat_B = np.arange(num_games) % 2
    while not engine.is_over(states_BR).all():
        engine.legal_actions(FULL, states_BR, legal_BA)
        firsts_turn_B = engine.players(states_BR) == seat_B
        actions_B = np.where(
            firsts_turn_B,
            bots.bot_actions(first, FULL, states_BR, legal_BA, words_B),
            bots.bot_actions(second, FULL, states_BR, legal_BA, words_B),
        )
        engine.step(FULL, states_BR, actions_B)
    points_BP = engine.scores(FULL, states_BR)
    rows = np.arange(num_games)
    return {
        "first": points_BP[rows, seat_B],
        "second": points_BP[rows, 1 - seat_B],
        "cut": engine.was_cut(states_BR),
    }


def test_the_heuristic_beats_random_in_99_of_100_games():
    result = play("safe_heuristic", "random", 1_000, seed=1)
    assert (result["first"] > result["second"]).mean() >= 0.99


def test_the_heuristic_beats_discarding_in_90_of_100_games_and_by_25_points():
    result = play("safe_heuristic", "discard_only", 1_000, seed=2)
    assert (result["first"] > result["second"]).mean() >= 0.90
    assert (result["first"] - result["second"]).mean() > 25
    assert (result["second"] == 0).all()
    assert not result["cut"].any()


def test_the_heuristic_against_itself_is_even_scores_well_and_rarely_loops():
    result = play("safe_heuristic", "safe_heuristic", 1_000, seed=3)
    difference = result["first"] - result["second"]
    assert abs(difference.mean()) < 5 * difference.std() / np.sqrt(1_000)
    assert result["first"].mean() > 30
    # Both may wait for the other at the piles; such games are cut, and counted.
    assert 0 < result["cut"].mean() < 0.11


def decisions(bot: str, repeats: int) -> tuple[np.ndarray, np.ndarray]:
    """Let a bot choose many times in one position; return its choices and the legal mask."""
    state_1R = engine.new_games(FULL, engine.shuffle_decks(FULL, streams(1, 0, 1)))
    states_BR = np.repeat(state_1R, repeats, axis=0)
    legal_BA = np.empty((repeats, FULL.num_actions), np.bool_)
    engine.legal_actions(FULL, states_BR, legal_BA)
    return (
        bots.bot_actions(bot, FULL, states_BR, legal_BA, streams(10, 0, repeats)),
        legal_BA[0],
    )


def test_random_takes_every_legal_action_equally_often():
    actions_B, legal_A = decisions("random", 20_000)
    count_A = np.bincount(actions_B, minlength=FULL.num_actions)
    assert count_A[~legal_A].sum() == 0
    expected = 20_000 / legal_A.sum()
    assert np.abs(count_A[legal_A] - expected).max() < 5 * np.sqrt(expected)


def test_discard_only_lays_off_every_card_equally_often_and_draws_from_the_deck():
    actions_B, _ = decisions("discard_only", 20_000)
    count_A = np.bincount(actions_B, minlength=FULL.num_actions)
    state_R = engine.new_games(FULL, engine.shuffle_decks(FULL, streams(1, 0, 1)))[0]
    hand = engine.layout(FULL)[engine.O_HAND]
    held_K = state_R[hand : hand + FULL.num_card_kinds].astype(np.int64)
    assert held_K.max() > 1, "the position should hold two equal wagers"
    expected_K = 20_000 * held_K / FULL.hand_size
    assert count_A[: FULL.num_card_kinds].sum() == 0
    discards_K = count_A[FULL.num_card_kinds : FULL.draw_deck]
    assert np.abs(discards_K - expected_K).max() < 5 * np.sqrt(20_000 / FULL.hand_size)
    states_BR = np.repeat(state_R[None], 3, axis=0)
    engine.step(FULL, states_BR, actions_B[:3])
    legal_BA = np.ones((3, FULL.num_actions), np.bool_)
    draws_B = bots.bot_actions("discard_only", FULL, states_BR, legal_BA, streams(1, 0, 3))
    assert draws_B.tolist() == [FULL.draw_deck] * 3


@pytest.mark.parametrize("bot", bots.BOTS)
def test_a_bot_chooses_by_its_own_game_alone(bot):
    states_BR = engine.new_games(FULL, engine.shuffle_decks(FULL, streams(12, 0, 50)))
    legal_BA = np.empty((50, FULL.num_actions), np.bool_)
    engine.legal_actions(FULL, states_BR, legal_BA)
    together_B = bots.bot_actions(bot, FULL, states_BR, legal_BA, streams(13, 0, 50))
    alone = [
        bots.bot_actions(
            bot, FULL, states_BR[b : b + 1], legal_BA[b : b + 1], streams(13, b, 1)
        ).item()
        for b in range(50)
    ]
    assert together_B.tolist() == alone
    assert len(set(alone)) > 10


def test_a_finished_game_gets_no_action_and_an_unknown_bot_is_refused():
    rules = Rules(max_steps=1)
    states_BR = engine.new_games(rules, engine.shuffle_decks(rules, streams(1, 0, 2)))
    legal_BA = np.empty((2, rules.num_actions), np.bool_)
    engine.legal_actions(rules, states_BR, legal_BA)
    words_B = streams(2, 0, 2)
    engine.step(rules, states_BR, bots.bot_actions("random", rules, states_BR, legal_BA, words_B))
    for bot in bots.BOTS:
        assert bots.bot_actions(bot, rules, states_BR, legal_BA, words_B).tolist() == [-1, -1]
    with pytest.raises(ValueError, match="bot is 'strong'; expected one of random, discard_only"):
        bots.bot_actions("strong", rules, states_BR, legal_BA, words_B)
