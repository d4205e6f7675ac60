"""Sampled games, all advanced in lockstep: networks in, samples out.

Axes: B rows of a forward, G games in flight, N recorded decisions, S samples, E encoding width,
V history width, A actions, L most legal actions of a state, M bytes of a packed legal mask, R bytes
of a game.

What is sampled
    A traversal plays one whole game. Chance acts by its own probabilities. Who explores draws from
    q(a) = exploration / n + (1 - exploration) sigma(a) over n legal actions, who does not from
    sigma. The traverser explores and gets regrets, by one of the estimators of `estimators.py`; the
    other player's policy is recorded for the average strategy. With the traverser `BOTH`, both do
    both: whose exploring decides which histories are met how often, while action values, and so the
    regrets of each history, stay those of the policies.

Weights of the outcome estimator
    How often an information state is visited depends on q, which moves with the iterations, and
    an average over iterations must not. So a row carries the likelihood ratio
    prod (1/n) / q(a*) of the traverser's earlier actions, uniform play against the sampling
    policy: mean 1, at most exploration^-depth, exactly 1 at exploration 1. Then

        E[sum of weight * target] = u(I) * (counterfactual regret at I, Zinkevich et al. 2007)

    where u(I), the traverser's reach of I in uniform play, never changes; regret matching does not
    see it (the same device as the fixed sampling policy of McAleer et al. 2023, ESCHER). The
    opponent's policy is recorded with the same weight, for the average strategy.

    `exact.py` computes the right-hand side for tiny games and the tests compare.

    In a game of fifty decisions a player that ratio is almost always next to nothing. The escher
    estimator goes without: all its rows weigh 1, and an information state counts in the iterations
    in which the policy visits it (as in ARMAC, Gruslys et al. 2020).

Reproducibility
    One generator a traversal, from (seed, iteration, traverser, id): how many games run at once,
    and how ids are split over processes, changes nothing, as long as a row of a forward does not
    depend on its companions. Matrix products do not keep that of themselves: with torch 2.13 and
    MKL in float32, on one thread, the rows of a batch of 1 to 3 differ in their last bits, and so
    do the last rows of 5, 7 or 31 in the color_shared network, while in multiples of 8 a row has
    the same bits in any place, in any company, at any batch size. So every forward has `lanes`
    rows, rounded up to a multiple of 16, or the power of two that holds the last games (16 at
    least), and the rows that are left over are zero.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from coolrl_lost_cities.games.classic.counter_rng import derive
from coolrl_lost_cities.games.classic.deep_cfr.encoding import (
    color_block_size,
    encoding_size,
)
from coolrl_lost_cities.games.classic.deep_cfr.estimators import ESCHER, OUTCOME, Estimator
from coolrl_lost_cities.games.classic.deep_cfr.histories import history_size
from coolrl_lost_cities.games.classic.deep_cfr.lockstep import (
    ASKED,
    CUTS,
    END_ID,
    FORCED,
    NEXT_ID,
    NODES,
    OPENED,
    POINTS,
    ROWS,
    TALLY,
    Rows,
    RowShape,
    Run,
    TraversalBuffers,
    advance,
    grown,
    new_games,
    new_rows,
)
from coolrl_lost_cities.games.classic.deep_cfr.memory import NodeSamples, mask_bytes
from coolrl_lost_cities.games.classic.engine import layout
from coolrl_lost_cities.games.classic.rules import Rules

U8 = NDArray[np.uint8]
I64 = NDArray[np.int64]
F32 = NDArray[np.float32]
Bool = NDArray[np.bool_]

# (player, features_BE, legal_BA) -> raw advantages_BA of that player. Rows past the last game are
# all zero with nothing legal; what comes back for them is not read. The arrays are to be read only,
# and hold something else once the answer is given.
Advantages = Callable[[int, U8, Bool], F32]
# histories_BV -> the value of each action BA, in points for the player who moves; an array that no
# later question changes
ActionValues = Callable[[U8], F32]

BOTH = 2  # as a traverser

# In multiples of so many rows, a row of a forward has the same bits in any company on any CPU.
ROW_BLOCK = 16


@dataclass(frozen=True)
class TraversalSpec:
    """Which traversals to run: ids `first_id` to `first_id + num_traversals - 1`.

    `lanes` is the most rows of a forward, rounded up to a multiple of 16. With `shared_seats` a
    forward takes decisions of both players, as one network answers for both. Raises ValueError for
    an exploration outside (0, 1], and for both players as traversers of the outcome estimator,
    whose weights are one player's.
    """

    seed: int
    iteration: int
    traverser: int
    first_id: int
    num_traversals: int
    lanes: int
    exploration: float
    estimator: Literal["outcome", "escher"] = "outcome"
    baseline: Literal["none", "score", "learned"] = "score"
    trace_decay: float = 0.9
    shared_seats: bool = False

    def __post_init__(self) -> None:
        if not 0.0 < self.exploration <= 1.0:
            # At 0 an action that the policy never takes is never tried: biased.
            raise ValueError(f"exploration is {self.exploration}; expected 0 < exploration <= 1")
        traversers = (0, 1, BOTH) if self.estimator == "escher" else (0, 1)
        if self.lanes < 1 or self.traverser not in traversers:
            raise ValueError(
                f"lanes is {self.lanes} and traverser {self.traverser}; expected lanes >= 1 and "
                f"a traverser of {', '.join(map(str, traversers))}"
            )

    @property
    def needs_action_values(self) -> bool:
        """Whether the estimator asks a value network."""
        return self.estimator == "escher" or self.baseline == "learned"


@dataclass(frozen=True)
class Counters:
    """What a set of traversals did; `infostates` went through a network, `nodes` are all moves.

    `opened_colors` and `expedition_points` add up both players' expeditions as the games ended.
    `forward_s` is the wall time in forwards and `total_s` all of it, both added up over workers.
    """

    traversals: int
    nodes: int
    infostates: int
    forced_moves: int
    cut_games: int
    opened_colors: int
    expedition_points: int
    forward_s: float = field(default=0.0, compare=False)
    total_s: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class TraversalSamples:
    """The traverser's decisions and the opponent's, each ordered by (traversal id, step).

    `values` are all decisions, where a value network learns from them: histories as features, the
    action taken as the only legal one, and its return in points.
    """

    advantage: NodeSamples
    strategy: NodeSamples
    values: NodeSamples
    counters: Counters


def _stream(spec: TraversalSpec) -> np.uint64:
    """Return the seed that all traversals of a spec are streams of."""
    seed = np.uint64(0)
    for part in (spec.seed, spec.iteration, spec.traverser):
        # What comes back from a kernel is a plain int, which the next one would take for signed.
        seed = np.uint64(derive(seed, np.uint64(part)))
    return seed


def run_traversals(
    rules: Rules,
    spec: TraversalSpec,
    advantages: Advantages,
    action_values: ActionValues | None = None,
    buffers: TraversalBuffers | None = None,
) -> TraversalSamples:
    """Play the traversals of `spec` to their ends and return what they saw.

    Twice `lanes` games are in flight where each player has a network of its own, so that one of
    them always has a full forward waiting: only the last few forwards of a call are padded. A state
    with one legal action is passed through without a forward or a sample. With `buffers` the
    samples are good until these are used again. Raises ValueError where the estimator needs action
    values and there are none, or the other way round.
    """
    if (action_values is not None) != spec.needs_action_values:
        raise ValueError(
            f"action_values is {action_values}; expected a value network exactly where estimator "
            f"{spec.estimator} with baseline {spec.baseline} asks one"
        )
    start = time.perf_counter()
    forward_s = 0.0
    buffers = TraversalBuffers() if buffers is None else buffers
    run = _new_run(rules, spec)
    tally, num_rows = run.tally, len(run.game_B)
    shape = RowShape(
        features=encoding_size(rules),
        mask_bytes=mask_bytes(rules.num_actions),
        histories=history_size(rules) if spec.needs_action_values else 0,
        max_legal=rules.max_legal_actions,
    )
    rows = new_rows(shape, 16 * num_rows, buffers)
    no_values_BA = np.empty((num_rows, 0), np.float32)
    count = advance(run, rows, -1, np.empty((0, rules.num_actions), np.float32), no_values_BA)
    while count > 0:
        first = int(tally[ROWS])
        size = _forward_rows(count, num_rows)
        last = first + size
        asked = time.perf_counter()
        # In this order: what `advantages` answers need only be good until the next question.
        values_BA = no_values_BA
        if action_values is not None:
            values_BA = action_values(rows.histories_NV[first:last])
        advantages_BA = advantages(
            int(tally[ASKED]), rows.features_NE[first:last], run.legal_BA[:size]
        )
        forward_s += time.perf_counter() - asked
        if first + count + num_rows > len(rows.action_N):
            rows = grown(shape, rows, first + count + num_rows, buffers)
        count = advance(run, rows, count, advantages_BA, values_BA)
    counters = Counters(
        traversals=spec.num_traversals,
        nodes=int(tally[NODES]),
        infostates=int(tally[ROWS]),
        forced_moves=int(tally[FORCED]),
        cut_games=int(tally[CUTS]),
        opened_colors=int(tally[OPENED]),
        expedition_points=int(tally[POINTS]),
        forward_s=forward_s,
    )
    samples = _sorted_samples(rows, spec, counters, buffers)
    return replace(samples, counters=replace(counters, total_s=time.perf_counter() - start))


def _forward_rows(count: int, num_rows: int) -> int:
    """Return the rows of a forward: a power of two, so that few sizes are ever prepared for."""
    return min(num_rows, max(ROW_BLOCK, 1 << (count - 1).bit_length()))


def _sorted_samples(
    rows: Rows, spec: TraversalSpec, counters: Counters, buffers: TraversalBuffers
) -> TraversalSamples:
    # Rows of one traversal were recorded in the order of its steps, which a stable sort keeps.
    order = np.argsort(rows.traversal_N[: counters.infostates], kind="stable")
    learns_N = rows.decisions.learns_N[order]
    own = order if spec.traverser == BOTH else order[learns_N]
    others = order if spec.traverser == BOTH else order[~learns_N]

    def taken(name: str, chosen: I64, values_NL: F32) -> NodeSamples:
        return NodeSamples(
            features_SE=buffers.taken(f"{name} features", rows.features_NE, chosen),
            legal_SM=buffers.taken(f"{name} legal", rows.legal_NM, chosen),
            values_SL=buffers.taken(f"{name} values", values_NL, chosen),
            weights_S=buffers.taken(f"{name} weights", rows.weights_N, chosen),
        )

    return TraversalSamples(
        advantage=taken("advantage", own, rows.decisions.regrets_NL),
        strategy=taken("strategy", others, rows.decisions.policy_NL),
        values=_value_samples(rows, order if spec.needs_action_values else order[:0], buffers),
        counters=counters,
    )


def _value_samples(rows: Rows, chosen: I64, buffers: TraversalBuffers) -> NodeSamples:
    action_S = rows.action_N[chosen]
    taken_SM = np.zeros((len(chosen), rows.legal_NM.shape[1]), np.uint8)
    taken_SM[np.arange(len(chosen)), action_S >> 3] = 1 << (action_S & 7)
    return NodeSamples(
        features_SE=buffers.taken("histories", rows.histories_NV, chosen),
        legal_SM=taken_SM,
        values_SL=rows.decisions.returns_N[chosen, None],
        weights_S=np.ones(len(chosen), np.float32),
    )


def concatenate(
    parts: Sequence[TraversalSamples], buffers: TraversalBuffers | None = None
) -> TraversalSamples:
    """Join samples of consecutive ranges of ids, given in the order of the ids.

    With `buffers` what comes back is good until these are used again.
    """
    buffers = TraversalBuffers() if buffers is None else buffers

    def joined(name: str) -> NodeSamples:
        arrays = []
        for member in fields(NodeSamples):
            pieces = [getattr(getattr(part, name), member.name) for part in parts]
            count, width = sum(map(len, pieces)), pieces[0].shape[1:]
            out = buffers.array(f"joined {name} {member.name}", count, width, pieces[0].dtype)
            arrays.append(np.concatenate(pieces, out=out[:count]))
        return NodeSamples(*arrays)

    return TraversalSamples(
        advantage=joined("advantage"),
        strategy=joined("strategy"),
        values=joined("values"),
        counters=Counters(
            *(
                sum(getattr(part.counters, field.name) for part in parts)
                for field in fields(Counters)
            )
        ),
    )


def _new_run(rules: Rules, spec: TraversalSpec) -> Run:
    num_rows = -(-spec.lanes // ROW_BLOCK) * ROW_BLOCK
    num_games = min(num_rows if spec.shared_seats else 2 * num_rows, spec.num_traversals)
    tally = np.zeros(TALLY, np.int64)
    tally[NEXT_ID], tally[END_ID] = spec.first_id, spec.first_id + spec.num_traversals
    max_legal = rules.max_legal_actions
    return Run(
        lay=layout(rules),
        learners=(spec.traverser in (0, BOTH), spec.traverser in (1, BOTH)),
        exploration=spec.exploration,
        score_baseline=spec.estimator == "outcome" and spec.baseline == "score",
        shared_seats=spec.shared_seats,
        estimator=Estimator(OUTCOME if spec.estimator == "outcome" else ESCHER, spec.trace_decay),
        color_size=color_block_size(rules),
        stream=_stream(spec),
        games=new_games(rules, num_games, max_legal),
        legal_BA=np.empty((num_rows, rules.num_actions), np.bool_),
        game_B=np.zeros(num_rows, np.int64),
        tally=tally,
        deck=np.empty(rules.num_cards, np.uint8),
        policy_L=np.empty(max_legal, np.float32),
        q_L=np.empty(max_legal, np.float64),
    )
