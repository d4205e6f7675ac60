# ruff: noqa: N815 -- fields are arrays, and array names end in their axes
"""Three opponents of known strength, each choosing for many games at once.

Axes: B games, R bytes of a record, A actions, C colors, K card kinds.

``random`` takes any legal action. ``discard_only`` lays off any card and draws from the deck.
``safe_heuristic`` opens only what reaches the cost with cards in hand and turns left, plays in
order, keeps from its discards what the opponent could play, and takes useful cards from piles; only
its choice among equals is random. Each game has its own generator word, so a bot's choice never
depends on the games beside it.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from coolrl_lost_cities.games.classic.counter_rng import next_below, to_int
from coolrl_lost_cities.games.classic.engine import (
    CARD_STEP,
    DECK_LEFT,
    DISCARDED,
    EXP_LAST,
    EXP_NUMBERS,
    EXP_WAGERS,
    EXP_WIDTH,
    HAND_SIZES,
    L_CARD_KINDS,
    L_COLORS,
    L_COST,
    L_DRAW,
    L_HAND,
    L_KINDS,
    L_LOWEST,
    L_MAX_STEPS,
    L_PILE,
    L_RANKS,
    MOVER,
    NUM_KNOWN,
    O_EXP,
    O_HAND,
    O_HEIGHT,
    O_KNOWN,
    O_PILE,
    O_PILED,
    O_PLAYED,
    OVER,
    PHASE,
    RUNNING,
    layout,
    steps_one,
)
from coolrl_lost_cities.games.classic.kernel_options import INNER, KERNEL
from coolrl_lost_cities.games.classic.rules import Rules

BOTS = ("random", "discard_only", "safe_heuristic")

# The heuristic counts in hundredths of a point; these are its opinions.
_CERTAIN = 100
_PILE_TOP = 60  # chance, in hundredths, of still getting a card that lies on top of a pile
_BURIED = 10
_FED = 60  # share of a card's worth to an opponent who has opened its color
_MAYBE_FED = 20
_WAGER_POINTS = 5  # a wager is worth as much as this number while its color can take it
_DECK_WORTH = 250
_WAGER_MARGIN = 4  # points beyond the cost that a wager asks of its color
_NEVER = 1 << 40


class _Plan(NamedTuple):
    """How the mover stands: per color, numbers in hand still playable, the points of the best that
    there is time for, and whether the expedition is open or may be opened."""

    first_color: int  # where looking through the colors begins, which decides among equals
    turns: int  # card steps still to come at the deck's pace
    waiting: int  # numbers that could be played on expeditions open or to be opened
    playable_C: np.ndarray
    points_C: np.ndarray
    open_C: np.ndarray  # 0 or 1


@njit(**INNER)
def _turns_left(lay: np.ndarray, state_R: np.ndarray) -> int:
    """Return the card steps still to come for the mover, this one included, at the deck's pace."""
    by_deck = (to_int(state_R[DECK_LEFT]) + 1) // 2
    by_limit = (lay[L_MAX_STEPS] - steps_one(state_R) + 3) // 4
    return min(by_deck, by_limit)


@njit(**INNER)
def _assess(
    lay: np.ndarray, state_R: np.ndarray, first_color: int, scratch_3C: np.ndarray
) -> _Plan:
    player = to_int(state_R[MOVER])
    colors = lay[L_COLORS]
    turns = _turns_left(lay, state_R)
    if state_R[PHASE] != CARD_STEP:
        turns -= 1
    playable_C, points_C, open_C = scratch_3C[0], scratch_3C[1], scratch_3C[2]
    waiting = 0
    for color in range(colors):
        playable_C[color] = 0
        points_C[color] = 0
        exp = lay[O_EXP] + (player * colors + color) * EXP_WIDTH
        hand = lay[O_HAND] + player * lay[L_CARD_KINDS] + color * lay[L_KINDS]
        for slot in range(lay[L_RANKS], to_int(state_R[exp + EXP_LAST]), -1):
            if state_R[hand + slot] > 0:
                if playable_C[color] < turns:
                    points_C[color] += lay[L_LOWEST] + slot - 1
                playable_C[color] += 1
        started = state_R[exp + EXP_NUMBERS] > 0 or state_R[exp + EXP_WAGERS] > 0
        open_C[color] = started or points_C[color] >= lay[L_COST]
        if open_C[color]:
            waiting += playable_C[color]
    return _Plan(first_color, turns, waiting, playable_C, points_C, open_C)


