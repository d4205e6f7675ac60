"""The sampled estimator against exact values, and what must not change what is sampled."""

from dataclasses import replace
from statistics import NormalDist
from typing import Literal

import numpy as np
import pytest
import torch

from coolrl_lost_cities.games.classic import engine
from coolrl_lost_cities.games.classic.deep_cfr.config import (
    DeepCFRConfig,
    NetworkConfig,
    build_rules,
)
from coolrl_lost_cities.games.classic.deep_cfr.encoding import encoding_size
from coolrl_lost_cities.games.classic.deep_cfr.exact import (
    build_tree,
    counterfactual_regrets,
    own_reach,
    policy_table,
    reach_probabilities,
    uniform_policy,
)
from coolrl_lost_cities.games.classic.deep_cfr.lockstep import TraversalBuffers
from coolrl_lost_cities.games.classic.deep_cfr.memory import NodeSamples, dense
from coolrl_lost_cities.games.classic.deep_cfr.networks import build_network, forward_rows
from coolrl_lost_cities.games.classic.deep_cfr.regret import regret_matching
from coolrl_lost_cities.games.classic.deep_cfr.tabular import StateIndex
from coolrl_lost_cities.games.classic.deep_cfr.traversal import (
    TraversalSamples,
    TraversalSpec,
    concatenate,
    run_traversals,
)
from coolrl_lost_cities.games.classic.rules import TINY, TINY_ONE_COLOR, TINY_WAGER, Rules

SHORT = Rules(num_colors=3, num_ranks=4, num_wagers=1, hand_size=3, max_steps=60)
SPEC = TraversalSpec(
    seed=5, iteration=3, traverser=0, first_id=0, num_traversals=300, lanes=32, exploration=0.5
)


def hashed_advantages(player: int, features_BE: np.ndarray, legal_BA: np.ndarray) -> np.ndarray:
    """Arbitrary numbers that depend on nothing but the row and the player; half are negative."""
    weights_E = np.arange(1, features_BE.shape[1] + 1) * 40503 + player
    row_B1 = (features_BE * weights_E).sum(axis=1, keepdims=True)
    action_A = np.arange(legal_BA.shape[1]) * 7919
    return (((row_B1 + action_A) % 1013) / 506.0 - 1.0).astype(np.float32)


def hashed_values(histories_BV: np.ndarray) -> np.ndarray:
    """Arbitrary points from -6 to 6: the worst baseline there is."""
    num_actions = TINY_ONE_COLOR.num_actions
    return 6 * hashed_advantages(0, histories_BV, np.empty((len(histories_BV), num_actions)))


def equal(one: TraversalSamples, other: TraversalSamples) -> bool:
    pairs = (
        (one.advantage, other.advantage),
        (one.strategy, other.strategy),
        (one.values, other.values),
    )
    return one.counters == other.counters and all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for a, b in pairs
        for name in ("features_SE", "legal_SM", "values_SL", "weights_S")
    )


class SumsBySet:
    """First and second moments, a row an information set, of what single traversals contribute.

    With perfect recall a traversal visits an information set at most once, so the second moment
    needs no sums within a traversal.
    """

    def __init__(self, features_SE: np.ndarray, num_actions: int) -> None:
        self._index = StateIndex(features_SE.shape[1])
        self._index.add(features_SE)
        self._num_actions = num_actions
        assert len(self._index) == len(features_SE)
        self.sum_SA = np.zeros((len(features_SE), num_actions))
        self.square_SA = np.zeros((len(features_SE), num_actions))
        self.visits_S = np.zeros(len(features_SE), np.int64)

    def add(self, samples: NodeSamples) -> None:
        row_S = self._index.find(samples.features_SE)
        assert (row_S >= 0).all()
        _, values_SA = dense(samples, self._num_actions)
        weighted_SA = values_SA.astype(np.float64) * samples.weights_S[:, None]
        for action in range(self._num_actions):
            for total_SA, values_S in (
                (self.sum_SA, weighted_SA[:, action]),
                (self.square_SA, weighted_SA[:, action] ** 2),
            ):
                total_SA[:, action] += np.bincount(row_S, values_S, len(total_SA))
        self.visits_S += np.bincount(row_S, minlength=len(self.visits_S))

    def scores(self, num_traversals: int, expected_SA: np.ndarray) -> np.ndarray:
        """Return how many standard errors each mean is off, nan where nothing varies."""
        mean_SA = self.sum_SA / num_traversals
        variance_SA = self.square_SA / num_traversals - mean_SA**2
        with np.errstate(invalid="ignore", divide="ignore"):
            return (mean_SA - expected_SA) / np.sqrt(variance_SA / num_traversals)


