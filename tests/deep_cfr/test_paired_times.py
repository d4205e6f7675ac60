"""Statistics of paired times: the interval covers what it says, and 4% are not sold as 5%."""

import numpy as np
import pytest

from coolrl_lost_cities.games.classic.deep_cfr.paired_times import saving

TRIALS = 400


def simulated(
    effect: float, noise: float, pairs: int, rng: np.random.Generator
) -> tuple[list[float], list[float]]:
    """Return times of both sides on a machine whose speed wanders, which both sides feel."""
    machine = np.exp(np.cumsum(rng.normal(0, 0.05, pairs)))
    off = machine * np.exp(rng.normal(0, noise, pairs))
    on = machine * (1 - effect) * np.exp(rng.normal(0, noise, pairs))
    return list(off), list(on)


# Another effect only shifts the logarithms, and with them the interval.
@pytest.mark.parametrize(("effect", "pairs"), [(0.08, 8), (-0.05, 20)])
def test_the_interval_covers_the_effect_95_times_in_100(effect: float, pairs: int) -> None:
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(TRIALS):
        found = saving(*simulated(effect, 0.03, pairs, rng))
        covered += found.low <= effect <= found.high
    # Two standard errors of a share of 400 are 0.022.
    assert 0.92 <= covered / TRIALS <= 0.98


def test_four_percent_are_never_sold_as_five() -> None:
    rng = np.random.default_rng(2)
    found = [saving(*simulated(0.04, 0.004, 8, rng)) for _ in range(TRIALS)]
    assert not any(one.claims(0.05) for one in found)
    # And with noise that hides the difference no more often than the interval allows.
    noisy = [saving(*simulated(0.04, 0.03, 8, rng)) for _ in range(TRIALS)]
    assert sum(one.claims(0.05) for one in noisy) / TRIALS <= 0.05


def test_a_clear_effect_is_claimed() -> None:
    rng = np.random.default_rng(3)
    found = [saving(*simulated(0.2, 0.02, 8, rng)) for _ in range(50)]
    assert all(one.claims(0.05) for one in found)


def test_what_slows_the_whole_machine_does_not_count() -> None:
    off = [1.0, 2.0, 4.0, 8.0]
    found = saving(off, [time * 0.9 for time in off])
    assert found.effect == pytest.approx(0.1)
    assert found.low == pytest.approx(0.1)
    assert found.high == pytest.approx(0.1)


def test_equal_times_give_an_equal_interval_and_order_is_kept() -> None:
    off, on = [1.0, 1.1, 0.9, 1.0], [0.9, 1.0, 0.8, 1.1]
    assert saving(off, on) == saving(off, on)
    back = saving(on, off)
    assert saving(off, on).effect > 0 > back.effect
    assert back.low < back.effect < back.high


@pytest.mark.parametrize(
    ("off", "on"),
    [([1.0, 1.0], [1.0, 1.0]), ([1.0] * 4, [1.0] * 3), ([1.0, 0.0, 1.0], [1.0] * 3)],
)
def test_times_that_say_nothing_are_refused(off: list[float], on: list[float]) -> None:
    with pytest.raises(ValueError, match="time"):
        saving(off, on)
