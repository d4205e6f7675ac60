# ruff: noqa: N815 -- fields are arrays, and array names end in their axes
"""Outcome-sampled traversals, all advanced in lockstep: networks in, samples out.

Axes: B rows of a forward, G games in flight, N recorded decisions, S samples, E encoding width,
A actions, L most legal actions of a state, M bytes of a packed legal mask, R bytes of a game.

The estimator
    A traversal plays one whole game. Chance and the opponent act by their own probabilities, the
    traverser by q(a) = exploration / n + (1 - exploration) sigma(a) over its n legal actions. With
    z the value of the finished game (points, for the traverser), going backwards over the
    traverser's decisions::

        w         = (v - b) / q(a*)              a* the action that was taken
        target(a) = (1[a = a*] - sigma(a*)) w
        v        <- b + sigma(a*) w

    which is v^(a) - sum_a' sigma(a') v^(a') for the action values v^(a) = b + 1[a = a*] w: the
    baseline-corrected estimate of Schmid et al. 2019 (eqs. 7 and 9), unbiased for every baseline b
    that the history decides. Ours is the score as the game stands, which is free, and which is
    what reaches the decisions upstream of an exploring action with sigma(a*) = 0: not zero.
    Nothing is clipped, and actions that were not taken get -sigma(a*) w, not zero: without that
    shift the mean would be (1 - sigma(a)) v(a), which is no regret.

    How often an information state is visited depends on q, which moves with the iterations, and
    an average over iterations must not. So a row carries the likelihood ratio
    prod (1/n) / q(a*) of the traverser's earlier actions, uniform play against the sampling
    policy: mean 1, at most exploration^-depth, exactly 1 at exploration 1. Then

        E[sum of weight * target] = u(I) * (counterfactual regret at I, Zinkevich et al. 2007)

    where u(I), the traverser's reach of I in uniform play, never changes; regret matching does not
    see it (the same device as the fixed sampling policy of McAleer et al. 2023, ESCHER). The
    opponent's policy is recorded with the same weight, for the average strategy.

    `exact.py` computes the right-hand side for tiny games and the tests compare.

Reproducibility
    One generator a traversal, from (seed, iteration, traverser, id): how many games run at once,
    and how ids are split over processes, changes nothing, as long as a row of a forward does not
    depend on its companions. Matrix products do not keep that of themselves: with torch 2.13 and
    MKL in float32, on one thread, the rows of a batch of 1 to 3 differ in their last bits, and so
    do the last rows of 5, 7 or 31 in the color_shared network, while in multiples of 8 a row has
    the same bits in any place, in any company, at any batch size. So every forward has `lanes`
    rows, rounded up to a multiple of 16, and the rows that are left over are zero.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from coolrl_lost_cities.games.classic.counter_rng import derive, next_unit
from coolrl_lost_cities.games.classic.deep_cfr.encoding import encode_one, encoding_size
from coolrl_lost_cities.games.classic.deep_cfr.memory import NodeSamples, mask_bytes
from coolrl_lost_cities.games.classic.deep_cfr.regret import match_listed
from coolrl_lost_cities.games.classic.engine import (
    CUT,
    MOVER,
    OVER,
    RUNNING,
    deal_one,
    layout,
    legal_one,
    record_size,
    shuffle_one,
    step_one,
    value_one,
)
from coolrl_lost_cities.games.classic.rules import Rules

U8 = NDArray[np.uint8]
I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
F64 = NDArray[np.float64]
F32 = NDArray[np.float32]
Bool = NDArray[np.bool_]

# (player, features_BE, legal_BA) -> raw advantages_BA of that player. Rows past the last game are
# all zero with nothing legal; what comes back for them is not read.
Advantages = Callable[[int, U8, Bool], F32]

_ROW_BLOCK = 16


@dataclass(frozen=True)
class TraversalSpec:
    """Which traversals to run: ids `first_id` to `first_id + num_traversals - 1`.

    `lanes` is the rows of a forward, rounded up to a multiple of 16. Raises ValueError for an
    exploration outside (0, 1].
    """

    seed: int
    iteration: int
    traverser: int
    first_id: int
    num_traversals: int
    lanes: int
    exploration: float

    def __post_init__(self) -> None:
        if not 0.0 < self.exploration <= 1.0:
            # At 0 an action that the policy never takes is never tried: biased.
            raise ValueError(f"exploration is {self.exploration}; expected 0 < exploration <= 1")
        if self.lanes < 1 or self.traverser not in (0, 1):
            raise ValueError(
                f"lanes is {self.lanes} and traverser {self.traverser}; expected lanes >= 1 and "
                "a traverser of 0 or 1"
            )


@dataclass(frozen=True)
class Counters:
    """What a set of traversals did; `infostates` went through a network, `nodes` are all moves."""

    traversals: int
    nodes: int
    infostates: int
    forced_moves: int
    cut_games: int


@dataclass(frozen=True)
class TraversalSamples:
    """The traverser's decisions and the opponent's, each ordered by (traversal id, step)."""

    advantage: NodeSamples
    strategy: NodeSamples
    counters: Counters


class _Games(NamedTuple):
    states_GR: U8
    words_G: U64  # generators
    traversal_G: I64
    last_row_G: I64  # the traverser's latest decision, -1 before the first
    ratio_G: F64  # of the traverser's actions so far: uniform play against sampling policy
    waiting_G: NDArray[np.int8]  # the player whose forward the game waits for, -1 when unused


class _Rows(NamedTuple):
    features_NE: U8
    legal_NM: U8
    values_NL: F32
    weights_N: F32
    traversal_N: I64
    own_N: Bool  # decided by the traverser; what follows is set for these only
    previous_N: I64  # the traverser's decision before this one in the same game
    taken_N: I64  # place of the action among the legal ones
    num_legal_N: I64
    sigma_N: F64  # of the action taken
    q_N: F64
    baseline_N: F64


class _Run(NamedTuple):
    lay: I64
    traverser: int
    exploration: float
    stream: np.uint64
    games: _Games
    features_BE: U8
    legal_BA: Bool
    game_B: I64
    tally: I64
    deck: U8  # scratch
    legal_A: Bool  # scratch


# Places in a tally; the last two are the games that wait for player 0 and for player 1.
_NEXT_ID, _END_ID, _ROWS, _NODES, _FORCED, _CUT, _WAITING = range(7)


@numba.njit(cache=True, nogil=True)
def _finish(rows: _Rows, last_row: int, value: float) -> None:
    """Turn the traverser's decisions of one finished game into targets, last to first."""
    row = last_row
    while row >= 0:
        taken = rows.taken_N[row]
        sigma = rows.sigma_N[row]
        w = (value - rows.baseline_N[row]) / rows.q_N[row]
        for i in range(rows.num_legal_N[row]):
            rows.values_NL[row, i] = ((1.0 if i == taken else 0.0) - sigma) * w
        value = rows.baseline_N[row] + sigma * w
        row = rows.previous_N[row]


