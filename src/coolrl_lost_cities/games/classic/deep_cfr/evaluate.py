"""Matches of a policy against a bot, all games in lockstep.

Axes: B games (two to a deal), G games in which it is the policy's turn, A actions, R record bytes,
E features.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import njit

from coolrl_lost_cities.games.classic import bots, engine
from coolrl_lost_cities.games.classic.counter_rng import next_unit, streams
from coolrl_lost_cities.games.classic.deep_cfr import encoding
from coolrl_lost_cities.games.classic.rules import Rules

Policy = Callable[[int, np.ndarray, np.ndarray], np.ndarray]
_Z95 = 1.959963984540054


@dataclass(frozen=True)
class MatchResult:
    """What a match came to, from the policy's side.

    ``win_rate`` counts draws as not won. Its 95% interval is Wilson's, the number of games divided
    by the design effect of mirrored deals (never under 1). ``mean_score`` is the policy's total
    less the bot's, in points a game, ``score_se`` its standard error over deals (0 for one deal,
    which says nothing); ``mean_points`` is the policy's own total. ``cut_games`` were ended by the
    step limit and are scored as they stood.
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
    cut_games: int
    mean_steps: float


def play_matches(
    rules: Rules, policy: Policy, opponent: str, num_games: int, seed: int
) -> MatchResult:
    """Play each of ``num_games / 2`` deals twice, seats swapped, sampling from the policy.

    ``policy(player, features_GE, legal_GA)`` returns one row of probabilities a game; it is not
    asked where a single action is legal. Every deal, choice of the policy and choice of the bot
    has a generator of its own, so the first games of a longer match are those of a shorter one.
    Raises ValueError for an odd number of games, an unknown bot and rows that are no probabilities.
    """
    if num_games < 2 or num_games % 2:
        raise ValueError(f"num_games is {num_games}; expected an even number, two games to a deal")
    deal_seed, policy_seed, bot_seed = np.random.SeedSequence(seed).generate_state(3, np.uint64)
    decks_BN = np.repeat(
        engine.shuffle_decks(rules, streams(int(deal_seed), 0, num_games // 2)), 2, axis=0
    )
    states_BR = engine.new_games(rules, decks_BN)
    policy_words_B = streams(int(policy_seed), 0, num_games)
    bot_words_B = streams(int(bot_seed), 0, num_games)
    seat_B = np.arange(num_games, dtype=np.uint8) % 2
    legal_BA = np.empty((num_games, rules.num_actions), np.bool_)
    features_BE = np.empty((num_games, encoding.encoding_size(rules)), np.uint8)
    count_B = np.empty(num_games, np.int32)
    while not engine.is_over(states_BR).all():
        encoding.observe(rules, states_BR, features_BE, legal_BA, count_B)
        actions_B = legal_BA.argmax(axis=1).astype(np.int32)
        ours_B = engine.players(states_BR) == seat_B
        for player in range(2):
            games = np.flatnonzero(ours_B & (seat_B == player) & (count_B > 1))
            if games.size:
                legal_GA = legal_BA[games]
                policy_GA = policy(player, features_BE[games], legal_GA)
                actions_B[games] = sample_actions(policy_GA, legal_GA, policy_words_B, games)
        # The bot's generators advance only where it moves: what it does never depends on the rest.
        theirs = np.flatnonzero(~ours_B & (count_B > 0))
        words_G = bot_words_B[theirs]
        actions_B[theirs] = bots.bot_actions(
            opponent, rules, states_BR[theirs], legal_BA[theirs], words_G
        )
        bot_words_B[theirs] = words_G
        engine.step(rules, states_BR, actions_B)
    points_BP = engine.scores(rules, states_BR)
    rows = np.arange(num_games)
    return _result(
        own_B=points_BP[rows, seat_B],
        other_B=points_BP[rows, 1 - seat_B],
        cut_games=int(engine.was_cut(states_BR).sum()),
        mean_steps=float(engine.steps_taken(states_BR).mean()),
    )


@njit(cache=True)
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


def _result(
    own_B: np.ndarray, other_B: np.ndarray, cut_games: int, mean_steps: float
) -> MatchResult:
    difference_B = own_B - other_B
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
        cut_games=cut_games,
        mean_steps=mean_steps,
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
