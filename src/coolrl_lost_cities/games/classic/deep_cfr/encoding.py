"""What one player knows, as small whole numbers: the information state.

Axes: B games, S samples, E features, A actions, R record bytes, C colors.

The vector is one block a color, then the common features; "mine" is the viewer. With k kinds of
card in a color and h cards a color, a block holds:

    k  in my hand, by kind               h  the pile: numbers by slot, then wagers from the top
    k  on my expedition, by kind            down; the top card counts h, each below one less, a
    k  on the opponent's, by kind           card that does not lie there 0
    k  unseen: in the deck or among      k  the pile's top card, by kind
       the opponent's unknown cards      1  height of the pile
    k  known to be in the opponent's     1  whether this turn discarded to it
       hand

    for me and then for the opponent: last slot, numbers, points, score + cost * (1 + all wagers),
    cards to the bonus, points still open (above the last card, neither played nor in the other's
    known hand); for me also: numbers and points in hand that can still be played.

The common features: my card step, my draw step, deck count, steps left, the opponent's unknown
cards. Counts are capped at 255 (steps left in long games, scores of unusual rules). Where the rules
remember history, two bytes a step follow: the action plus 1, and the kind the viewer drew plus 1.

The opponent's unknown cards and the deck's order never enter. Without history the vector is all
that matters publicly now, but not the order in which it came about.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numba import njit

from coolrl_lost_cities.games.classic.counter_rng import to_int
from coolrl_lost_cities.games.classic.engine import (
    CARD_STEP,
    DECK_LEFT,
    DISCARDED,
    EXP_LAST,
    EXP_NUMBERS,
    EXP_POINTS,
    EXP_WAGERS,
    EXP_WIDTH,
    HAND_SIZES,
    L_BONUS,
    L_BONUS_CARDS,
    L_CARD_KINDS,
    L_COLORS,
    L_COST,
    L_KINDS,
    L_LOWEST,
    L_MAX_STEPS,
    L_PILE,
    L_RANKS,
    L_REMEMBER,
    L_WAGERS,
    MOVER,
    NUM_KNOWN,
    O_EXP,
    O_HAND,
    O_HEIGHT,
    O_KNOWN,
    O_LOG,
    O_PILE,
    O_PILED,
    O_PLAYED,
    OVER,
    PHASE,
    RUNNING,
    layout,
    legal_one,
    steps_one,
)
from coolrl_lost_cities.games.classic.kernel_options import KERNEL
from coolrl_lost_cities.games.classic.rules import Rules

NUM_COMMON = 5
_NUM_SCALARS = 16
_BYTE = 255
_ONE = np.uint8(1)  # numba takes a signed number less an unsigned one to floating point


@njit(**KERNEL)
def encode_one(lay: np.ndarray, state_R: np.ndarray, viewer: int, out_E: np.ndarray) -> None:
    """Write what a player knows of one game as uint8 features; every byte is written."""
    colors = lay[L_COLORS]
    slots = lay[L_KINDS]
    kinds = lay[L_CARD_KINDS]
    ranks = lay[L_RANKS]
    wagers = np.uint8(lay[L_WAGERS])
    lowest = lay[L_LOWEST]
    pile_size = lay[L_PILE]
    other = 1 - viewer
    hand = lay[O_HAND] + viewer * kinds
    known = lay[O_KNOWN] + other * kinds
    mine = lay[O_PLAYED] + viewer * kinds
    theirs = lay[O_PLAYED] + other * kinds
    piled = lay[O_PILED]
    my_exps = lay[O_EXP] + viewer * colors * EXP_WIDTH
    their_exps = lay[O_EXP] + other * colors * EXP_WIDTH
    mover = to_int(state_R[MOVER])
    running = state_R[OVER] == RUNNING
    block = 6 * slots + pile_size + _NUM_SCALARS
    top_at = 5 * slots + pile_size
    scalars = top_at + slots
    most = lay[L_COST] * (1 + lay[L_WAGERS])
    # Views of one color and of one run of features: their indices are plainly not negative, which
    # spares numba a check each, and plain loops over bytes are what LLVM makes vectors of.
    out_E[: colors * block] = 0
    for color in range(colors):
        first = color * slots
        out = out_E[color * block : (color + 1) * block]
        hand_S = state_R[hand + first : hand + first + slots]
        mine_S = state_R[mine + first : mine + first + slots]
        theirs_S = state_R[theirs + first : theirs + first + slots]
        known_S = state_R[known + first : known + first + slots]
        piled_S = state_R[piled + first : piled + first + slots]
        my_exp = state_R[my_exps + color * EXP_WIDTH : my_exps + (color + 1) * EXP_WIDTH]
        their_exp = state_R[their_exps + color * EXP_WIDTH : their_exps + (color + 1) * EXP_WIDTH]
        out_hand_S = out[:slots]
        out_mine_S = out[slots : 2 * slots]
        out_theirs_S = out[2 * slots : 3 * slots]
        out_unseen_S = out[3 * slots : 4 * slots]
        out_known_S = out[4 * slots : 5 * slots]
        for slot in range(slots):
            in_hand, in_mine, in_theirs = hand_S[slot], mine_S[slot], theirs_S[slot]
            in_known = known_S[slot]
            out_hand_S[slot] = in_hand
            out_mine_S[slot] = in_mine
            out_theirs_S[slot] = in_theirs
            out_known_S[slot] = in_known
            # Modulo 256, which the line below the loop puts right for the wagers.
            out_unseen_S[slot] = _ONE - in_hand - in_mine - in_theirs - in_known - piled_S[slot]
        out_unseen_S[0] += wagers - _ONE
        my_last = to_int(my_exp[EXP_LAST])
        their_last = to_int(their_exp[EXP_LAST])
        my_open = 0
        their_open = 0
        held = 0
        held_points = 0
        for slot in range(1, slots):
            # There is one card of each number, so counts are 0 or 1 and stand for conditions.
            rank = (lowest + slot - 1) * (1 - to_int(mine_S[slot] + theirs_S[slot]))
            holds = to_int(hand_S[slot])
            playable = rank if slot > my_last else 0
            my_open += playable * (1 - to_int(known_S[slot]))
            held += holds if slot > my_last else 0
            held_points += playable * holds
            their_open += (rank if slot > their_last else 0) * (1 - holds)
        height = to_int(state_R[lay[O_HEIGHT] + color])
        if height > 0:
            pile = lay[O_PILE] + color * pile_size
            pile_S = state_R[pile : pile + pile_size]
            wager_at = 5 * slots + ranks
            for i in range(height - 1, -1, -1):
                slot = to_int(pile_S[i])
                nearness = pile_size - height + 1 + i
                if slot > 0:
                    out[5 * slots + slot - 1] = nearness
                else:
                    out[wager_at] = nearness
                    wager_at += 1
            out[top_at + to_int(pile_S[height - 1])] = 1
        numbers = out[scalars:]
        numbers[0] = height
        numbers[1] = 1 if state_R[DISCARDED] == color + 1 else 0
        for side in range(2):
            # The score as in `expedition_score_one`, without the cost of ten calls.
            exp = my_exp if side == 0 else their_exp
            cards = to_int(exp[EXP_WAGERS]) + to_int(exp[EXP_NUMBERS])
            points = to_int(exp[EXP_POINTS])
            score = (points - lay[L_COST]) * (1 + to_int(exp[EXP_WAGERS])) if cards > 0 else 0
            if cards >= lay[L_BONUS_CARDS] and cards > 0:
                score += lay[L_BONUS]
            out_side = numbers[2 + 6 * side : 8 + 6 * side]
            out_side[0] = exp[EXP_LAST]
            out_side[1] = exp[EXP_NUMBERS]
            out_side[2] = points
            out_side[3] = min(_BYTE, score + most)
            out_side[4] = max(0, lay[L_BONUS_CARDS] - cards)
            out_side[5] = my_open if side == 0 else their_open
        numbers[14] = held
        numbers[15] = held_points
    at = colors * block
    my_turn = running and mover == viewer
    steps = steps_one(state_R)
    out_E[at] = 1 if my_turn and state_R[PHASE] == CARD_STEP else 0
    out_E[at + 1] = 1 if my_turn and state_R[PHASE] != CARD_STEP else 0
    out_E[at + 2] = state_R[DECK_LEFT]
    out_E[at + 3] = min(_BYTE, lay[L_MAX_STEPS] - steps)
    out_E[at + 4] = state_R[HAND_SIZES + other] - state_R[NUM_KNOWN + other]
    at += NUM_COMMON
    if lay[L_REMEMBER] != 0:
        log = lay[O_LOG]
        for i in range(lay[L_MAX_STEPS]):
            taken = i < steps
            seen = taken and ((i >> 1) & 1) == viewer
            out_E[at] = state_R[log + 2 * i] + 1 if taken else 0
            out_E[at + 1] = state_R[log + 2 * i + 1] if seen else 0
            at += 2


@njit(**KERNEL)
def _encode_movers(lay: np.ndarray, states_BR: np.ndarray, out_BE: np.ndarray) -> None:
    for b in range(len(states_BR)):
        encode_one(lay, states_BR[b], to_int(states_BR[b, MOVER]), out_BE[b])


@njit(**KERNEL)
def _encode_viewers(
    lay: np.ndarray, states_BR: np.ndarray, viewers_B: np.ndarray, out_BE: np.ndarray
) -> None:
    for b in range(len(states_BR)):
        encode_one(lay, states_BR[b], to_int(viewers_B[b]), out_BE[b])


@njit(**KERNEL)
def _observe_all(
    lay: np.ndarray,
    states_BR: np.ndarray,
    out_BE: np.ndarray,
    out_BA: np.ndarray,
    out_B: np.ndarray,
) -> None:
    for b in range(len(states_BR)):
        out_B[b] = legal_one(lay, states_BR[b], out_BA[b])
        encode_one(lay, states_BR[b], to_int(states_BR[b, MOVER]), out_BE[b])


def color_block_size(rules: Rules) -> int:
    """Return the features of one color's block; the blocks stand first, color by color."""
    return 6 * rules.num_kinds + rules.cards_per_color + _NUM_SCALARS