@numba.njit(cache=True, nogil=True)
def _run_to_decision(run: _Run, rows: _Rows, g: int) -> None:
    """Advance one game over forced moves to a real decision; refill it whenever it ends."""
    games, tally = run.games, run.tally
    state_R = games.states_GR[g]
    while True:
        if games.traversal_G[g] >= 0 and state_R[OVER] != RUNNING:
            tally[_CUT] += state_R[OVER] == CUT
            value = np.float64(value_one(run.lay, state_R, run.traverser))
            _finish(rows, games.last_row_G[g], value)
            games.traversal_G[g] = -1
        if games.traversal_G[g] < 0:
            if tally[_NEXT_ID] == tally[_END_ID]:
                games.waiting_G[g] = -1
                return
            games.traversal_G[g] = tally[_NEXT_ID]
            games.words_G[g] = derive(run.stream, np.uint64(tally[_NEXT_ID]))
            tally[_NEXT_ID] += 1
            games.last_row_G[g] = -1
            games.ratio_G[g] = 1.0
            shuffle_one(run.lay, games.words_G, g, run.deck)
            deal_one(run.lay, run.deck, state_R)
        if legal_one(run.lay, state_R, run.legal_A) > 1:
            games.waiting_G[g] = state_R[MOVER]
            tally[_WAITING + state_R[MOVER]] += 1
            return
        for action in range(len(run.legal_A)):
            if run.legal_A[action]:
                step_one(run.lay, state_R, action)
                break
        tally[_NODES] += 1
        tally[_FORCED] += 1


@numba.njit(cache=True, nogil=True)
def _start(run: _Run, rows: _Rows) -> None:
    for g in range(len(run.games.waiting_G)):
        _run_to_decision(run, rows, g)


