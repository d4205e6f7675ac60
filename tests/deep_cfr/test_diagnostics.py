"""What the metrics say of samples, compared with numbers worked out by hand."""

import math

import numpy as np
import pytest

from coolrl_lost_cities.games.classic.deep_cfr.diagnostics import (
    explained_share,
    first_rows,
    game_metrics,
    sample_metrics,
)
from coolrl_lost_cities.games.classic.deep_cfr.memory import NodeSamples
from coolrl_lost_cities.games.classic.deep_cfr.traversal import (
    Counters,
    TraversalSamples,
    TraversalSpec,
    run_traversals,
)
from coolrl_lost_cities.games.classic.rules import TINY, Rules


def samples(legal: list[list[int]], values: list[list[float]], weights=None) -> NodeSamples:
    """Samples over 10 actions, of which `legal` lists those of each sample, in order."""
    legal_SA = np.zeros((len(legal), 10), np.bool_)
    values_SL = np.zeros((len(legal), 4), np.float32)
    for row, (actions, numbers) in enumerate(zip(legal, values, strict=True)):
        legal_SA[row, actions] = True
        values_SL[row, : len(numbers)] = numbers
    return NodeSamples(
        features_SE=np.arange(len(legal), dtype=np.uint8)[:, None],
        legal_SM=np.packbits(legal_SA, axis=1, bitorder="little"),
        values_SL=values_SL,
        weights_S=np.array(weights or [1.0] * len(legal), np.float32),
    )


NONE = samples([], [])


def metrics_of(advantage: NodeSamples, strategy: NodeSamples) -> dict[str, float]:
    counters = Counters(1, 1, 1, 0, 0, 0, 0)
    return sample_metrics(TraversalSamples(advantage, strategy, NONE, counters))


def test_targets_and_policies_by_hand():
    advantage = samples([[1, 9], [0, 3, 8], [2, 4]], [[3.0, -3.0], [0.0, 0.0, 0.0], [1.0, -1.0]])
    strategy = samples([[1, 9], [0, 3, 8]], [[0.5, 0.5], [1.0, 0.0, 0.0]])
    found = metrics_of(advantage, strategy)
    assert found["zero_targets"] == pytest.approx(1 / 3)
    # Seven targets with a mean of zero; what is past the legal actions of a sample does not count.
    assert found["target_variance"] == pytest.approx((9 + 9 + 1 + 1) / 7)
    assert found["policy_entropy"] == pytest.approx(math.log(2) / 2)
    assert metrics_of(NONE, NONE) == dict.fromkeys(found, 0.0)


def test_what_a_network_explains_by_hand():
    targets = samples([[1, 9], [0, 3]], [[2.0, -2.0], [4.0, 0.0]], weights=[1.0, 3.0])
    perfect_SA = np.full((2, 10), 77.0, np.float32)  # nobody looks at what is illegal
    perfect_SA[0, [1, 9]], perfect_SA[1, [0, 3]] = [1.0, -1.0], [2.0, 0.0]
    assert explained_share(targets, perfect_SA, 2.0) == 1.0
    # The weighted mean is (2 - 2 + 3 * 4) / 8 = 1.5: no network is needed to say that.
    assert explained_share(targets, np.full((2, 10), 1.5, np.float32), 1.0) == pytest.approx(0.0)
    # Zero everywhere: squares 4 + 4 + 3 * 16 = 56, about the mean 56 - 8 * 1.5^2 = 38.
    assert explained_share(targets, np.zeros((2, 10), np.float32), 1.0) == pytest.approx(
        1 - 56 / 38
    )
    constant = samples([[1, 2]], [[5.0, 5.0]])
    assert explained_share(constant, np.zeros((1, 10), np.float32), 1.0) == 0.0
    assert explained_share(NONE, np.zeros((0, 10), np.float32), 1.0) == 0.0


def test_the_first_rows_are_taken_from_every_array():
    first = first_rows(samples([[1], [2], [3]], [[1.0], [2.0], [3.0]], [4.0, 5.0, 6.0]), 2)
    assert len(first) == 2
    assert first.features_SE[:, 0].tolist() == [0, 1]
    assert first.values_SL[:, 0].tolist() == [1.0, 2.0]
    assert first.weights_S.tolist() == [4.0, 5.0]


def test_games_are_counted_by_hand():
    counted = {
        "traversals": 4,
        "nodes": 100,
        "cut_games": 1,
        "opened_colors": 16,
        "expedition_points": -40,
    }
    assert game_metrics(counted) == {
        "colors_a_game": 2.0,
        "expedition_score": -2.5,
        "game_steps": 25.0,
        "cut_share": 0.25,
    }
    none = counted | {"opened_colors": 0, "expedition_points": 0}
    assert game_metrics(none)["expedition_score"] == 0.0


def uniform_advantages(player, features_BE, legal_BA):
    return np.zeros(legal_BA.shape, np.float32)


@pytest.mark.parametrize("rules", [Rules(max_steps=6), TINY], ids=["cut", "tiny"])
def test_traversals_count_the_expeditions_of_both_players(rules):
    spec = TraversalSpec(
        seed=1, iteration=1, traverser=0, first_id=0, num_traversals=40, lanes=16, exploration=1.0
    )
    counters = run_traversals(rules, spec, uniform_advantages).counters
    again = run_traversals(rules, spec, uniform_advantages).counters
    assert counters == again
    if rules == TINY:
        assert 40 <= counters.opened_colors <= 2 * 40 * rules.num_colors
    else:
        # Three card steps a game, each opening at most one color and each a loss at first.
        assert counters.cut_games == 40
        assert 0 < counters.opened_colors <= 3 * 40
        assert counters.expedition_points < 0