def num_common_features(rules: Rules) -> int:
    """Return the features that follow the color blocks."""
    return NUM_COMMON + (2 * rules.max_steps if rules.remember_history else 0)


def encoding_size(rules: Rules) -> int:
    """Return E, the width of an information state."""
    return rules.num_colors * color_block_size(rules) + num_common_features(rules)


def encode(
    rules: Rules,
    states_BR: np.ndarray,
    out_BE: np.ndarray,
    viewers_B: np.ndarray | None = None,
) -> None:
    """Write what the player to move (or the given viewer) knows of each game, uint8 features.

    The player to move of a finished game is the one whose step would have come next.
    """
    if viewers_B is None:
        _encode_movers(layout(rules), states_BR, out_BE)
    else:
        viewers_B = np.ascontiguousarray(viewers_B, np.uint8)
        _encode_viewers(layout(rules), states_BR, viewers_B, out_BE)


def observe(
    rules: Rules,
    states_BR: np.ndarray,
    out_BE: np.ndarray,
    out_BA: np.ndarray,
    out_B: np.ndarray,
) -> None:
    """Write each mover's features (uint8), legal mask (bool) and number of actions (int32)."""
    _observe_all(layout(rules), states_BR, out_BE, out_BA, out_B)


@lru_cache(maxsize=64)
def _scale(rules: Rules) -> np.ndarray:
    wager = [1.0 / max(1, rules.num_wagers)]
    counts = wager + [1.0] * rules.num_ranks
    height = 1.0 / rules.cards_per_color
    points = 1.0 / rules.points_per_color
    bonus = 1.0 / rules.bonus_cards
    score = 1.0 / max(1, rules.expedition_cost * (1 + rules.num_wagers) + rules.points_per_color)
    side = [1.0 / rules.num_ranks, 1.0 / rules.num_ranks, points, score, bonus, points]
    block = (
        counts * 5
        + [height] * rules.cards_per_color
        + [1.0] * rules.num_kinds
        + [height, 1.0]
        + side
        + side
        + [1.0 / rules.num_ranks, points]
    )
    deck = 1.0 / (rules.num_cards - 2 * rules.hand_size)
    steps = 1.0 / min(_BYTE, rules.max_steps)
    common = [1.0, 1.0, deck, steps, 1.0 / rules.hand_size]
    if rules.remember_history:
        common += [1.0 / rules.num_actions, 1.0 / rules.num_card_kinds] * rules.max_steps
    scale_E = np.array(block * rules.num_colors + common, np.float32)
    scale_E.flags.writeable = False
    return scale_E