def assert_unbiased(
    rules: Rules,
    traverser: int,
    exploration: float,
    num_traversals: int,
    min_visits: int,
    *,
    baseline: Literal["none", "score", "learned"] = "score",
) -> int:
    """Compare the mean target of every information set and action with the exact regret.

    The traverser's policy has zeros and pure rows, so exploring actions that it never takes are
    many; the opponent's has none, so that every information set is met.

    Of m unbiased means each is beyond 3 standard errors about 0.27% of the time, so "all within
    3" would fail by chance. Bonferroni instead: all within the z that the largest of m normal
    scores exceeds with probability 0.001, and the scores as a whole no wider than normal ones by
    4 standard errors of that. Sets with fewer than `min_visits` are too skewed for a normal
    score; the number of the others is returned.
    """

    def advantages(player: int, features_BE: np.ndarray, legal_BA: np.ndarray) -> np.ndarray:
        raw_BA = hashed_advantages(player, features_BE, legal_BA)
        return raw_BA if player == traverser else np.abs(raw_BA) + np.float32(0.05)

    tree = build_tree(rules)
    policy_SA = policy_table(
        tree, lambda p, f, legal: regret_matching(advantages(p, f, legal), legal)
    )
    mine = (tree.player_S == traverser) & (tree.legal_SA.sum(axis=1) > 1)
    assert ((policy_SA[mine] == 0) & tree.legal_SA[mine]).mean() > 0.03
    own_S = own_reach(tree, uniform_policy(tree), traverser)[mine]
    expected_SA = own_S[:, None] * counterfactual_regrets(tree, policy_SA)[mine]

    sums = SumsBySet(tree.features_SE[mine], rules.num_actions)
    spec = TraversalSpec(
        seed=5,
        iteration=1,
        traverser=traverser,
        first_id=0,
        num_traversals=num_traversals,
        lanes=4096,
        exploration=exploration,
        baseline=baseline,
    )
    action_values = hashed_values if baseline == "learned" else None
    sums.add(run_traversals(rules, spec, advantages, action_values).advantage)
    often_S = sums.visits_S >= min_visits
    scores_SA = sums.scores(num_traversals, expected_SA)
    # Targets that were zero every time have no score: what they miss is rarer than the sample sees.
    still_SA = tree.legal_SA[mine] & ~np.isfinite(scores_SA)
    assert not sums.square_SA[still_SA].any()
    assert np.abs(expected_SA[often_S[:, None] & still_SA]).max(initial=0) < 10 / num_traversals
    scores = scores_SA[often_S[:, None] & tree.legal_SA[mine] & ~still_SA]
    assert len(scores) > 30
    assert np.abs(scores).max() < NormalDist().inv_cdf(1 - 0.001 / (2 * len(scores)))
    # Scores of one set are hardly independent, so there are about as many as sets.
    num_sets = (often_S[:, None] & tree.legal_SA[mine] & ~still_SA).any(axis=1).sum()
    assert np.sqrt((scores**2).mean()) == pytest.approx(1.0, abs=4 / np.sqrt(2 * num_sets))
    assert (np.abs(scores) > 3).mean() < 0.0027 + 4 * np.sqrt(0.0027 / num_sets)
    return int(often_S.sum())


