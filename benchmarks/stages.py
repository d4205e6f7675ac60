"""What a traversal's processor time goes to, stage by stage.

The calls of one traversal are timed as they are: the forward, the kernel that advances the games,
the sorting of samples; what is left is Python. The kernel cannot be looked into without slowing it
down, so three of its stages are done again on copies of the states that it is about to act on:
encoding, the engine's step with the list of what is legal next, and regret matching with the draw
of an action. What the kernel takes beyond those is recording and the way back through a finished
game, and what the three find in the caches here and not there.

Axes: B rows of a forward, G games, R bytes of a record, A actions, L legal actions, E features.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numba
import numpy as np

from coolrl_lost_cities.games.classic.counter_rng import next_unit, to_int
from coolrl_lost_cities.games.classic.deep_cfr import traversal
from coolrl_lost_cities.games.classic.deep_cfr.encoding import encode_one
from coolrl_lost_cities.games.classic.deep_cfr.lockstep import Games, Rows, Run
from coolrl_lost_cities.games.classic.deep_cfr.regret import match_listed
from coolrl_lost_cities.games.classic.engine import list_legal_one, step_one
from coolrl_lost_cities.games.classic.kernel_options import KERNEL

_ENCODE, _ENGINE, _REGRET = range(3)
_AGAIN = ("encode", "engine", "regret")


@numba.njit(**KERNEL)
def _again(  # noqa: PLR0917 -- kernels take no keywords
    stage: int,
    run: Run,
    games: Games,
    actions_B: np.ndarray,
    advantages_BA: np.ndarray,
    features_BE: np.ndarray,
) -> None:
    """Do one stage of the kernel for games that are copies, one for each row."""
    lay, policy_L, q_L = run.lay, run.policy_L, run.q_L
    for b in range(len(actions_B)):
        state_R, legal_L, player = games.states_GR[b], games.legal_GL[b], games.waiting_G[b]
        if stage == _ENCODE:
            encode_one(lay, state_R, to_int(player), features_BE[b])
        elif stage == _ENGINE:
            step_one(lay, state_R, to_int(actions_B[b]))
            games.num_legal_G[b] = list_legal_one(lay, state_R, legal_L)
        else:
            num_legal = games.num_legal_G[b]
            match_listed(advantages_BA[b], legal_L, num_legal, policy_L)
            unit = next_unit(games.words_G, b)
            total = 0.0
            for i in range(num_legal):
                q_L[i] = run.exploration / num_legal + (1.0 - run.exploration) * policy_L[i]
                total += q_L[i]
                if unit < total:
                    games.last_row_G[b] = legal_L[i]
                    break


class Stages:
    """Processor time of stages, added up while a traversal runs inside `timed` or `repeated`."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def add(self, stage: str, since: float) -> None:
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.process_time() - since

    def wrapped(self, stage: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            begun = time.process_time()
            result = work(*arguments)
            self.add(stage, begun)
            return result

        return timed

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Time the kernel and the sorting of all traversals inside."""
        kernel, sort = traversal.advance, traversal._sorted_samples
        traversal.advance = self.wrapped("kernel", kernel)
        traversal._sorted_samples = self.wrapped("sort", sort)
        try:
            yield
        finally:
            traversal.advance, traversal._sorted_samples = kernel, sort

    @contextmanager
    def repeated(self) -> Iterator[None]:
        """Do three stages again for each row of all traversals inside, and time those alone."""
        kernel = traversal.advance

        def advance(run: Run, rows: Rows, count: int, *answers: np.ndarray) -> int:
            if count <= 0:
                return kernel(run, rows, count, *answers)
            chosen = run.game_B[:count].copy()
            before = [Games(*(array[chosen] for array in run.games)) for _ in _AGAIN]
            first = int(run.tally[traversal.ROWS])
            left = kernel(run, rows, count, *answers)
            actions_B = rows.action_N[first : first + count]
            features_BE = np.empty((count, rows.features_NE.shape[1]), np.uint8)
            for number, stage in enumerate(_AGAIN):
                begun = time.process_time()
                _again(number, run, before[number], actions_B, answers[0], features_BE)
                self.add(stage, begun)
            return left

        traversal.advance = advance
        try:
            yield
        finally:
            traversal.advance = kernel


def split(timed: Sequence[Stages], again: Sequence[Stages]) -> dict[str, float]:
    """Return the median seconds of each stage, of `total` and of what is left of it for Python."""
    found = {
        stage: statistics.median(one.seconds[stage] for one in rounds)
        for rounds in (timed, again)
        for stage in rounds[0].seconds
    }
    kernel = found.pop("kernel")
    found["record"] = kernel - sum(found[stage] for stage in _AGAIN)
    found["python"] = found["total"] - found["forward"] - kernel - found["sort"]
    return found