@numba.njit(cache=True, nogil=True)
def _fill_batch(run: _Run, player: int, first_game: int) -> int:
    """Encode games that wait for a player, from `first_game` around; return how many fitted in."""
    num_games = len(run.games.waiting_G)
    count = 0
    for offset in range(num_games):
        g = (first_game + offset) % num_games
        if run.games.waiting_G[g] == player and count < len(run.game_B):
            encode_one(run.lay, run.games.states_GR[g], player, run.features_BE[count])
            legal_one(run.lay, run.games.states_GR[g], run.legal_BA[count])
            run.game_B[count] = g
            count += 1
    run.features_BE[count:] = 0
    run.legal_BA[count:] = False
    return count


@numba.njit(cache=True, nogil=True)
def _draw(probability_L: F64, num_legal: int, unit: float) -> int:
    """Return the place that a number in [0, 1) falls on; never one of probability zero."""
    total = 0.0
    last = 0
    for i in range(num_legal):
        if probability_L[i] > 0.0:
            total += probability_L[i]
            last = i
            if unit < total:
                return i
    return last  # rounding left the sum below `unit`


@numba.njit(cache=True, nogil=True)
def _take_actions(run: _Run, rows: _Rows, count: int, advantages_BA: F32) -> None:
    """Record one decision a batch row, act on it, and advance each game to its next decision."""
    games, tally = run.games, run.tally
    max_legal = rows.values_NL.shape[1]
    action_L = np.empty(max_legal, np.int64)
    policy_L = np.empty(max_legal, np.float32)
    q_L = np.empty(max_legal, np.float64)
    for b in range(count):
        g = run.game_B[b]
        row = tally[_ROWS]
        player = games.waiting_G[g]
        own = player == run.traverser
        rows.legal_NM[row] = 0
        num_legal = 0
        for action in range(run.legal_BA.shape[1]):
            if run.legal_BA[b, action]:
                rows.legal_NM[row, action >> 3] |= np.uint8(1 << (action & 7))
                action_L[num_legal] = action
                num_legal += 1
        match_listed(advantages_BA[b], action_L, num_legal, policy_L)
        for i in range(num_legal):
            q_L[i] = policy_L[i]
            if own:
                q_L[i] = run.exploration / num_legal + (1.0 - run.exploration) * q_L[i]
        taken = _draw(q_L, num_legal, next_unit(games.words_G, g))
        rows.features_NE[row] = run.features_BE[b]
        rows.values_NL[row] = 0.0
        rows.weights_N[row] = games.ratio_G[g]
        rows.traversal_N[row] = games.traversal_G[g]
        rows.own_N[row] = own
        if own:
            rows.previous_N[row] = games.last_row_G[g]
            rows.taken_N[row] = taken
            rows.num_legal_N[row] = num_legal
            rows.sigma_N[row] = policy_L[taken]
            rows.q_N[row] = q_L[taken]
            rows.baseline_N[row] = value_one(run.lay, games.states_GR[g], run.traverser)
            games.last_row_G[g] = row
            games.ratio_G[g] /= num_legal * q_L[taken]
        else:
            rows.values_NL[row, :num_legal] = policy_L[:num_legal]
        step_one(run.lay, games.states_GR[g], action_L[taken])
        tally[_ROWS] += 1
        tally[_NODES] += 1
        tally[_WAITING + player] -= 1
        _run_to_decision(run, rows, g)


def _stream(spec: TraversalSpec) -> np.uint64:
    """Return the seed that all traversals of a spec are streams of."""
    seed = np.uint64(0)
    for part in (spec.seed, spec.iteration, spec.traverser):
        # What comes back from a kernel is a plain int, which the next one would take for signed.
        seed = np.uint64(derive(seed, np.uint64(part)))
    return seed


def max_legal_actions(rules: Rules) -> int:
    """Return L: playing or discarding every card of a hand, or the deck and every pile."""
    return max(2 * rules.hand_size, 1 + rules.num_colors)


