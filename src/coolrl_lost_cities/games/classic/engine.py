"""Lost Cities as compiled kernels on packed records, many games at once.

Axes: B games, R bytes of a record, A actions, N cards of the deck, P players, K card kinds.

A game is one row of R bytes; everything about it, the deck's order included, is in that row:

    0         player to move          4, 5   steps taken, low byte first
    1         0 card step, 1 draw     6      cards left in the deck
    2         color just discarded    7      cards in player 0's hand, 8 in player 1's
              to plus 1, or 0         9      cards that player 0 is publicly known to hold,
    3         0 running, 1 deck              10 the same of player 1
              drawn out, 2 cut

then, at the offsets that ``layout`` computes: hands (P, K), cards publicly known to be in a hand
(P, K), played (P, K), lying in the piles (K), expeditions (P, colors, 4: wagers, last slot,
numbers, points), pile heights (colors), piles bottom to top as slots (colors, height), the deck as
kinds (N) and, where the rules remember history, two bytes a step: the action and the kind drawn
plus 1.

The compiled kernels take ``layout(rules)`` in place of the rules, so that they compile once for
all rules; those that end in ``_one`` work on one record and may be called from other kernels.
"""

from functools import lru_cache

import numpy as np
from numba import njit

from coolrl_lost_cities.games.classic.counter_rng import derive, next_below, to_int
from coolrl_lost_cities.games.classic.kernel_options import KERNEL
from coolrl_lost_cities.games.classic.rules import Rules

MOVER, PHASE, DISCARDED, OVER, STEPS, DECK_LEFT, HAND_SIZES, NUM_KNOWN = 0, 1, 2, 3, 4, 6, 7, 9
_HEADER = 11
CARD_STEP, DRAW_STEP = 0, 1
RUNNING, DECK_OUT, CUT = 0, 1, 2
EXP_WAGERS, EXP_LAST, EXP_NUMBERS, EXP_POINTS, EXP_WIDTH = 0, 1, 2, 3, 4

# Indices into a layout: first the rules, then what follows from them, then record offsets.
(
    L_COLORS,
    L_RANKS,
    L_LOWEST,
    L_WAGERS,
    L_HAND,
    L_COST,
    L_BONUS_CARDS,
    L_BONUS,
    L_MAX_STEPS,
    L_REMEMBER,
    L_KINDS,
    L_CARD_KINDS,
    L_CARDS,
    L_PILE,
    L_ACTIONS,
    L_DRAW,
    O_HAND,
    O_KNOWN,
    O_PLAYED,
    O_PILED,
    O_EXP,
    O_HEIGHT,
    O_PILE,
    O_DECK,
    O_LOG,
    L_RECORD,
) = range(26)


@lru_cache(maxsize=64)
def layout(rules: Rules) -> np.ndarray:
    """Return the rules and the record's offsets as the int64 vector that kernels take.

    The vector is shared by all callers and must not be written to.
    """
    kinds = rules.num_card_kinds
    sizes = [
        2 * kinds,
        2 * kinds,
        2 * kinds,
        kinds,
        2 * rules.num_colors * EXP_WIDTH,
        rules.num_colors,
        rules.num_colors * rules.cards_per_color,
        rules.num_cards,
        2 * rules.max_steps if rules.remember_history else 0,
    ]
    offsets = [_HEADER + sum(sizes[:i]) for i in range(len(sizes) + 1)]
    values = [
        rules.num_colors,
        rules.num_ranks,
        rules.lowest_rank,
        rules.num_wagers,
        rules.hand_size,
        rules.expedition_cost,
        rules.bonus_cards,
        rules.bonus,
        rules.max_steps,
        int(rules.remember_history),
        rules.num_kinds,
        kinds,
        rules.num_cards,
        rules.cards_per_color,
        rules.num_actions,
        rules.draw_deck,
    ]
    return np.array(values + offsets, np.int64)


@njit(**KERNEL)
def steps_one(state_R: np.ndarray) -> np.int64:
    """Return how many single steps a game has taken."""
    return to_int(state_R[STEPS]) + 256 * to_int(state_R[STEPS + 1])


