# ruff: noqa: N815 -- fields are arrays, and array names end in their axes
"""From one finished game to what its decisions teach: regrets, and targets for action values.

Axes: N recorded decisions, L most legal actions of a state.

Notation, at a decision with policy sigma: q(a) is the probability with which a was drawn, a* the
action that was, b(a) a baseline in points for the player who decides, and v what the game came to
from here on, for that player; at the end v is the difference of the scores.

outcome (Schmid et al. 2019, VR-MCCFR, eqs. 7 to 9; Steinberger et al. 2020, DREAM, learn b)
    Going backwards, the value of each action is estimated as::

        v^(a) = b(a) + 1[a = a*] (v - b(a*)) / q(a*)
        v    <- sum_a sigma(a) v^(a)

    and the regrets of the traverser are v^(a) - sum_a' sigma(a') v^(a'). That is unbiased for
    every b that the history up to here decides. Actions that were not taken get a value as well,
    not zero: without it the mean would be (1 - sigma(a)) v(a), which is no regret.

escher (McAleer et al. 2023, ESCHER, eq. 5)
    b is a network's opinion of the action values; the regrets are b(a) - sum_a' sigma(a') b(a').
    No probability divides anything, so the variance does not grow with the length of the game;
    what is wrong with b goes into the regrets.

The targets of the action values, where a network learns them, are returns that trust the network's
own values further away: with the trace decay lambda, Retrace (Munos et al. 2016, eq. 4) in the form
of Expected Sarsa::

    G(a*) <- V' + lambda min(1, sigma'(a*') / q'(a*')) (G' - b'(a*')),   V' = sum_a sigma'(a) b'(a)

where ' is the next decision, its values taken for the player who decides here, and at the last
decision G is the difference of the scores.
"""

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from coolrl_lost_cities.games.classic.kernel_options import KERNEL

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]
F32 = NDArray[np.float32]
Bool = NDArray[np.bool_]

OUTCOME, ESCHER = 0, 1


class Decisions(NamedTuple):
    """Decisions as they were taken, and (last two) what `finish_game` makes of them.

    What stands by legal action is for the first `num_legal_N` of L.
    """

    player_N: NDArray[np.int8]
    learns_N: Bool  # whether the decision gives regrets
    previous_N: I64  # the decision before this one in the same game, -1 for the first
    taken_N: I64  # place of the action among the legal ones
    num_legal_N: I64
    drawn_N: F64  # q(a*)
    policy_NL: F32
    baseline_NL: F32
    regrets_NL: F32
    returns_N: F32


class Estimator(NamedTuple):
    """`kind` is OUTCOME or ESCHER; `trace_decay` is lambda."""

    kind: int
    trace_decay: float


@numba.njit(**KERNEL)
def finish_game(decisions: Decisions, last: int, value: float, estimator: Estimator) -> None:
    """Fill in regrets and returns of one game, from its last decision to its first.

    `value` is what the game came to, in points for player 0.
    """
    reached = value  # v of the outcome estimator, for player 0
    trusted = value  # G before the sign of the player who decides
    row = last
    while row >= 0:
        sign = 1.0 if decisions.player_N[row] == 0 else -1.0
        taken = decisions.taken_N[row]
        num_legal = decisions.num_legal_N[row]
        drawn = decisions.drawn_N[row]
        sigma = np.float64(decisions.policy_NL[row, taken])
        base = np.float64(decisions.baseline_NL[row, taken])
        # All relative to `base`, so that what is equal cancels to the last bit.
        expected = 0.0
        for i in range(num_legal):
            sigma_i = np.float64(decisions.policy_NL[row, i])
            expected += sigma_i * (np.float64(decisions.baseline_NL[row, i]) - base)
        surprise = sign * reached - base
        beyond = surprise / drawn
        mean = expected
        if estimator.kind == OUTCOME:
            mean += surprise if sigma == drawn else sigma * beyond
        if decisions.learns_N[row]:
            for i in range(num_legal):
                estimate = np.float64(decisions.baseline_NL[row, i]) - base
                if estimator.kind == OUTCOME and i == taken:
                    estimate += beyond
                decisions.regrets_NL[row, i] = estimate - mean
        reached = sign * (base + mean)
        gain = sign * trusted
        decisions.returns_N[row] = gain
        kept = estimator.trace_decay * min(1.0, sigma / drawn)
        trusted = sign * (base + expected + kept * (gain - base))
        row = decisions.previous_N[row]