@pytest.mark.parametrize("exploration", [0.4, 1.0])
@pytest.mark.parametrize("traverser", [0, 1])
def test_mean_target_is_the_exact_regret_in_every_set(traverser: int, exploration: float) -> None:
    tree = build_tree(TINY_ONE_COLOR)
    decisions = (tree.player_S == traverser) & (tree.legal_SA.sum(axis=1) > 1)
    met = assert_unbiased(TINY_ONE_COLOR, traverser, exploration, 150_000, min_visits=200)
    assert met == decisions.sum() > 25


@pytest.mark.parametrize("baseline", ["none", "learned"])
def test_any_baseline_leaves_the_mean_where_it_is(baseline: Literal["none", "learned"]) -> None:
    assert assert_unbiased(TINY_ONE_COLOR, 1, 0.4, 150_000, min_visits=200, baseline=baseline) > 25


@pytest.mark.slow
@pytest.mark.parametrize(("traverser", "exploration"), [(0, 0.4), (1, 0.6)])
def test_mean_target_is_the_exact_regret_on_tiny(traverser: int, exploration: float) -> None:
    assert assert_unbiased(TINY, traverser, exploration, 600_000, min_visits=200) > 150


@pytest.mark.parametrize("exploration", [0.4, 1.0])
def test_strategy_weights_are_the_reach_under_uniform_traversers(exploration: float) -> None:
    """The mean weight of an opponent's set is its reach when the traverser plays uniformly.

    That holds for every sampling policy, so a mean over iterations is not bent by how the
    traverser explored; at exploration 1 the weights are 1 and this counts visits.
    """
    tree = build_tree(TINY_ONE_COLOR)
    policy_SA = policy_table(
        tree, lambda p, f, legal: regret_matching(hashed_advantages(p, f, legal), legal)
    )
    mixed_SA = np.where((tree.player_S == 0)[:, None], uniform_policy(tree), policy_SA)
    reach_N = reach_probabilities(tree, mixed_SA)
    running = tree.set_N >= 0
    theirs = (tree.player_S == 1) & (tree.legal_SA.sum(axis=1) > 1)
    reach_S = np.bincount(tree.set_N[running], reach_N[running], tree.num_sets)[theirs]

    num_traversals = 100_000
    spec = replace(SPEC, exploration=exploration, num_traversals=num_traversals, lanes=4096)
    samples = run_traversals(TINY_ONE_COLOR, spec, hashed_advantages).strategy
    index = StateIndex(tree.features_SE.shape[1])
    index.add(tree.features_SE[theirs])
    row_S = index.find(samples.features_SE)
    mean_S = np.bincount(row_S, samples.weights_S, len(index)) / num_traversals
    square_S = np.bincount(row_S, samples.weights_S.astype(float) ** 2, len(index)) / num_traversals
    visited_S = np.bincount(row_S, minlength=len(index)) >= 100
    assert visited_S.sum() > 20
    error_S = np.sqrt((square_S - mean_S**2) / num_traversals)
    scores = ((mean_S - reach_S) / np.where(error_S > 0, error_S, np.inf))[visited_S]
    assert np.abs(scores).max() < NormalDist().inv_cdf(1 - 0.001 / (2 * len(scores)))
    _, values_SA = dense(samples, TINY_ONE_COLOR.num_actions)
    np.testing.assert_allclose(values_SA, policy_SA[theirs][row_S], atol=1e-6)
    if exploration == 1.0:
        assert (samples.weights_S == 1.0).all()


@pytest.mark.parametrize("rules", [TINY, TINY_WAGER, SHORT], ids=["tiny", "wager", "short"])
@pytest.mark.parametrize("lanes", [1, 7, 100, 1000])
def test_lanes_change_nothing(rules: Rules, lanes: int) -> None:
    wanted = run_traversals(rules, SPEC, hashed_advantages)
    assert wanted.counters.infostates == len(wanted.advantage) + len(wanted.strategy) > 300
    assert equal(run_traversals(rules, replace(SPEC, lanes=lanes), hashed_advantages), wanted)


def test_parts_make_the_whole() -> None:
    parts = [
        run_traversals(
            SHORT, replace(SPEC, first_id=first, num_traversals=count), hashed_advantages
        )
        for first, count in ((0, 1), (1, 120), (121, 179))
    ]
    assert equal(concatenate(parts), run_traversals(SHORT, SPEC, hashed_advantages))