@njit(**KERNEL)
def is_legal_one(lay: np.ndarray, state_R: np.ndarray, action: int) -> bool:
    """Say whether the player to move may take an action; false once the game is over."""
    if state_R[OVER] != RUNNING or action < 0 or action >= lay[L_ACTIONS]:
        return False
    kinds = lay[L_CARD_KINDS]
    if action >= lay[L_DRAW]:
        if state_R[PHASE] != DRAW_STEP:
            return False
        if action == lay[L_DRAW]:
            return True
        color = action - lay[L_DRAW] - 1
        return state_R[lay[O_HEIGHT] + color] > 0 and state_R[DISCARDED] != color + 1
    if state_R[PHASE] != CARD_STEP:
        return False
    player = to_int(state_R[MOVER])
    kind = action if action < kinds else action - kinds
    if state_R[lay[O_HAND] + player * kinds + kind] == 0:
        return False
    if action >= kinds:
        return True
    color = kind // lay[L_KINDS]
    slot = kind - color * lay[L_KINDS]
    last = state_R[lay[O_EXP] + (player * lay[L_COLORS] + color) * EXP_WIDTH + EXP_LAST]
    return last == 0 if slot == 0 else slot > last


@njit(**KERNEL)
def legal_one(lay: np.ndarray, state_R: np.ndarray, out_A: np.ndarray) -> int:
    """Write the legal mask of the player to move and return how many actions are legal."""
    out_A[:] = False
    if state_R[OVER] != RUNNING:
        return 0
    count = 0
    colors = lay[L_COLORS]
    if state_R[PHASE] == DRAW_STEP:
        draw = lay[L_DRAW]
        out_A[draw] = True
        count = 1
        for color in range(colors):
            if state_R[lay[O_HEIGHT] + color] > 0 and state_R[DISCARDED] != color + 1:
                out_A[draw + 1 + color] = True
                count += 1
        return count
    player = to_int(state_R[MOVER])
    slots = lay[L_KINDS]
    kinds = lay[L_CARD_KINDS]
    hand = lay[O_HAND] + player * kinds
    for color in range(colors):
        last = state_R[lay[O_EXP] + (player * colors + color) * EXP_WIDTH + EXP_LAST]
        for slot in range(slots):
            kind = color * slots + slot
            if state_R[hand + kind] > 0:
                out_A[kinds + kind] = True
                count += 1
                if slot > last or (slot == 0 and last == 0):
                    out_A[kind] = True
                    count += 1
    return count


@njit(**KERNEL)
def list_legal_one(lay: np.ndarray, state_R: np.ndarray, out_L: np.ndarray) -> int:
    """Write the legal actions of the player to move in order and return how many there are."""
    if state_R[OVER] != RUNNING:
        return 0
    count = 0
    colors = lay[L_COLORS]
    if state_R[PHASE] == DRAW_STEP:
        out_L[0] = lay[L_DRAW]
        count = 1
        for color in range(colors):
            if state_R[lay[O_HEIGHT] + color] > 0 and state_R[DISCARDED] != color + 1:
                out_L[count] = lay[L_DRAW] + 1 + color
                count += 1
        return count
    player = to_int(state_R[MOVER])
    slots = lay[L_KINDS]
    kinds = lay[L_CARD_KINDS]
    hand_K = state_R[lay[O_HAND] + player * kinds : lay[O_HAND] + (player + 1) * kinds]
    exps = lay[O_EXP] + player * colors * EXP_WIDTH
    for color in range(colors):
        last = state_R[exps + color * EXP_WIDTH + EXP_LAST]
        for slot in range(slots):
            kind = color * slots + slot
            if hand_K[kind] > 0 and (slot > last or (slot == 0 and last == 0)):
                out_L[count] = kind
                count += 1
    for kind in range(kinds):
        if hand_K[kind] > 0:
            out_L[count] = kinds + kind
            count += 1
    return count