def encoding_scale(rules: Rules) -> np.ndarray:
    """Return the float32 factor of each feature that brings it to about 0 to 1, shape (E,)."""
    return _scale(rules).copy()


def kept_features(rules: Rules, without: Sequence[str]) -> np.ndarray:
    """Return which features are in none of the named groups, bool of shape (E,).

    `unseen` counts the cards nobody has seen, `known` those known to be in the opponent's hand,
    `piles` the cards of the piles in their order, `summaries` what follows from the rest: scores,
    points and numbers that are still open.
    """
    slots, scalars = rules.num_kinds, 6 * rules.num_kinds + rules.cards_per_color
    groups = {
        "unseen": slice(3 * slots, 4 * slots),
        "known": slice(4 * slots, 5 * slots),
        "piles": slice(5 * slots, 5 * slots + rules.cards_per_color),
        "summaries": slice(scalars + 2, scalars + _NUM_SCALARS),
    }
    block = np.ones(color_block_size(rules), np.bool_)
    for name in without:
        block[groups[name]] = False
    common = np.ones(num_common_features(rules), np.bool_)
    return np.concatenate([np.tile(block, rules.num_colors), common])


def feature_limits(rules: Rules) -> np.ndarray:
    """Return the largest value that each feature can take, uint8 of shape (E,)."""
    counts = [rules.num_wagers] + [1] * rules.num_ranks
    pile = rules.cards_per_color
    points = rules.points_per_color
    side = [rules.num_ranks, rules.num_ranks, points, _BYTE, rules.bonus_cards, points]
    block = (
        counts * 5
        + [pile] * rules.cards_per_color
        + [1] * rules.num_kinds
        + [pile, 1]
        + side
        + side
        + [rules.num_ranks, points]
    )
    deck = rules.num_cards - 2 * rules.hand_size
    common = [1, 1, deck, min(_BYTE, rules.max_steps), rules.hand_size]
    if rules.remember_history:
        common += [_BYTE] * (2 * rules.max_steps)
    return np.array(block * rules.num_colors + common, np.uint8)