@pytest.mark.parametrize(
    "change", [{"seed": 6}, {"iteration": 4}, {"traverser": 1}, {"first_id": 300}]
)
def test_every_part_of_the_name_of_a_traversal_counts(change: dict[str, int]) -> None:
    one = run_traversals(SHORT, SPEC, hashed_advantages)
    other = run_traversals(SHORT, replace(SPEC, **change), hashed_advantages)
    rows = {row.tobytes() for row in one.advantage.features_SE}
    shared = sum(row.tobytes() in rows for row in other.advantage.features_SE)
    assert shared < 0.05 * len(other.advantage)


def test_forwards_are_full_to_the_last_games_and_hold_only_real_decisions() -> None:
    calls: list[tuple[int, int, int]] = []

    def watching(player: int, features_BE: np.ndarray, legal_BA: np.ndarray) -> np.ndarray:
        count_B = legal_BA.sum(axis=1)
        rows = int((count_B > 0).sum())
        assert (count_B[:rows] >= 2).all()
        assert not count_B[rows:].any()
        assert not features_BE[rows:].any()
        calls.append((player, len(features_BE), rows))
        return hashed_advantages(player, features_BE, legal_BA)

    samples = run_traversals(SHORT, replace(SPEC, num_traversals=1000, lanes=33), watching)
    assert {size for _, size, _ in calls} == {16, 32, 48}
    assert all(2 * rows > size for _, size, rows in calls if size > 16)
    assert sum(rows for _, _, rows in calls) == samples.counters.infostates
    full = [rows == 48 for _, _, rows in calls]
    assert np.mean(full) > 0.9
    assert samples.counters.nodes == samples.counters.infostates + samples.counters.forced_moves


def test_what_comes_back_for_padding_is_not_read() -> None:
    def poisoned(player: int, features_BE: np.ndarray, legal_BA: np.ndarray) -> np.ndarray:
        advantages_BA = hashed_advantages(player, features_BE, legal_BA)
        return np.where(legal_BA, advantages_BA, np.float32("nan"))

    spec = replace(SPEC, num_traversals=50)
    assert equal(
        run_traversals(SHORT, spec, poisoned), run_traversals(SHORT, spec, hashed_advantages)
    )


def test_a_game_is_the_one_that_its_actions_play() -> None:
    """One traversal replayed from its own samples on the engine, targets written out by hand."""
    samples = run_traversals(SHORT, replace(SPEC, num_traversals=1, exploration=1.0), flat)
    own = samples.advantage
    legal_SA, values_SA = dense(own, SHORT.num_actions)
    # sigma is uniform, so with n legal actions the one taken has (n - 1) w / n, the others -w / n.
    taken_S = np.abs(np.where(legal_SA, values_SA, 0.0)).argmax(axis=1)
    n_S = legal_SA.sum(axis=1)
    moved = np.abs(values_SA).sum(axis=1) > 0
    for s in np.flatnonzero(moved & (n_S > 2)):
        w = values_SA[s, taken_S[s]] * n_S[s] / (n_S[s] - 1)
        others = legal_SA[s] & (np.arange(SHORT.num_actions) != taken_S[s])
        np.testing.assert_allclose(values_SA[s, others], -w / n_S[s], rtol=1e-5)
    assert moved.sum() > 3
    # Regrets are orthogonal to the policy: the uniform mean of the targets vanishes.
    np.testing.assert_allclose(values_SA.sum(axis=1), 0.0, atol=1e-3)
    assert (own.weights_S == 1.0).all()


def flat(_player: int, _features_BE: np.ndarray, legal_BA: np.ndarray) -> np.ndarray:
    return np.zeros(legal_BA.shape, np.float32)