@njit(**KERNEL)
def step_one(lay: np.ndarray, state_R: np.ndarray, action: int) -> None:
    """Take one legal action in place; a finished game is left unchanged.

    Nothing is checked: an illegal action leaves a record that means nothing.
    """
    if state_R[OVER] != RUNNING:
        return
    player = to_int(state_R[MOVER])
    colors = lay[L_COLORS]
    slots = lay[L_KINDS]
    kinds = lay[L_CARD_KINDS]
    hand = lay[O_HAND] + player * kinds
    known = lay[O_KNOWN] + player * kinds
    drawn = 0
    if state_R[PHASE] == CARD_STEP:
        kind = action if action < kinds else action - kinds
        color = kind // slots
        slot = kind - color * slots
        state_R[hand + kind] -= 1
        state_R[HAND_SIZES + player] -= 1
        if state_R[known + kind] > 0:
            state_R[known + kind] -= 1
            state_R[NUM_KNOWN + player] -= 1
        if action < kinds:
            state_R[lay[O_PLAYED] + player * kinds + kind] += 1
            exp = lay[O_EXP] + (player * colors + color) * EXP_WIDTH
            if slot == 0:
                state_R[exp + EXP_WAGERS] += 1
            else:
                state_R[exp + EXP_LAST] = slot
                state_R[exp + EXP_NUMBERS] += 1
                state_R[exp + EXP_POINTS] += lay[L_LOWEST] + slot - 1
        else:
            height = to_int(state_R[lay[O_HEIGHT] + color])
            state_R[lay[O_PILE] + color * lay[L_PILE] + height] = slot
            state_R[lay[O_HEIGHT] + color] += 1
            state_R[lay[O_PILED] + kind] += 1
            state_R[DISCARDED] = color + 1
        state_R[PHASE] = DRAW_STEP
    else:
        if action == lay[L_DRAW]:
            kind = to_int(state_R[lay[O_DECK] + lay[L_CARDS] - to_int(state_R[DECK_LEFT])])
            drawn = kind + 1
            state_R[DECK_LEFT] -= 1
            if state_R[DECK_LEFT] == 0:
                state_R[OVER] = DECK_OUT
        else:
            color = action - lay[L_DRAW] - 1
            state_R[lay[O_HEIGHT] + color] -= 1
            height = to_int(state_R[lay[O_HEIGHT] + color])
            top = lay[O_PILE] + color * lay[L_PILE] + height
            kind = color * slots + to_int(state_R[top])
            state_R[top] = 0  # equal games are equal records
            state_R[lay[O_PILED] + kind] -= 1
            state_R[known + kind] += 1
            state_R[NUM_KNOWN + player] += 1
        state_R[hand + kind] += 1
        state_R[HAND_SIZES + player] += 1
        state_R[DISCARDED] = 0
        state_R[PHASE] = CARD_STEP
        state_R[MOVER] = 1 - player
    steps = steps_one(state_R)
    if lay[L_REMEMBER] != 0:
        state_R[lay[O_LOG] + 2 * steps] = action
        state_R[lay[O_LOG] + 2 * steps + 1] = drawn
    steps += 1
    state_R[STEPS] = steps & 255
    state_R[STEPS + 1] = steps >> 8
    if state_R[OVER] == RUNNING and steps >= lay[L_MAX_STEPS]:
        state_R[OVER] = CUT


@njit(**KERNEL)
def num_open_one(lay: np.ndarray, state_R: np.ndarray, player: int) -> int:
    """Return how many expeditions a player has started."""
    count = 0
    for color in range(lay[L_COLORS]):
        exp = lay[O_EXP] + (player * lay[L_COLORS] + color) * EXP_WIDTH
        count += state_R[exp + EXP_WAGERS] > 0 or state_R[exp + EXP_NUMBERS] > 0
    return count


