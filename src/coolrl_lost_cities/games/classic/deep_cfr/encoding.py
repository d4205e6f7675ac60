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
    expedition_score_one,
    layout,
    legal_one,
    steps_one,
)
from coolrl_lost_cities.games.classic.rules import Rules

NUM_COMMON = 5
_NUM_SCALARS = 16
_BYTE = 255


@njit(cache=True)
def _write_side(
    lay: np.ndarray, exp: np.ndarray, still_open: int, score: int, out: np.ndarray
) -> None:
    """Write the six features of one expedition."""
    cards = to_int(exp[EXP_NUMBERS]) + to_int(exp[EXP_WAGERS])
    out[0] = exp[EXP_LAST]
    out[1] = exp[EXP_NUMBERS]
    out[2] = exp[EXP_POINTS]
    out[3] = min(_BYTE, score + lay[L_COST] * (1 + lay[L_WAGERS]))
    out[4] = max(0, lay[L_BONUS_CARDS] - cards)
    out[5] = still_open


@njit(cache=True)
def encode_one(lay: np.ndarray, state_R: np.ndarray, viewer: int, out_E: np.ndarray) -> None:
    """Write what a player knows of one game as uint8 features; every byte is written."""
    colors = lay[L_COLORS]
    slots = lay[L_KINDS]
    kinds = lay[L_CARD_KINDS]
    ranks = lay[L_RANKS]
    wagers = lay[L_WAGERS]
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
    # Views of one color: their indices are plainly not negative, which spares numba a check each.
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
        my_last = to_int(my_exp[EXP_LAST])
        their_last = to_int(their_exp[EXP_LAST])
        my_open = 0
        their_open = 0
        held = 0
        held_points = 0
        for slot in range(slots):
            in_hand = to_int(hand_S[slot])
            in_mine = to_int(mine_S[slot])
            in_theirs = to_int(theirs_S[slot])
            in_known = to_int(known_S[slot])
            copies = wagers if slot == 0 else 1
            unseen = copies - in_hand - in_mine - in_theirs - in_known - to_int(piled_S[slot])
            out[slot] = in_hand
            out[slots + slot] = in_mine
            out[2 * slots + slot] = in_theirs
            out[3 * slots + slot] = unseen
            out[4 * slots + slot] = in_known
            out[top_at + slot] = 0
            if slot > 0 and in_mine + in_theirs == 0:
                rank = lowest + slot - 1
                if slot > my_last and in_known == 0:
                    my_open += rank
                    if in_hand > 0:
                        held += 1
                        held_points += rank
                if slot > their_last and in_hand == 0:
                    their_open += rank
        out[5 * slots : top_at] = 0
        height = to_int(state_R[lay[O_HEIGHT] + color])
        pile_S = state_R[lay[O_PILE] + color * pile_size : lay[O_PILE] + (color + 1) * pile_size]
        wager_at = 5 * slots + ranks
        for i in range(height - 1, -1, -1):
            slot = to_int(pile_S[i])
            nearness = pile_size - height + 1 + i
            if slot > 0:
                out[5 * slots + slot - 1] = nearness
            else:
                out[wager_at] = nearness
                wager_at += 1
        if height > 0:
            out[top_at + to_int(pile_S[height - 1])] = 1
        out[scalars] = height
        out[scalars + 1] = 1 if state_R[DISCARDED] == color + 1 else 0
        _write_side(
            lay,
            my_exp,
            my_open,
            expedition_score_one(lay, state_R, viewer, color),
            out[scalars + 2 :],
        )
        _write_side(
            lay,
            their_exp,
            their_open,
            expedition_score_one(lay, state_R, other, color),
            out[scalars + 8 :],
        )
        out[scalars + 14] = held
        out[scalars + 15] = held_points
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


@njit(cache=True)
def _encode_movers(lay: np.ndarray, states_BR: np.ndarray, out_BE: np.ndarray) -> None:
    for b in range(len(states_BR)):
        encode_one(lay, states_BR[b], to_int(states_BR[b, MOVER]), out_BE[b])


@njit(cache=True)
def _encode_viewers(
    lay: np.ndarray, states_BR: np.ndarray, viewers_B: np.ndarray, out_BE: np.ndarray
) -> None:
    for b in range(len(states_BR)):
        encode_one(lay, states_BR[b], to_int(viewers_B[b]), out_BE[b])


@njit(cache=True)
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