def permute_colors(
    rules: Rules,
    features_SE: np.ndarray,
    values_SA: np.ndarray,
    permutation: Sequence[int],
) -> tuple[np.ndarray, np.ndarray]:
    """Return samples as they would be with color ``c`` renamed to ``permutation[c]``.

    ``values_SA`` is anything by action: masks, advantages, policies. Inputs are left unchanged.
    Raises ValueError for what is no permutation, and for rules that remember history, whose
    features name actions.
    """
    if sorted(permutation) != list(range(rules.num_colors)):
        raise ValueError(
            f"permutation is {list(permutation)}; expected each of 0 to {rules.num_colors - 1} once"
        )
    if rules.remember_history:
        raise ValueError(
            "rules.remember_history is true; expected false where colors are permuted, "
            "as remembered actions name colors"
        )
    size = color_block_size(rules)
    out_SE = features_SE.copy()
    out_SA = values_SA.copy()
    actions_CX = color_actions(rules)
    for color, renamed in enumerate(permutation):
        block = features_SE[:, color * size : (color + 1) * size]
        out_SE[:, renamed * size : (renamed + 1) * size] = block
        out_SA[:, actions_CX[renamed]] = values_SA[:, actions_CX[color]]
    return out_SE, out_SA


def color_actions(rules: Rules) -> np.ndarray:
    """Return the actions that belong to each color, int64 of shape (C, 2 * num_kinds + 1).

    Each row: plays by slot, discards by slot, the draw from the pile. Drawing from the deck belongs
    to no color.
    """
    slots = np.arange(rules.num_kinds)
    rows = [
        np.concatenate(
            [
                color * rules.num_kinds + slots,
                rules.num_card_kinds + color * rules.num_kinds + slots,
                [rules.draw_deck + 1 + color],
            ]
        )
        for color in range(rules.num_colors)
    ]
    return np.array(rows, np.int64)
