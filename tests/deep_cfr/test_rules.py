"""The rules as a value: sizes, scores, names, refusals."""

from dataclasses import FrozenInstanceError, replace

import pytest

from coolrl_lost_cities.games.classic import rules as rules_module
from coolrl_lost_cities.games.classic.rules import TINY, TINY_WAGER, Rules, action_name

FULL = Rules()


def test_the_published_game_has_its_sizes():
    assert FULL.num_cards == 60
    assert FULL.num_kinds == 10
    assert FULL.num_card_kinds == 50
    assert FULL.num_actions == 106
    assert FULL.draw_deck == 100
    assert FULL.points_per_color == 54
    assert [FULL.rank(slot) for slot in range(1, 10)] == [2, 3, 4, 5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize(
    ("ranks", "wagers", "expected"),
    [
        ([], 0, 0),
        ([], 1, -40),
        ([2], 2, -54),
        (range(2, 11), 0, 54),
        (range(2, 11), 3, 156),
        ([4, 6, 10], 0, 0),
        ([2, 3, 4, 5, 6], 3, 20),  # eight cards with the wagers: (20 - 20) * 4 + 20
        ([2, 3, 4, 5, 6, 7, 8], 0, 15),  # seven: no bonus
    ],
)
def test_expeditions_score_as_the_rules_say(ranks, wagers, expected):
    assert FULL.expedition_score(sum(ranks), len(list(ranks)), wagers) == expected


def test_score_range_is_reached_by_a_split_of_the_cards_and_no_more():
    # Best: three wagers and 3 to 10 against the opponent's lone 2, in every color.
    mine = FULL.expedition_score(52, 8, 3)
    assert (mine, FULL.expedition_score(2, 1, 0)) == (148, -18)
    assert FULL.score_range == 2 * 5 * (148 + 18)
    # Without wagers: 2 and 3 and the bonus against a lone 1.
    assert TINY.score_range == 2 * 2 * ((5 - 2 + 1) - (1 - 2))
    assert TINY_WAGER.score_range == 36


@pytest.mark.parametrize(
    ("action", "name"),
    [
        (0, "play 0:w"),
        (9, "play 0:10"),
        (41, "play 4:2"),
        (50, "discard 0:w"),
        (99, "discard 4:10"),
        (100, "draw deck"),
        (101, "draw pile 0"),
        (105, "draw pile 4"),
    ],
)
def test_actions_have_names(action, name):
    assert action_name(FULL, action) == name


def test_action_numbers_agree_with_their_names():
    names = [action_name(FULL, action) for action in range(FULL.num_actions)]
    assert len(set(names)) == 106
    assert names[rules_module.play_action(FULL, 3, 1)] == "play 3:2"
    assert names[rules_module.discard_action(FULL, 3, 0)] == "discard 3:w"
    assert names[rules_module.draw_pile_action(FULL, 2)] == "draw pile 2"


@pytest.mark.parametrize("action", [-1, 106])
def test_what_is_no_action_has_no_name(action):
    with pytest.raises(ValueError, match=rf"action is {action}; expected 0 to 105"):
        action_name(FULL, action)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_colors": 0}, "rules.num_colors is 0; expected a whole number from 1 to 15"),
        ({"num_ranks": 21}, "rules.num_ranks is 21"),
        ({"num_wagers": -1}, "rules.num_wagers is -1"),
        ({"max_steps": 0}, "rules.max_steps is 0"),
        ({"hand_size": 8.0}, "rules.hand_size is 8.0"),
        ({"bonus": True}, "rules.bonus is True"),
        ({"hand_size": 30}, "rules.hand_size is 30, which leaves no deck of 60 cards"),
        ({"lowest_rank": 30}, "make 306 points a color; expected at most 255"),
        ({"num_colors": 15, "num_ranks": 15}, "make 270 cards; expected at most 255"),
        ({"remember_history": 1}, "rules.remember_history is 1; expected true or false"),
        ({"remember_history": True}, "too large to remember"),
    ],
)
def test_rules_that_cannot_be_played_are_refused_by_name(change, message):
    with pytest.raises(ValueError, match=message):
        replace(FULL, **change)


def test_digest_tells_rules_apart_and_rules_do_not_change():
    assert FULL.digest() == Rules(num_colors=5).digest()
    digests = {rules.digest() for rules in (FULL, TINY, TINY_WAGER, replace(FULL, bonus=21))}
    assert len(digests) == 4
    assert all(len(digest) == 16 for digest in digests)
    with pytest.raises(FrozenInstanceError):
        FULL.bonus = 3  # type: ignore[misc]