@njit(**INNER)
def _hope(lay: np.ndarray, points: int) -> int:
    """Return in hundredths how far a color's cards in hand have come towards its cost."""
    if lay[L_COST] == 0:
        return 100
    return min(100, 100 * points // lay[L_COST])


@njit(**INNER)
def _worth_to_me(lay: np.ndarray, state_R: np.ndarray, plan: _Plan, color: int, slot: int) -> int:
    """Return what holding a card is worth to the mover."""
    player = to_int(state_R[MOVER])
    exp = lay[O_EXP] + (player * lay[L_COLORS] + color) * EXP_WIDTH
    last = to_int(state_R[exp + EXP_LAST])
    if slot == 0:
        if last > 0 or plan.playable_C[color] + 1 >= plan.turns:
            return 0
        return _WAGER_POINTS * _hope(lay, plan.points_C[color])
    if slot <= last:
        return 0
    points = lay[L_LOWEST] + slot - 1
    if plan.open_C[color]:
        return points * _CERTAIN * (1 + to_int(state_R[exp + EXP_WAGERS]))
    return points * _hope(lay, plan.points_C[color] + points) // 2


@njit(**INNER)
def _worth_to_them(lay: np.ndarray, state_R: np.ndarray, color: int, slot: int) -> int:
    """Return what a card on a pile is worth to the opponent."""
    other = 1 - to_int(state_R[MOVER])
    exp = lay[O_EXP] + (other * lay[L_COLORS] + color) * EXP_WIDTH
    last = to_int(state_R[exp + EXP_LAST])
    wagers = to_int(state_R[exp + EXP_WAGERS])
    started = last > 0 or wagers > 0
    if slot == 0:
        points = _WAGER_POINTS if last == 0 else 0
    else:
        points = lay[L_LOWEST] + slot - 1 if slot > last else 0
    return points * (_FED * (1 + wagers) if started else _MAYBE_FED)


@njit(**INNER)
def _cost_of_skipping(
    lay: np.ndarray, state_R: np.ndarray, color: int, slot: int, turns: int
) -> int:
    """Return what the cards below a number might still have brought."""
    player = to_int(state_R[MOVER])
    colors = lay[L_COLORS]
    kinds = lay[L_CARD_KINDS]
    exp = lay[O_EXP] + (player * colors + color) * EXP_WIDTH
    unseen = to_int(state_R[DECK_LEFT]) + to_int(state_R[HAND_SIZES + 1 - player])
    unseen = max(1, unseen - to_int(state_R[NUM_KNOWN + 1 - player]))
    drawn = min(_PILE_TOP, 100 * turns // unseen)
    height = to_int(state_R[lay[O_HEIGHT] + color])
    top = -1
    if height > 0:
        top = to_int(state_R[lay[O_PILE] + color * lay[L_PILE] + height - 1])
    total = 0
    for skipped in range(to_int(state_R[exp + EXP_LAST]) + 1, slot):
        kind = color * lay[L_KINDS] + skipped
        if (
            state_R[lay[O_PLAYED] + kind] + state_R[lay[O_PLAYED] + kinds + kind] > 0
            or state_R[lay[O_KNOWN] + (1 - player) * kinds + kind] > 0
        ):
            continue
        chance = drawn
        if state_R[lay[O_PILED] + kind] > 0:
            chance = _PILE_TOP if skipped == top else _BURIED
        total += (lay[L_LOWEST] + skipped - 1) * chance
    return total * (1 + to_int(state_R[exp + EXP_WAGERS]))


@njit(**INNER)
def _is_kept(lay: np.ndarray, state_R: np.ndarray, plan: _Plan, color: int, slot: int) -> bool:
    """Say whether a playable number is among the best that there are turns left to play."""
    player = to_int(state_R[MOVER])
    colors = lay[L_COLORS]
    exps = lay[O_EXP] + player * colors * EXP_WIDTH
    hand = lay[O_HAND] + player * lay[L_CARD_KINDS]
    own = (lay[L_LOWEST] + slot - 1) * (1 + to_int(state_R[exps + color * EXP_WIDTH]))
    better = 0
    for other in range(colors):
        if not plan.open_C[other]:
            continue
        exp = exps + other * EXP_WIDTH
        for held in range(to_int(state_R[exp + EXP_LAST]) + 1, lay[L_RANKS] + 1):
            if state_R[hand + other * lay[L_KINDS] + held] > 0:
                worth = (lay[L_LOWEST] + held - 1) * (1 + to_int(state_R[exp + EXP_WAGERS]))
                if worth > own or (worth == own and (other, held) > (color, slot)):
                    better += 1
    return better < plan.turns


@njit(**KERNEL)
def heuristic_one(
    lay: np.ndarray, state_R: np.ndarray, first_color: int, scratch_3C: np.ndarray
) -> int:
    """Return the action of ``safe_heuristic``; among equals, colors from ``first_color`` on win."""
    plan = _assess(lay, state_R, first_color, scratch_3C)
    if state_R[PHASE] == CARD_STEP:
        return _heuristic_card(lay, state_R, plan)
    return _heuristic_draw(lay, state_R, plan)


@njit(**INNER)
def _heuristic_card(lay: np.ndarray, state_R: np.ndarray, plan: _Plan) -> int:
    player = to_int(state_R[MOVER])
    colors = lay[L_COLORS]
    best_cost = _NEVER
    best_action = -1
    hand = lay[O_HAND] + player * lay[L_CARD_KINDS]
    for i in range(colors):
        color = (plan.first_color + i) % colors
        last = to_int(state_R[lay[O_EXP] + (player * colors + color) * EXP_WIDTH + EXP_LAST])
        lowest_seen = False
        for slot in range(lay[L_KINDS]):
            kind = color * lay[L_KINDS] + slot
            if state_R[hand + kind] == 0:
                continue
            cost = _NEVER
            if slot == 0:
                ready = plan.points_C[color] >= lay[L_COST] + _WAGER_MARGIN
                if last == 0 and ready and plan.waiting < plan.turns:
                    cost = -1
            elif (
                slot > last
                and plan.open_C[color]
                and not lowest_seen
                and _is_kept(lay, state_R, plan, color, slot)
            ):
                lowest_seen = True
                cost = 0
                if plan.waiting < plan.turns:
                    cost = _cost_of_skipping(lay, state_R, color, slot, plan.turns)
            if cost < best_cost:
                best_cost = cost
                best_action = kind
            cost = _worth_to_me(lay, state_R, plan, color, slot)
            cost += _worth_to_them(lay, state_R, color, slot)
            if cost < best_cost:
                best_cost = cost
                best_action = lay[L_CARD_KINDS] + kind
    return best_action


@njit(**INNER)
def _heuristic_draw(lay: np.ndarray, state_R: np.ndarray, plan: _Plan) -> int:
    best_worth = _DECK_WORTH
    best_action = lay[L_DRAW]
    colors = lay[L_COLORS]
    # Taking from a pile leaves the deck, and so the end, where it is.
    if plan.waiting > plan.turns:
        best_worth = -1
    for i in range(colors):
        color = (plan.first_color + i) % colors
        height = to_int(state_R[lay[O_HEIGHT] + color])
        if height == 0 or state_R[DISCARDED] == color + 1:
            continue
        slot = to_int(state_R[lay[O_PILE] + color * lay[L_PILE] + height - 1])
        worth = _worth_to_me(lay, state_R, plan, color, slot)
        worth += _worth_to_them(lay, state_R, color, slot) // 2
        if worth > best_worth:
            best_worth = worth
            best_action = lay[L_DRAW] + 1 + color
    return best_action


@njit(**INNER)
def _random_one(actions_L: np.ndarray, num_legal: int, words_B: np.ndarray, b: int) -> int:
    return to_int(actions_L[next_below(words_B, b, num_legal)])


@njit(**INNER)
def _discard_one(lay: np.ndarray, state_R: np.ndarray, words_B: np.ndarray, b: int) -> int:
    if state_R[PHASE] != CARD_STEP:
        return lay[L_DRAW]
    player = to_int(state_R[MOVER])
    hand = lay[O_HAND] + player * lay[L_CARD_KINDS]
    # Card by card, so that a kind held twice goes twice as often.
    skip = next_below(words_B, b, lay[L_HAND])
    kind = 0
    while skip >= state_R[hand + kind]:
        skip -= to_int(state_R[hand + kind])
        kind += 1
    return lay[L_CARD_KINDS] + kind


@njit(**INNER)
def bot_one(  # noqa: PLR0917 -- kernels take no keywords
    lay: np.ndarray,
    which: int,
    state_R: np.ndarray,
    actions_L: np.ndarray,
    num_legal: int,
    words_B: np.ndarray,
    b: int,
    scratch_3C: np.ndarray,
) -> int:
    """Return the action of bot number ``which`` in a running game, drawing with generator ``b``.

    ``actions_L`` begins with the legal actions in order; what is in ``scratch_3C``, int64, is lost.
    """
    if which == 0:
        return _random_one(actions_L, num_legal, words_B, b)
    if which == 1:
        return _discard_one(lay, state_R, words_B, b)
    return heuristic_one(lay, state_R, next_below(words_B, b, lay[L_COLORS]), scratch_3C)


@njit(cache=True)
def _act_all(
    lay: np.ndarray, which: int, states_BR: np.ndarray, legal_BA: np.ndarray, words_B: np.ndarray
) -> np.ndarray:
    out_B = np.empty(len(states_BR), np.int32)
    actions_L = np.empty(legal_BA.shape[1], np.int16)
    scratch_3C = np.empty((3, lay[L_COLORS]), np.int64)
    for b in range(len(states_BR)):
        if states_BR[b, OVER] != RUNNING:
            out_B[b] = -1
        else:
            num_legal = to_int(0)
            for action in range(legal_BA.shape[1]):
                if legal_BA[b, action]:
                    actions_L[num_legal] = action
                    num_legal += 1
            out_B[b] = bot_one(
                lay, which, states_BR[b], actions_L, num_legal, words_B, b, scratch_3C
            )
    return out_B


def bot_number(name: str) -> int:
    """Return the number by which kernels know a bot; raise ValueError for one of another name."""
    if name not in BOTS:
        raise ValueError(f"bot is {name!r}; expected one of {', '.join(BOTS)}")
    return BOTS.index(name)


def bot_actions(
    name: str,
    rules: Rules,
    states_BR: np.ndarray,
    legal_BA: np.ndarray,
    words_B: np.ndarray,
) -> np.ndarray:
    """Return a bot's action (int32) for the player to move of each game, -1 where it is over.

    ``words_B`` holds a generator (uint64) for each game and is advanced in place. Raises
    ValueError for a bot of another name.
    """
    return _act_all(layout(rules), bot_number(name), states_BR, legal_BA, words_B)