@njit(**KERNEL)
def expedition_score_one(lay: np.ndarray, state_R: np.ndarray, player: int, color: int) -> int:
    """Return what one expedition scores as it stands."""
    exp = lay[O_EXP] + (player * lay[L_COLORS] + color) * EXP_WIDTH
    wagers = to_int(state_R[exp + EXP_WAGERS])
    cards = wagers + to_int(state_R[exp + EXP_NUMBERS])
    if cards == 0:
        return 0
    score = (to_int(state_R[exp + EXP_POINTS]) - lay[L_COST]) * (1 + wagers)
    if cards >= lay[L_BONUS_CARDS]:
        score += lay[L_BONUS]
    return score


@njit(**KERNEL)
def score_one(lay: np.ndarray, state_R: np.ndarray, player: int) -> int:
    """Return the total of one player as the game stands."""
    total = 0
    for color in range(lay[L_COLORS]):
        total += expedition_score_one(lay, state_R, player, color)
    return total


@njit(**KERNEL)
def value_one(lay: np.ndarray, state_R: np.ndarray, player: int) -> int:
    """Return a player's total less the other's as the game stands."""
    return score_one(lay, state_R, player) - score_one(lay, state_R, 1 - player)


@njit(**KERNEL)
def deal_one(lay: np.ndarray, deck_N: np.ndarray, state_R: np.ndarray) -> None:
    """Make a fresh game of a deck: first player 0's hand, then player 1's, then the draws."""
    state_R[:] = 0
    kinds = lay[L_CARD_KINDS]
    hand_size = lay[L_HAND]
    for i in range(lay[L_CARDS]):
        state_R[lay[O_DECK] + i] = deck_N[i]
    for player in range(2):
        for i in range(hand_size):
            state_R[lay[O_HAND] + player * kinds + deck_N[player * hand_size + i]] += 1
        state_R[HAND_SIZES + player] = hand_size
    state_R[DECK_LEFT] = lay[L_CARDS] - 2 * hand_size


@njit(**KERNEL)
def shuffle_one(lay: np.ndarray, words_B: np.ndarray, b: int, out_N: np.ndarray) -> None:
    """Write a deck shuffled by generator ``b`` (Fisher and Yates)."""
    i = 0
    for kind in range(lay[L_CARD_KINDS]):
        copies = lay[L_WAGERS] if kind % lay[L_KINDS] == 0 else 1
        for _ in range(copies):
            out_N[i] = kind
            i += 1
    for last in range(lay[L_CARDS] - 1, 0, -1):
        j = next_below(words_B, b, last + 1)
        card = out_N[last]
        out_N[last] = out_N[j]
        out_N[j] = card


@njit(**KERNEL)
def _deal_all(lay: np.ndarray, deck_BN: np.ndarray, states_BR: np.ndarray) -> None:
    for b in range(len(deck_BN)):
        deal_one(lay, deck_BN[b], states_BR[b])


@njit(cache=True)
def _shuffle_all(lay: np.ndarray, seeds_B: np.ndarray, out_BN: np.ndarray) -> None:
    words_1 = np.empty(1, np.uint64)
    for b in range(len(out_BN)):
        words_1[0] = derive(seeds_B[b], np.uint64(0))
        shuffle_one(lay, words_1, to_int(0), out_BN[b])


@njit(**KERNEL)
def _legal_all(lay: np.ndarray, states_BR: np.ndarray, out_BA: np.ndarray) -> None:
    for b in range(len(states_BR)):
        legal_one(lay, states_BR[b], out_BA[b])


@njit(**KERNEL)
def _first_illegal(lay: np.ndarray, states_BR: np.ndarray, actions_B: np.ndarray) -> int:
    for b in range(len(states_BR)):
        if states_BR[b, OVER] == RUNNING and not is_legal_one(lay, states_BR[b], actions_B[b]):
            return b
    return -1


@njit(**KERNEL)
def _step_all(lay: np.ndarray, states_BR: np.ndarray, actions_B: np.ndarray) -> None:
    for b in range(len(states_BR)):
        step_one(lay, states_BR[b], to_int(actions_B[b]))


@njit(**KERNEL)
def _scores_all(lay: np.ndarray, states_BR: np.ndarray, out_BP: np.ndarray) -> None:
    for b in range(len(states_BR)):
        for player in range(2):
            out_BP[b, player] = score_one(lay, states_BR[b], player)


