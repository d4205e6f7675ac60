# ruff: noqa: N815 -- fields are arrays, and array names end in their axes
"""Matches of a policy against a bot, all games in lockstep.

Axes: B games of the match (two to a deal), G lanes, each with one game in flight, A actions,
R record bytes, E features, D deals.

A kernel carries each lane's game over the bot's moves and over moves without a choice to the next
decision of the policy; a finished game makes room for the next one. So the policy is asked for as
many rows as there are games in flight, half of them in each seat, until the last games run out.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from coolrl_lost_cities.games.classic import bots, engine
from coolrl_lost_cities.games.classic.counter_rng import derive, next_unit, streams, to_int
from coolrl_lost_cities.games.classic.deep_cfr import encoding
from coolrl_lost_cities.games.classic.kernel_options import INNER, KERNEL
from coolrl_lost_cities.games.classic.rules import Rules

Policy = Callable[[int, np.ndarray, np.ndarray], np.ndarray]
_Z95 = 1.959963984540054


@dataclass(frozen=True)
class MatchResult:
    """What a match came to, from the policy's side.

    ``win_rate`` counts draws as not won. Its 95% interval is Wilson's, the number of games divided
    by the design effect of mirrored deals (never under 1). ``mean_score`` is the policy's total
    less the bot's, in points a game, ``score_se`` its standard error over deals (0 for one deal,
    which says nothing); ``mean_points`` is the policy's own total. ``opened_colors`` is the mean
    number of expeditions that the policy started in a game, ``expedition_score`` the mean points of
    a started one (0 if there was none). ``cut_games`` were ended by the step limit and are scored
    as they stood; ``mean_steps`` counts the single steps of both players, two to a turn.
    """

    games: int
    wins: int
    draws: int
    losses: int
    win_rate: float
    interval_low: float
    interval_high: float
    mean_score: float
    score_se: float
    mean_points: float
    opened_colors: float
    expedition_score: float
    cut_games: int
    mean_steps: float


# Columns of a match's outcomes, one row a game.
_OWN, _OTHER, _OPENED, _STEPS, _CUT = range(5)
# Places in a tally: the next game, the end of all games, the games that wait in each seat.
_NEXT, _END, _WAITING = range(3)


class _Match(NamedTuple):
    lay: np.ndarray
    bot: int
    deal_seeds_D: np.ndarray
    policy_words_B: np.ndarray
    bot_words_B: np.ndarray
    outcomes_BX: np.ndarray
    states_GR: np.ndarray
    game_G: np.ndarray
    waiting_G: np.ndarray  # the seat whose decision the lane waits for, -1 when out of games
    legal_GL: np.ndarray  # the legal actions of the lane's game, in order
    num_legal_G: np.ndarray
    tally: np.ndarray
    deck_N: np.ndarray  # scratch, like what follows
    deck_word_1: np.ndarray
    scratch_3C: np.ndarray


def play_matches(
    rules: Rules, policy: Policy, opponent: str, num_games: int, seed: int, *, lanes: int = 2048
) -> MatchResult:
    """Play each of ``num_games / 2`` deals twice, seats swapped, sampling from the policy.

    ``policy(player, features_GE, legal_GA)`` returns one row of probabilities a game, at most
    ``lanes`` of them, from arrays that are used again for the next call; it is not asked where a
    single action is legal. Every deal, choice of the policy and choice of the bot has a generator
    of its own, so the first games of a longer match are those of a shorter one, and ``lanes``, the
    games in flight, changes nothing. Raises ValueError for an odd number of games, an unknown bot
    and rows that are no probabilities.
    """
    if num_games < 2 or num_games % 2:
        raise ValueError(f"num_games is {num_games}; expected an even number, two games to a deal")
    match = _new_match(rules, bots.bot_number(opponent), num_games, seed, min(lanes, num_games))
    features_GE = np.empty((len(match.game_G), encoding.encoding_size(rules)), np.uint8)
    legal_GA = np.empty((len(match.game_G), rules.num_actions), np.bool_)
    lanes_G = np.arange(len(match.game_G))
    _go_on(match, lanes_G, np.full(len(lanes_G), -1, np.int32))
    while match.tally[_WAITING:].any():
        for seat in range(2):
            count = _fill(match, seat, features_GE, legal_GA, lanes_G)
            if count:
                policy_GA = policy(seat, features_GE[:count], legal_GA[:count])
                games_G = match.game_G[lanes_G[:count]]
                actions_G = sample_actions(
                    policy_GA, legal_GA[:count], match.policy_words_B, games_G
                )
                _go_on(match, lanes_G, actions_G)
    return _result(match.outcomes_BX)


def _new_match(rules: Rules, bot: int, num_games: int, seed: int, lanes: int) -> _Match:
    deal_seed, policy_seed, bot_seed = np.random.SeedSequence(seed).generate_state(3, np.uint64)
    tally = np.zeros(_WAITING + 2, np.int64)
    tally[_END] = num_games
    return _Match(
        lay=engine.layout(rules),
        bot=bot,
        deal_seeds_D=streams(int(deal_seed), 0, num_games // 2),
        policy_words_B=streams(int(policy_seed), 0, num_games),
        bot_words_B=streams(int(bot_seed), 0, num_games),
        outcomes_BX=np.zeros((num_games, 5), np.int32),
        states_GR=np.zeros((lanes, engine.record_size(rules)), np.uint8),
        game_G=np.full(lanes, -1, np.int64),
        waiting_G=np.full(lanes, -1, np.int8),
        legal_GL=np.empty((lanes, rules.max_legal_actions), np.int16),
        num_legal_G=np.zeros(lanes, np.int64),
        tally=tally,
        deck_N=np.empty(rules.num_cards, np.uint8),
        deck_word_1=np.empty(1, np.uint64),
        scratch_3C=np.empty((3, rules.num_colors), np.int64),
    )


@njit(**INNER)
def _deal_next(match: _Match, g: int) -> bool:
    """Deal the next game of the match to a lane; say whether there was one."""
    game = match.tally[_NEXT]
    if game == match.tally[_END]:
        match.game_G[g] = -1
        match.waiting_G[g] = -1
        return False
    match.tally[_NEXT] += 1
    match.game_G[g] = game
    # As `engine.shuffle_decks` does with the seed of the deal.
    match.deck_word_1[0] = derive(match.deal_seeds_D[game // 2], np.uint64(0))
    engine.shuffle_one(match.lay, match.deck_word_1, to_int(0), match.deck_N)
    engine.deal_one(match.lay, match.deck_N, match.states_GR[g])
    return True


@njit(**INNER)
def _record(match: _Match, g: int) -> None:
    """Write down what a finished game came to."""
    lay, state_R = match.lay, match.states_GR[g]
    game = match.game_G[g]
    seat = game % 2
    out_X = match.outcomes_BX[game]
    out_X[_OWN] = engine.score_one(lay, state_R, seat)
    out_X[_OTHER] = engine.score_one(lay, state_R, 1 - seat)
    out_X[_OPENED] = engine.num_open_one(lay, state_R, seat)
    out_X[_STEPS] = engine.steps_one(state_R)
    out_X[_CUT] = state_R[engine.OVER] == engine.CUT


@njit(**INNER)
def _run_to_choice(match: _Match, g: int) -> None:
    """Advance one lane to a decision of the policy; refill it whenever its game ends."""
    lay, state_R, legal_L = match.lay, match.states_GR[g], match.legal_GL[g]
    while True:
        if match.game_G[g] >= 0 and state_R[engine.OVER] != engine.RUNNING:
            _record(match, g)
            match.game_G[g] = -1
        if match.game_G[g] < 0 and not _deal_next(match, g):
            return
        game = match.game_G[g]
        seat = game % 2
        count = engine.list_legal_one(lay, state_R, legal_L)
        action = to_int(legal_L[0])
        if to_int(state_R[engine.MOVER]) != seat:
            # Its generator advances only here: what the bot does never depends on the rest.
            words_B, scratch_3C = match.bot_words_B, match.scratch_3C
            action = bots.bot_one(
                lay, match.bot, state_R, legal_L, count, words_B, game, scratch_3C
            )
        elif count > 1:
            match.num_legal_G[g] = count
            match.waiting_G[g] = seat
            match.tally[_WAITING + seat] += 1
            return
        engine.step_one(lay, state_R, action)


@njit(**KERNEL)
def _fill(
    match: _Match, seat: int, features_GE: np.ndarray, legal_GA: np.ndarray, lanes_G: np.ndarray
) -> int:
    """Encode every game that waits in a seat; return how many there are."""
    count = 0
    for g in range(len(match.game_G)):
        if match.waiting_G[g] == seat:
            encoding.encode_one(match.lay, match.states_GR[g], seat, features_GE[count])
            for action in range(legal_GA.shape[1]):
                legal_GA[count, action] = False
            for i in range(match.num_legal_G[g]):
                legal_GA[count, match.legal_GL[g, i]] = True
            lanes_G[count] = g
            count += 1
    return count


@njit(**KERNEL)
def _go_on(match: _Match, lanes_G: np.ndarray, actions_G: np.ndarray) -> None:
    """Take one action in each of the first lanes given, and go on to their next decisions.

    A negative action stands for none, in a lane whose first game has not begun.
    """
    for i in range(len(actions_G)):
        g = lanes_G[i]
        if actions_G[i] >= 0:
            match.tally[_WAITING + match.waiting_G[g]] -= 1
            engine.step_one(match.lay, match.states_GR[g], to_int(actions_G[i]))
        _run_to_choice(match, g)


@njit(**KERNEL)
def _sample(
    policy_GA: np.ndarray,
    legal_GA: np.ndarray,
    words_B: np.ndarray,
    games_G: np.ndarray,
    out_G: np.ndarray,
) -> int:
    """Sample an action a row; return the first row that is no distribution, or -1."""
    for g in range(len(policy_GA)):
        total = 0.0
        last = -1
        for action in range(policy_GA.shape[1]):
            share = policy_GA[g, action]
            if share > 0.0 and legal_GA[g, action]:
                last = action
            elif share != 0.0:  # negative, illegal or NaN
                return g
            total += share
        if not abs(total - 1.0) < 1e-3:
            return g
        left = next_unit(words_B, games_G[g]) * total
        chosen = last
        for action in range(policy_GA.shape[1]):
            left -= policy_GA[g, action]
            if left < 0.0:
                chosen = action
                break
        out_G[g] = chosen
    return -1


def sample_actions(
    policy_GA: np.ndarray, legal_GA: np.ndarray, words_B: np.ndarray, games_G: np.ndarray
) -> np.ndarray:
    """Return one action (int32) a row, drawn with the generator ``words_B[games_G]``.

    Raises ValueError for a row that is negative or positive where illegal, or does not sum to 1.
    """
    out_G = np.empty(len(policy_GA), np.int32)
    policy_GA = np.ascontiguousarray(policy_GA, np.float32)
    wrong = _sample(policy_GA, legal_GA, words_B, games_G, out_G)
    if wrong >= 0:
        row_A = policy_GA[wrong]
        raise ValueError(
            f"row {wrong} of the policy sums to {row_A.sum():.6g} with {row_A.min():.3g} as its "
            f"least and {row_A[~legal_GA[wrong]].sum():.3g} on illegal actions; "
            "expected probabilities of legal actions"
        )
    return out_G


def _result(outcomes_BX: np.ndarray) -> MatchResult:
    own_B, opened_B = outcomes_BX[:, _OWN], outcomes_BX[:, _OPENED]
    difference_B = own_B - outcomes_BX[:, _OTHER]
    games = len(difference_B)
    won_B = difference_B > 0
    win_rate = float(won_B.mean())
    low, high = wilson_interval(win_rate, games / design_effect(won_B))
    by_deal = difference_B.reshape(-1, 2).mean(axis=1)
    spread = float(by_deal.std(ddof=1)) if len(by_deal) > 1 else 0.0
    return MatchResult(
        games=games,
        wins=int(won_B.sum()),
        draws=int((difference_B == 0).sum()),
        losses=int((difference_B < 0).sum()),
        win_rate=win_rate,
        interval_low=low,
        interval_high=high,
        mean_score=float(difference_B.mean()),
        score_se=spread / math.sqrt(len(by_deal)),
        mean_points=float(own_B.mean()),
        opened_colors=float(opened_B.mean()),
        expedition_score=float(own_B.sum()) / max(1, int(opened_B.sum())),
        cut_games=int(outcomes_BX[:, _CUT].sum()),
        mean_steps=float(outcomes_BX[:, _STEPS].mean()),
    )


def design_effect(won_B: np.ndarray) -> float:
    """Return how many games of mirrored deals say as much as one independent game; at least 1.

    The variance of the mean over deals against that of as many independent games (Kish 1965).
    """
    rate = won_B.mean()
    if len(won_B) < 4 or rate in (0.0, 1.0):
        return 1.0
    by_deal = won_B.reshape(-1, 2).mean(axis=1)
    return max(1.0, float(by_deal.var(ddof=1)) * 2.0 / float(rate * (1.0 - rate)))


def wilson_interval(rate: float, trials: float) -> tuple[float, float]:
    """Return the 95% interval of a proportion (Wilson 1927, eq. 3)."""
    z2 = _Z95 * _Z95 / trials
    middle = (rate + z2 / 2) / (1 + z2)
    half = _Z95 * math.sqrt(rate * (1 - rate) / trials + z2 / (4 * trials)) / (1 + z2)
    return max(0.0, middle - half), min(1.0, middle + half)