def run_traversals(rules: Rules, spec: TraversalSpec, advantages: Advantages) -> TraversalSamples:
    """Play the traversals of `spec` to their ends and return what they saw.

    Twice `lanes` games are in flight, so that one of the players always has a full forward
    waiting: only the last few forwards of a call are padded. A state with one legal action is
    passed through without a forward or a sample.
    """
    run = _new_run(rules, spec)
    rows = _no_rows(rules, 16 * len(run.games.waiting_G))
    tally = run.tally
    first_game = 0
    _start(run, rows)
    while tally[_WAITING:].any():
        player = int(tally[_WAITING:].argmax())
        count = _fill_batch(run, player, first_game)
        first_game = int(run.game_B[count - 1]) + 1
        advantages_BA = advantages(player, run.features_BE, run.legal_BA)
        if tally[_ROWS] + count > len(rows.own_N):
            rows = _grown(rows)
        _take_actions(run, rows, count, advantages_BA)

    own_N = rows.own_N[: tally[_ROWS]]
    return TraversalSamples(
        advantage=_ordered(rows, np.flatnonzero(own_N)),
        strategy=_ordered(rows, np.flatnonzero(~own_N)),
        counters=Counters(
            traversals=spec.num_traversals,
            nodes=int(tally[_NODES]),
            infostates=int(tally[_ROWS]),
            forced_moves=int(tally[_FORCED]),
            cut_games=int(tally[_CUT]),
        ),
    )


def concatenate(parts: Sequence[TraversalSamples]) -> TraversalSamples:
    """Join samples of consecutive ranges of ids, given in the order of the ids."""

    def joined(samples: list[NodeSamples]) -> NodeSamples:
        return NodeSamples(
            *(
                np.concatenate([getattr(part, field.name) for part in samples])
                for field in fields(NodeSamples)
            )
        )

    return TraversalSamples(
        advantage=joined([part.advantage for part in parts]),
        strategy=joined([part.strategy for part in parts]),
        counters=Counters(
            *(
                sum(getattr(part.counters, field.name) for part in parts)
                for field in fields(Counters)
            )
        ),
    )


def _ordered(rows: _Rows, chosen: NDArray[np.int64]) -> NodeSamples:
    # Rows of one traversal were recorded in the order of its steps, which a stable sort keeps.
    order = chosen[np.argsort(rows.traversal_N[chosen], kind="stable")]
    return NodeSamples(
        features_SE=rows.features_NE[order],
        legal_SM=rows.legal_NM[order],
        values_SL=rows.values_NL[order],
        weights_S=rows.weights_N[order],
    )


def _new_run(rules: Rules, spec: TraversalSpec) -> _Run:
    num_rows = -(-spec.lanes // _ROW_BLOCK) * _ROW_BLOCK
    num_games = min(2 * num_rows, spec.num_traversals)
    tally = np.zeros(_WAITING + 2, np.int64)
    tally[_NEXT_ID], tally[_END_ID] = spec.first_id, spec.first_id + spec.num_traversals
    return _Run(
        lay=layout(rules),
        traverser=spec.traverser,
        exploration=spec.exploration,
        stream=_stream(spec),
        games=_Games(
            states_GR=np.zeros((num_games, record_size(rules)), np.uint8),
            words_G=np.zeros(num_games, np.uint64),
            traversal_G=np.full(num_games, -1, np.int64),
            last_row_G=np.full(num_games, -1, np.int64),
            ratio_G=np.ones(num_games, np.float64),
            waiting_G=np.full(num_games, -1, np.int8),
        ),
        features_BE=np.empty((num_rows, encoding_size(rules)), np.uint8),
        legal_BA=np.empty((num_rows, rules.num_actions), np.bool_),
        game_B=np.zeros(num_rows, np.int64),
        tally=tally,
        deck=np.empty(rules.num_cards, np.uint8),
        legal_A=np.empty(rules.num_actions, np.bool_),
    )


def _no_rows(rules: Rules, capacity: int) -> _Rows:
    return _Rows(
        features_NE=np.empty((capacity, encoding_size(rules)), np.uint8),
        legal_NM=np.empty((capacity, mask_bytes(rules.num_actions)), np.uint8),
        values_NL=np.empty((capacity, max_legal_actions(rules)), np.float32),
        weights_N=np.empty(capacity, np.float32),
        traversal_N=np.empty(capacity, np.int64),
        own_N=np.empty(capacity, np.bool_),
        previous_N=np.empty(capacity, np.int64),
        taken_N=np.empty(capacity, np.int64),
        num_legal_N=np.empty(capacity, np.int64),
        sigma_N=np.empty(capacity, np.float64),
        q_N=np.empty(capacity, np.float64),
        baseline_N=np.empty(capacity, np.float64),
    )


def _grown(rows: _Rows) -> _Rows:
    """Return the same rows in arrays of twice the capacity."""
    return _Rows(*(np.concatenate([array, np.empty_like(array)]) for array in rows))