def record_size(rules: Rules) -> int:
    """Return the bytes of one game's record."""
    return int(layout(rules)[L_RECORD])


def new_games(rules: Rules, deck_BN: np.ndarray) -> np.ndarray:
    """Deal one game (a uint8 record) from each deck (uint8 card kinds in dealing order).

    Raises ValueError where a deck does not hold exactly the game's cards.
    """
    deck_BN = np.ascontiguousarray(deck_BN, np.uint8)
    if deck_BN.ndim != 2 or deck_BN.shape[1] != rules.num_cards:
        raise ValueError(f"decks have shape {deck_BN.shape}; expected (games, {rules.num_cards})")
    full_N = full_deck(rules)
    wrong_B = (np.sort(deck_BN, axis=1) != full_N).any(axis=1)
    if wrong_B.any():
        b = int(wrong_B.argmax())
        raise ValueError(
            f"deck {b} holds {sorted(deck_BN[b].tolist())}; expected {full_N.tolist()}"
        )
    states_BR = np.empty((len(deck_BN), record_size(rules)), np.uint8)
    _deal_all(layout(rules), deck_BN, states_BR)
    return states_BR


def full_deck(rules: Rules) -> np.ndarray:
    """Return the kinds of all cards of the game, sorted, as uint8 of shape (N,)."""
    copies_K = np.ones(rules.num_card_kinds, np.int64)
    copies_K[:: rules.num_kinds] = rules.num_wagers
    return np.repeat(np.arange(rules.num_card_kinds, dtype=np.uint8), copies_K)


def shuffle_decks(rules: Rules, seeds_B: np.ndarray) -> np.ndarray:
    """Return one shuffled deck (uint8 kinds, shape (B, N)) for each uint64 seed, by it alone."""
    seeds_B = np.ascontiguousarray(seeds_B, np.uint64)
    decks_BN = np.empty((len(seeds_B), rules.num_cards), np.uint8)
    _shuffle_all(layout(rules), seeds_B, decks_BN)
    return decks_BN


def legal_actions(rules: Rules, states_BR: np.ndarray, out_BA: np.ndarray) -> None:
    """Write each game's legal mask (bool) of the player to move; all false where it is over."""
    _legal_all(layout(rules), states_BR, out_BA)


def step(rules: Rules, states_BR: np.ndarray, actions_B: np.ndarray) -> None:
    """Take one action in every running game, in place; a finished game is left unchanged.

    Raises ValueError, with every game unchanged, if any action is illegal.
    """
    lay = layout(rules)
    actions_B = np.ascontiguousarray(actions_B, np.int32)
    illegal = _first_illegal(lay, states_BR, actions_B)
    if illegal >= 0:
        raise ValueError(
            f"action {actions_B[illegal]} is illegal in game {illegal}; "
            "expected one that legal_actions allows"
        )
    _step_all(lay, states_BR, actions_B)


def players(states_BR: np.ndarray) -> np.ndarray:
    """Return the player to move in each game as uint8."""
    return states_BR[:, MOVER]


def is_over(states_BR: np.ndarray) -> np.ndarray:
    """Say of each game whether it has ended or was cut."""
    return states_BR[:, OVER] != RUNNING


def was_cut(states_BR: np.ndarray) -> np.ndarray:
    """Say of each game whether the step limit ended it."""
    return states_BR[:, OVER] == CUT


def steps_taken(states_BR: np.ndarray) -> np.ndarray:
    """Return the single steps that each game has taken as int64."""
    return states_BR[:, STEPS].astype(np.int64) + 256 * states_BR[:, STEPS + 1].astype(np.int64)


def scores(rules: Rules, states_BR: np.ndarray) -> np.ndarray:
    """Return both players' totals as they stand, int32 of shape (B, P)."""
    out_BP = np.empty((len(states_BR), 2), np.int32)
    _scores_all(layout(rules), states_BR, out_BP)
    return out_BP
