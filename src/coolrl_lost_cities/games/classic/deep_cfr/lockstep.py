# ruff: noqa: N815 -- fields are arrays, and array names end in their axes
"""Games in flight and the decisions recorded of them, as compiled kernels.

Axes: B rows of a forward, G games in flight, N recorded decisions, E encoding width, V history
width, A actions, L most legal actions of a state, M bytes of a packed legal mask, R bytes of a
game.

Rows are encoded where they are recorded: the rows of the next forward are those behind the last
recorded one, so features are written once and copied once, to where they are handed out.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from coolrl_lost_cities.games.classic.counter_rng import derive, next_unit, to_int
from coolrl_lost_cities.games.classic.deep_cfr.encoding import encode_one
from coolrl_lost_cities.games.classic.deep_cfr.estimators import (
    OUTCOME,
    Decisions,
    Estimator,
    finish_game,
)
from coolrl_lost_cities.games.classic.deep_cfr.histories import extend_one
from coolrl_lost_cities.games.classic.deep_cfr.regret import match_listed
from coolrl_lost_cities.games.classic.engine import (
    CUT,
    MOVER,
    OVER,
    RUNNING,
    deal_one,
    list_legal_one,
    num_open_one,
    record_size,
    score_one,
    shuffle_one,
    step_one,
    value_one,
)
from coolrl_lost_cities.games.classic.kernel_options import INNER, KERNEL
from coolrl_lost_cities.games.classic.rules import Rules

U8 = NDArray[np.uint8]
I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
F64 = NDArray[np.float64]
F32 = NDArray[np.float32]
I16 = NDArray[np.int16]
Bool = NDArray[np.bool_]


class Games(NamedTuple):
    """What stands of each game; it is refilled when it ends."""

    states_GR: U8
    words_G: U64  # generators
    traversal_G: I64
    last_row_G: I64  # the latest decision, -1 before the first
    ratio_G: F64  # of the traverser's actions so far: uniform play against sampling policy
    waiting_G: NDArray[np.int8]  # the player whose forward the game waits for, -1 when unused
    legal_GL: I16  # the actions which that player has, in order
    num_legal_G: I64


class Rows(NamedTuple):
    """Decisions in the order in which their forwards were answered."""

    features_NE: U8
    legal_NM: U8
    histories_NV: U8  # of no width where no value network learns
    action_N: I16
    weights_N: F32
    traversal_N: I64
    decisions: Decisions


class Run(NamedTuple):
    """Everything of one call but the rows, whose arrays grow."""

    lay: I64
    learners: tuple[bool, bool]  # by player: who explores and gets regrets
    exploration: float
    score_baseline: bool
    shared_seats: bool
    estimator: Estimator
    color_size: int
    stream: np.uint64
    games: Games
    legal_BA: Bool
    game_B: I64
    tally: I64
    deck: U8  # scratch, as the two below
    policy_L: F32
    q_L: F64


# Places in a tally: `ASKED` is the player whose network answers the next forward, `_FIRST_GAME`
# where the search for its rows begins; from `_WAITING`, the games that wait for either player.
NEXT_ID, END_ID, ROWS, NODES, FORCED, CUTS, OPENED, POINTS, ASKED, _FIRST_GAME, _WAITING = range(11)
TALLY = _WAITING + 2


@numba.njit(**INNER)
def _run_to_decision(run: Run, rows: Rows, g: int) -> None:
    """Advance one game over forced moves to a real decision; refill it whenever it ends."""
    games, tally = run.games, run.tally
    state_R = games.states_GR[g]
    legal_L = games.legal_GL[g]
    while True:
        if games.traversal_G[g] >= 0 and state_R[OVER] != RUNNING:
            tally[CUTS] += state_R[OVER] == CUT
            for player in range(2):
                tally[POINTS] += score_one(run.lay, state_R, player)
                tally[OPENED] += num_open_one(run.lay, state_R, player)
            value = np.float64(value_one(run.lay, state_R, to_int(0)))
            finish_game(rows.decisions, games.last_row_G[g], value, run.estimator)
            games.traversal_G[g] = -1
        if games.traversal_G[g] < 0:
            if tally[NEXT_ID] == tally[END_ID]:
                games.waiting_G[g] = -1
                return
            games.traversal_G[g] = tally[NEXT_ID]
            games.words_G[g] = derive(run.stream, np.uint64(tally[NEXT_ID]))
            tally[NEXT_ID] += 1
            games.last_row_G[g] = -1
            games.ratio_G[g] = 1.0
            shuffle_one(run.lay, games.words_G, g, run.deck)
            deal_one(run.lay, run.deck, state_R)
        num_legal = list_legal_one(run.lay, state_R, legal_L)
        if num_legal > 1:
            player = to_int(state_R[MOVER])
            games.num_legal_G[g] = num_legal
            games.waiting_G[g] = player
            tally[_WAITING + player] += 1
            return
        step_one(run.lay, state_R, to_int(legal_L[0]))
        tally[NODES] += 1
        tally[FORCED] += 1


@numba.njit(**INNER)
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


@numba.njit(**INNER)
def _take_action(run: Run, rows: Rows, g: int, advantages_A: F32, values_A: F32) -> None:
    """Record the decision of a game whose features and mask are in the next row; act on it."""
    games, decisions, row = run.games, rows.decisions, run.tally[ROWS]
    state_R, legal_L, num_legal = games.states_GR[g], games.legal_GL[g], games.num_legal_G[g]
    policy_L, q_L = run.policy_L, run.q_L
    player = to_int(games.waiting_G[g])
    learns = run.learners[player]
    match_listed(advantages_A, legal_L, num_legal, policy_L)
    for i in range(num_legal):
        q_L[i] = policy_L[i]
        if learns:
            q_L[i] = run.exploration / num_legal + (1.0 - run.exploration) * q_L[i]
    taken = _draw(q_L, num_legal, next_unit(games.words_G, g))
    action = to_int(legal_L[taken])
    base = 0.0
    if run.score_baseline and learns:
        base = np.float64(value_one(run.lay, state_R, player))
    valued = len(values_A) > 0
    for i in range(len(policy_L)):
        used = i < num_legal
        decisions.policy_NL[row, i] = policy_L[i] if used else 0.0
        decisions.regrets_NL[row, i] = 0.0
        decisions.baseline_NL[row, i] = base
        if used and valued:
            decisions.baseline_NL[row, i] = values_A[legal_L[i]]
    decisions.player_N[row] = player
    decisions.learns_N[row] = learns
    decisions.previous_N[row] = games.last_row_G[g]
    decisions.taken_N[row] = taken
    decisions.num_legal_N[row] = num_legal
    decisions.drawn_N[row] = q_L[taken]
    rows.action_N[row] = action
    rows.weights_N[row] = games.ratio_G[g]
    rows.traversal_N[row] = games.traversal_G[g]
    games.last_row_G[g] = row
    if learns and run.estimator.kind == OUTCOME:
        games.ratio_G[g] /= num_legal * q_L[taken]
    step_one(run.lay, state_R, action)


@numba.njit(**INNER)
def _lay_out(run: Run, rows: Rows) -> int:
    """Encode the games of the next forward behind the rows recorded; return how many they are.

    The player is asked for whom most games wait, and games are taken in turn. Where the seats
    share a network, games that wait for the other player fit as well. Rows left over are zero.
    """
    games, tally = run.games, run.tally
    num_games, num_rows = len(games.waiting_G), len(run.game_B)
    asked = 1 if tally[_WAITING + 1] > tally[_WAITING] else 0
    first = tally[ROWS]
    count = 0
    g = tally[_FIRST_GAME]
    for _ in range(num_games):
        if count == num_rows:
            break
        waiting = to_int(games.waiting_G[g])
        if waiting == asked or (run.shared_seats and waiting >= 0):
            state_R = games.states_GR[g]
            features_E, mask_M = rows.features_NE[first + count], rows.legal_NM[first + count]
            encode_one(run.lay, state_R, waiting, features_E)
            if rows.histories_NV.shape[1] > 0:
                history_V = rows.histories_NV[first + count]
                extend_one(run.lay, state_R, run.color_size, features_E, history_V)
            mask_M[:] = 0
            run.legal_BA[count] = False
            for i in range(games.num_legal_G[g]):
                action = to_int(games.legal_GL[g, i])
                mask_M[action >> 3] |= np.uint8(1 << (action & 7))
                run.legal_BA[count, action] = True
            run.game_B[count] = g
            count += 1
        g = g + 1 if g + 1 < num_games else 0
    tally[ASKED], tally[_FIRST_GAME] = asked, g
    for b in range(count, num_rows):
        rows.features_NE[first + b] = 0
        rows.histories_NV[first + b] = 0
        run.legal_BA[b] = False
    return count


@numba.njit(**KERNEL)
def advance(run: Run, rows: Rows, count: int, advantages_BA: F32, values_BA: F32) -> int:
    """Act on the first `count` rows of the forward that was answered, and lay out the next one.

    Returns how many rows that has; 0 when the traversals are done. A negative `count` begins.
    `values_BA` has no columns where no value network was asked.
    """
    if count < 0:
        for g in range(len(run.games.waiting_G)):
            _run_to_decision(run, rows, g)
    for b in range(count):
        g = run.game_B[b]
        run.tally[_WAITING + run.games.waiting_G[g]] -= 1
        _take_action(run, rows, g, advantages_BA[b], values_BA[b])
        run.tally[ROWS] += 1
        run.tally[NODES] += 1
        _run_to_decision(run, rows, g)
    return _lay_out(run, rows)


class TraversalBuffers:
    """Memory that one traversal after the other uses.

    What the operating system does for a page of fresh memory takes longer than what is computed
    for the rows on it.
    """

    def __init__(self) -> None:
        self._arrays: dict[str, NDArray[Any]] = {}

    def array(self, name: str, num_rows: int, width: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """Return an array of at least so many rows that holds anything; one for each name."""
        array = self._arrays.get(name)
        if array is None or array.shape[1:] != width or array.dtype != dtype:
            array = np.empty((num_rows, *width), dtype)
        elif len(array) < num_rows:
            array = np.empty((max(num_rows, len(array) * 5 // 4), *width), dtype)
        self._arrays[name] = array
        return array

    def taken(self, name: str, array: NDArray[Any], chosen: I64) -> NDArray[Any]:
        """Return rows of an array, copied to the memory of this name."""
        out = self.array(name, len(chosen), array.shape[1:], array.dtype)[: len(chosen)]
        np.take(array, chosen, axis=0, out=out, mode="clip")  # the only mode without another copy
        return out


def new_games(rules: Rules, num_games: int, max_legal: int) -> Games:
    """Return games none of which has begun."""
    return Games(
        states_GR=np.zeros((num_games, record_size(rules)), np.uint8),
        words_G=np.zeros(num_games, np.uint64),
        traversal_G=np.full(num_games, -1, np.int64),
        last_row_G=np.full(num_games, -1, np.int64),
        ratio_G=np.ones(num_games, np.float64),
        waiting_G=np.full(num_games, -1, np.int8),
        legal_GL=np.zeros((num_games, max_legal), np.int16),
        num_legal_G=np.zeros(num_games, np.int64),
    )


@dataclass(frozen=True)
class RowShape:
    """Widths of what a row holds."""

    features: int
    mask_bytes: int
    histories: int
    max_legal: int


def new_rows(shape: RowShape, num_rows: int, buffers: TraversalBuffers) -> Rows:
    """Return room for at least so many rows."""
    by_legal = (shape.max_legal,)
    kinds: dict[str, tuple[tuple[int, ...], Any]] = {
        "features_NE": ((shape.features,), np.uint8),
        "legal_NM": ((shape.mask_bytes,), np.uint8),
        "histories_NV": ((shape.histories,), np.uint8),
        "action_N": ((), np.int16),
        "weights_N": ((), np.float32),
        "traversal_N": ((), np.int64),
        "player_N": ((), np.int8),
        "learns_N": ((), np.bool_),
        "previous_N": ((), np.int64),
        "taken_N": ((), np.int64),
        "num_legal_N": ((), np.int64),
        "drawn_N": ((), np.float64),
        "policy_NL": (by_legal, np.float32),
        "baseline_NL": (by_legal, np.float32),
        "regrets_NL": (by_legal, np.float32),
        "returns_N": ((), np.float32),
    }
    arrays = {
        name: buffers.array(name, num_rows, width, dtype) for name, (width, dtype) in kinds.items()
    }
    room = min(len(array) for array in arrays.values())
    arrays = {name: array[:room] for name, array in arrays.items()}
    decisions = Decisions(**{name: arrays.pop(name) for name in Decisions._fields})
    return Rows(**arrays, decisions=decisions)


def grown(shape: RowShape, rows: Rows, num_rows: int, buffers: TraversalBuffers) -> Rows:
    """Return the same rows with room for at least so many, and half as many again as now."""
    larger = new_rows(shape, max(num_rows, len(rows.action_N) * 3 // 2), buffers)
    old: list[NDArray[Any]] = [*rows[:-1], *rows.decisions]
    new: list[NDArray[Any]] = [*larger[:-1], *larger.decisions]
    for to, array in zip(new, old, strict=True):
        to[: len(array)] = array
    return larger