@pytest.mark.parametrize("kind", ["mlp", "color_shared"])
@pytest.mark.parametrize("rows", [16, 48, 256])
def test_a_row_of_a_forward_does_not_depend_on_its_companions(kind: str, rows: int) -> None:
    """In float32 on one thread, in every place of a batch and at every size that is used.

    This is what makes samples independent of lanes and workers when a network answers; it is a
    property of the matrix product, so it is tested on the machine that runs it.
    """
    torch.set_num_threads(1)
    config = DeepCFRConfig(network=NetworkConfig(kind=kind, hidden_size=64, num_layers=2))
    network = build_network(config)
    generator = np.random.default_rng(0)
    width = encoding_size(build_rules(config.rules))
    states_BE = generator.integers(0, 9, (rows, width)).astype(np.uint8)
    wanted = forward_rows(network, np.repeat(states_BE[:1], 512, axis=0))[0]
    for place in range(rows):
        batch_BE = generator.integers(0, 9, (rows, width)).astype(np.uint8)
        batch_BE[place] = states_BE[0]
        np.testing.assert_array_equal(forward_rows(network, batch_BE)[place], wanted)


def test_networks_give_the_same_samples_at_any_lanes_and_split() -> None:
    torch.set_num_threads(1)
    config = DeepCFRConfig(network=NetworkConfig(hidden_size=64, num_layers=2))
    rules = build_rules(config.rules)
    networks = [build_network(config, torch.Generator().manual_seed(seed)) for seed in (1, 2)]

    def advantages(player: int, features_BE: np.ndarray, _legal_BA: np.ndarray) -> np.ndarray:
        return forward_rows(networks[player], features_BE)

    spec = replace(SPEC, num_traversals=12)
    whole = run_traversals(rules, spec, advantages)
    assert whole.counters.infostates > 1000
    assert equal(run_traversals(rules, replace(spec, lanes=5), advantages), whole)
    parts = [
        run_traversals(rules, replace(spec, first_id=first, num_traversals=4), advantages)
        for first in (0, 4, 8)
    ]
    assert equal(concatenate(parts), whole)


def test_no_state_has_more_legal_actions_than_a_sample_holds() -> None:
    for rules in (Rules(), TINY, SHORT):
        states_BR = engine.new_games(
            rules, engine.shuffle_decks(rules, np.arange(200, dtype=np.uint64))
        )
        legal_BA = np.empty((200, rules.num_actions), np.bool_)
        engine.legal_actions(rules, states_BR, legal_BA)
        assert legal_BA.sum(axis=1).max() == 2 * rules.hand_size <= rules.max_legal_actions
        assert 1 + rules.num_colors <= rules.max_legal_actions


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"exploration": 0.0}, r"exploration is 0\.0; expected 0 < exploration <= 1"),
        ({"exploration": 1.5}, "exploration is 1.5"),
        ({"lanes": 0}, "lanes is 0"),
        ({"traverser": 2}, "traverser 2"),
    ],
)
def test_what_makes_no_sense_is_refused(change: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SPEC, **change)


def test_buffers_change_nothing_but_whose_memory_the_samples_are_in() -> None:
    """Used again for more rows, for fewer and for rules of another width."""
    buffers = TraversalBuffers()
    for rules, count in ((SHORT, 50), (SHORT, 400), (TINY, 30), (SHORT, 3)):
        spec = replace(SPEC, num_traversals=count)
        wanted = run_traversals(rules, spec, hashed_advantages)
        found = run_traversals(rules, spec, hashed_advantages, buffers=buffers)
        assert equal(found, wanted)
    again = run_traversals(SHORT, replace(SPEC, num_traversals=3), hashed_advantages, None, buffers)
    assert np.shares_memory(again.advantage.features_SE, found.advantage.features_SE)


def test_time_in_forwards_is_part_of_all_time() -> None:
    counters = run_traversals(SHORT, SPEC, hashed_advantages).counters
    assert 0.0 < counters.forward_s < counters.total_s
    both = concatenate([run_traversals(SHORT, SPEC, hashed_advantages)] * 2).counters
    assert both.total_s > both.forward_s > 0.0
    # Two runs of the same spec are equal, whatever they took.
    assert counters == replace(counters, forward_s=0.0, total_s=0.0)
