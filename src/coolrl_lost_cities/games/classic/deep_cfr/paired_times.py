"""How much time one way saves against another, from iterations that were timed in pairs.

Pairs are compared by the ratio of their times, so that what slows the whole machine for a while
counts for both. The interval is the studentized bootstrap's (Efron and Tibshirani 1993, ch. 12.5),
taken on logarithms: with eight pairs a plain percentile interval would cover far less than it says.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
_RESAMPLES = 20_000
_SEED = 20_260_507  # equal times give an equal interval
_LEAST_PAIRS = 3


@dataclass(frozen=True)
class Saving:
    """The share of the time that is saved, below 0 where it costs, and its 95% interval."""

    effect: float
    low: float
    high: float

    def claims(self, at_least: float) -> bool:
        """Whether the whole interval lies at or above what is asked for."""
        return self.low >= at_least


def claim(found: Saving, bar: float) -> str:
    """Say in a sentence what may be claimed of a saving that has to reach a bar, and no more."""
    if found.claims(bar):
        return f"At least {bar:.0%} faster."
    if found.high < 0:
        return "Slower."
    if found.high < bar:
        return f"Less than {bar:.0%} faster."
    return f"Whether it is {bar:.0%} is not shown."


def saving(off: Sequence[float], on: Sequence[float]) -> Saving:
    """Return what `on` saves against `off`, seconds of the same iterations in the same order.

    Raises ValueError for fewer than three pairs, or times that are not above 0.
    """
    if len(off) != len(on) or len(off) < _LEAST_PAIRS:
        raise ValueError(f"{len(off)} and {len(on)} times, expected as many and at least 3")
    if min(*off, *on) <= 0:
        raise ValueError("a time is not above 0")
    logs = np.log(np.asarray(on, np.float64) / np.asarray(off, np.float64))
    count = len(logs)
    mean, error = logs.mean(), logs.std(ddof=1) / np.sqrt(count)
    if error == 0.0:
        effect = float(1 - np.exp(mean))
        return Saving(effect, effect, effect)
    rng = np.random.default_rng(_SEED)
    drawn = logs[rng.integers(count, size=(_RESAMPLES, count))]
    errors = drawn.std(axis=1, ddof=1) / np.sqrt(count)
    # A resample of one pair over and over has no spread, and says nothing of how far off one is.
    spread = errors > error * 1e-6
    scores = (drawn.mean(axis=1)[spread] - mean) / errors[spread]
    tail = (1 - CONFIDENCE) / 2
    below, above = np.quantile(scores, [tail, 1 - tail])
    ends = 1 - np.exp(mean - np.array([below, above]) * error)
    low, high = float(ends.min()), float(ends.max())
    return Saving(float(1 - np.exp(mean)), low, high)
