"""Whether paired runs come out the same: two one-sided tests, and how many more pairs it takes.

A pair is two runs of one seed, with the switch off and on. Every quantity that is compared has a
bound, and the hypothesis to be rejected is that the difference of the means lies beyond it: two
one-sided t tests (Schuirmann 1987), so that few or noisy runs never pass for equal ones. All
quantities have to pass, which needs no correction for their number (Berger 1982); that one of them
lies beyond its bound has to be shown at the level divided by their number.

A t quantile and no bootstrap: six pairs resampled scatter less than six new pairs would, and a test
that is meant to be wrong 5 times in 100 would be wrong about twice as often.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev
from typing import Literal

LEVEL = 0.05  # of each one-sided test
POWER = 0.8  # of the number of pairs that is asked for
MOST_PAIRS = 1000  # beyond that no number is named

Finding = Literal["same", "apart", "open"]


@dataclass(frozen=True)
class Quantity:
    """One number of every run; `off[i]` and `on[i]` are of one seed.

    `game_variance` is the part of a number's variance that the games played for it account for: a
    run that plays twice as many has half of it.
    """

    name: str
    off: tuple[float, ...]
    on: tuple[float, ...]
    game_variance: float = 0.0

    def __post_init__(self) -> None:
        if len(self.off) != len(self.on) or len(self.off) < 2:
            raise ValueError(
                f"{self.name} has {len(self.off)} runs off and {len(self.on)} on; expected pairs, "
                "two of them at least"
            )


@dataclass(frozen=True)
class Comparison:
    """What the pairs say of one quantity.

    `difference` is on less off; `low` and `high` are the ends of its 90% interval, which lies
    within the bound exactly where both one-sided tests pass. `spread` is how far seeds are apart
    with the switch off, as a standard deviation. `pairs_needed` are the pairs in all with which
    the finding is no longer open 4 times in 5, if mean and scatter stay as they are; None where
    there are enough, infinite where no number would do. `games_factor` is how many times as many
    games would do in their place; None where seeds alone scatter too much.
    """

    quantity: Quantity
    difference: float
    low: float
    high: float
    spread: float
    bound: float
    finding: Finding
    pairs_needed: float | None = None
    games_factor: float | None = None


def compare(quantities: Sequence[Quantity], margin: float, spreads: float) -> list[Comparison]:
    """Compare every quantity with the smaller of two bounds, both fixed before the first run.

    One is `margin`, in the quantity's unit. The other is that many spreads of the runs with the
    switch off, for a difference may be small and yet no noise of the seeds. The spread is taken to
    be at least what the games alone account for, so that no quantity is held to a finer measure
    than the games resolve. Estimated as it is, this bound only ever takes from the margin.
    """
    return [_compare(quantity, margin, spreads, len(quantities)) for quantity in quantities]


def _compare(quantity: Quantity, margin: float, spreads: float, num_quantities: int) -> Comparison:
    differences = [on - off for off, on in zip(quantity.off, quantity.on, strict=True)]
    pairs, difference, scatter = len(differences), fmean(differences), stdev(differences)
    spread = max(stdev(quantity.off), math.sqrt(quantity.game_variance))
    bound = min(margin, spreads * spread)
    half = t_quantile(1 - LEVEL, pairs - 1) * scatter / math.sqrt(pairs)
    apart = t_quantile(1 - LEVEL / num_quantities, pairs - 1) * scatter / math.sqrt(pairs)
    finding: Finding = "open"
    if abs(difference) + half <= bound:
        finding = "same"
    elif abs(difference) - apart > bound:
        finding = "apart"
    needed, factor = None, None
    if finding == "open":
        level = LEVEL if abs(difference) < bound else LEVEL / num_quantities
        gap = abs(bound - abs(difference))
        needed = _pairs_needed(gap, scatter, level, pairs)
        factor = _games_factor(gap, scatter, level, pairs, quantity.game_variance)
    return Comparison(
        quantity=quantity,
        difference=difference,
        low=difference - half,
        high=difference + half,
        spread=spread,
        bound=bound,
        finding=finding,
        pairs_needed=needed,
        games_factor=factor,
    )


def pairs_needed(comparisons: Sequence[Comparison]) -> float:
    """Return how many pairs in all would settle what is open, infinite where no number would.

    A quantity outside of its bound settles everything once that is shown.
    """
    still_open = [one for one in comparisons if one.finding == "open"]
    outside = [one for one in still_open if abs(one.difference) >= one.bound]
    numbers = [one.pairs_needed or 0.0 for one in outside or still_open]
    return min(numbers) if outside else max(numbers, default=0.0)


def games_factor(comparisons: Sequence[Comparison]) -> float | None:
    """Return how many times as many games would settle it instead, None where games cannot."""
    factors = [one.games_factor for one in comparisons if one.finding == "open"]
    known = [factor for factor in factors if factor is not None]
    return max(known) if known and len(known) == len(factors) else None


def _pairs_needed(gap: float, scatter: float, level: float, pairs: int) -> float:
    """Return the least number of pairs above `pairs` that bridges a gap with the wanted power."""
    if gap <= 0:
        return math.inf
    normal = NormalDist().inv_cdf(1 - level) + NormalDist().inv_cdf(POWER)
    # What a known scatter would take is less than what an estimated one does, and not by much.
    number = max(pairs + 1, math.ceil(min((normal * scatter / gap) ** 2, MOST_PAIRS + 1)))
    while number <= MOST_PAIRS and _reach(number, level) * scatter > gap:
        number += 1
    return number if number <= MOST_PAIRS else math.inf


def _games_factor(
    gap: float, scatter: float, level: float, pairs: int, game_variance: float
) -> float | None:
    """Return by how much games would have to grow for the same pairs to bridge the gap."""
    of_games = min(2 * game_variance, scatter**2)
    allowed = (gap / _reach(pairs, level)) ** 2 - (scatter**2 - of_games)
    return of_games / allowed if allowed > 0 and of_games > 0 else None


def _reach(pairs: int, level: float) -> float:
    """Return the gap, in scatters of one pair, that so many pairs bridge with the wanted power."""
    freedom = pairs - 1
    return (t_quantile(1 - level, freedom) + t_quantile(POWER, freedom)) / math.sqrt(pairs)


@functools.cache
def t_quantile(probability: float, freedom: int) -> float:
    """Return the quantile of Student's t distribution, for a probability from 0.5 to below 1."""
    if not 0.5 <= probability < 1.0 or freedom < 1:
        raise ValueError(
            f"probability is {probability} and freedom {freedom}; expected 0.5 to below 1, and 1 "
            "or more"
        )
    inside = 2 * probability - 1
    low, high = 0.0, 1.0
    while share_within(high, freedom) < inside:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if share_within(middle, freedom) >= inside else (middle, high)
    return high


def share_within(t: float, freedom: int) -> float:
    """Return P(-t <= T <= t), a finite sum for whole degrees of freedom.

    Abramowitz and Stegun 1964, 26.7.3 and 26.7.4.
    """
    cosine_squared = freedom / (freedom + t * t)
    sine = t / math.sqrt(freedom + t * t)
    odd = freedom % 2 == 1
    term = math.sqrt(cosine_squared) if odd else 1.0
    total = term if freedom > 1 else 0.0
    for k in range(3 if odd else 2, freedom - 1, 2):
        term *= (k - 1) / k * cosine_squared
        total += term
    if odd:
        return 2 / math.pi * (math.atan(t / math.sqrt(freedom)) + sine * total)
    return sine * total
