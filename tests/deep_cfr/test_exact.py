"""The exact solver, against plain recursion over the reference engine and by its own guarantees."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from coolrl_lost_cities.games.classic import engine, reference
from coolrl_lost_cities.games.classic.deep_cfr import exact
from coolrl_lost_cities.games.classic.rules import TINY, TINY_WAGER

FORGETFUL = replace(TINY, remember_history=False)


def arbitrary_policy(tree: exact.GameTree, seed: int) -> np.ndarray:
    """Return a policy without any structure, every legal action possible."""
    weights_SA = np.random.default_rng(seed).gamma(1.0, size=tree.legal_SA.shape) + 0.01
    weights_SA = np.where(tree.legal_SA, weights_SA, 0.0)
    return weights_SA / weights_SA.sum(axis=1, keepdims=True)


class PlainWalk:
    """Walks every game of TINY on the reference engine and adds up what the solver computes."""

    def __init__(self, tree: exact.GameTree, policy_SA: np.ndarray) -> None:
        self.tree, self.policy_SA = tree, policy_SA
        self.worth_SA = np.zeros(policy_SA.shape)
        orders = permutations(engine.full_deck(tree.rules).tolist())
        size = tree.rules.hand_size
        # The order within a hand says nothing; what remains is equally likely.
        decks = {
            (*sorted(deck[:size]), *sorted(deck[size : 2 * size]), *deck[2 * size :])
            for deck in orders
        }
        self.chance = 1.0 / len(decks)
        self.value = sum(self.walk(deck, [], [1.0, 1.0]) for deck in decks) * self.chance

    def walk(self, deck: tuple[int, ...], actions: list[int], reach: list[float]) -> float:
        game = reference.deal(self.tree.rules, list(deck))
        for action in actions:
            game.take(action)
        if game.over:
            mine, theirs = game.scores()
            return float(mine - theirs)
        player = game.player
        features_E = np.array(reference.encode(game, player), np.uint8)
        row = self.tree.index_of(player, features_E)
        legal = game.legal_actions()
        assert np.flatnonzero(self.tree.legal_SA[row]).tolist() == legal
        total = 0.0
        for action in legal:
            probability = self.policy_SA[row, action]
            further = list(reach)
            further[player] *= probability
            value = self.walk(deck, [*actions, action], further)
            sign = 1 if player == 0 else -1
            self.worth_SA[row, action] += self.chance * reach[1 - player] * sign * value
            total += probability * value
        return total


@pytest.mark.slow
def test_values_equal_a_plain_recursion():
    tree = exact.build_tree(TINY)
    policy_SA = arbitrary_policy(tree, seed=1)
    plain = PlainWalk(tree, policy_SA)
    assert exact.expected_value(tree, policy_SA) == pytest.approx(plain.value, abs=1e-12)
    assert plain.value != pytest.approx(0.0, abs=1e-3)
    values_SA = exact.counterfactual_values(tree, policy_SA)
    np.testing.assert_allclose(values_SA, plain.worth_SA, atol=1e-12)
    regrets_SA = exact.counterfactual_regrets(tree, policy_SA)
    mean_S1 = (policy_SA * plain.worth_SA).sum(axis=1, keepdims=True)
    expected_SA = np.where(tree.legal_SA, plain.worth_SA - mean_S1, 0.0)
    np.testing.assert_allclose(regrets_SA, expected_SA, atol=1e-12)


def own_past(tree: exact.GameTree) -> np.ndarray:
    """Return, for each node and player, that player's last information set and action as one id."""
    past_NP = np.full((len(tree.parent_N), 2), -1, np.int64)
    for first, last in zip(tree.level_L[1:-1], tree.level_L[2:], strict=True):
        up = tree.parent_N[first:last]
        row = tree.set_N[up]
        past_NP[first:last] = past_NP[up]
        past_NP[np.arange(first, last), tree.player_S[row]] = (
            row * tree.legal_SA.shape[1] + tree.action_N[first:last]
        )
    return past_NP


def sets_that_forget(tree: exact.GameTree) -> int:
    """Count the information sets whose histories disagree on their player's own past.

    A set's last own set and action fix all earlier ones, so that one step back says all.
    """
    running = np.flatnonzero(tree.set_N >= 0)
    rows = tree.set_N[running]
    past = own_past(tree)[running, tree.player_S[rows]]
    return int((_group_minimum(rows, past) != -_group_minimum(rows, -past)).sum())


def _group_minimum(rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    least_S = np.full(rows.max() + 1, np.iinfo(np.int64).max)
    np.minimum.at(least_S, rows, values)
    return least_S


@pytest.mark.parametrize("rules", [TINY, TINY_WAGER], ids=["tiny", "tiny_wager"])
def test_remembering_rules_have_perfect_recall(rules):
    assert sets_that_forget(exact.build_tree(rules)) == 0


def test_rules_that_do_not_remember_have_not():
    assert sets_that_forget(exact.build_tree(FORGETFUL)) > 100


@pytest.mark.parametrize(
    ("rules", "nodes", "sets", "value_range"),
    [(TINY, 30_114, 5_175, 4.0), (TINY_WAGER, 1_049_460, 47_180, 16.0)],
    ids=["tiny", "tiny_wager"],
)
def test_trees_have_their_sizes_and_probabilities_add_up(rules, nodes, sets, value_range):
    tree = exact.build_tree(rules)
    assert (len(tree.parent_N), tree.num_sets, tree.value_range) == (nodes, sets, value_range)
    assert value_range <= rules.score_range
    assert (np.diff(tree.parent_N[tree.parent_N >= 0]) >= 0).all()
    assert tree.chance_N[tree.parent_N < 0].sum() == pytest.approx(1.0)
    # Over the cards that one action may bring, chance adds up to 1.
    inner = tree.parent_N >= 0
    edge = tree.parent_N[inner] * rules.num_actions + tree.action_N[inner]
    _, index = np.unique(edge, return_inverse=True)
    np.testing.assert_allclose(np.bincount(index, tree.chance_N[inner]), 1.0)
    policy_SA = arbitrary_policy(tree, seed=2)
    ends = tree.set_N < 0
    assert exact.reach_probabilities(tree, policy_SA)[ends].sum() == pytest.approx(1.0)


def test_a_best_response_earns_its_value_and_nothing_earns_more():
    tree = exact.build_tree(TINY)
    policy_SA = arbitrary_policy(tree, seed=3)
    generator = np.random.default_rng(4)
    for player, sign in ((0, 1), (1, -1)):
        value, answer_SA = exact.best_response(tree, policy_SA, player)
        assert sign * exact.expected_value(tree, answer_SA) == pytest.approx(value, abs=1e-12)
        others = tree.player_S != player
        np.testing.assert_array_equal(answer_SA[others], policy_SA[others])
        # Deviating from the answer anywhere never helps: a best response leaves no regret.
        assert exact.counterfactual_regrets(tree, answer_SA)[~others].max() < 1e-12
        for _ in range(30):
            rival_SA = policy_SA.copy()
            keys_SA = np.where(tree.legal_SA, generator.random(tree.legal_SA.shape), -1.0)
            pure_SA = np.eye(tree.legal_SA.shape[1])[keys_SA.argmax(axis=1)]
            rival_SA[~others] = pure_SA[~others]
            assert sign * exact.expected_value(tree, rival_SA) <= value


def test_exploitability_of_uniform_play_is_known():
    tree = exact.build_tree(TINY)
    assert exact.exploitability(tree, exact.uniform_policy(tree)) == pytest.approx(0.6743055555)


def test_cfr_plus_reaches_the_equilibrium_of_tiny():
    tree = exact.build_tree(TINY)
    policy_SA = exact.cfr_plus(tree, 150)
    assert exact.exploitability(tree, policy_SA) / tree.value_range < 1e-6
    # An equilibrium that pure play cannot express, or the tests that use it would be too easy.
    reach_N = exact.reach_probabilities(tree, policy_SA)
    running = tree.set_N >= 0
    reach_S = np.bincount(tree.set_N[running], reach_N[running], minlength=tree.num_sets)
    assert ((policy_SA.max(axis=1) < 0.98) & (reach_S > 1e-6)).sum() > 50


@pytest.mark.slow
def test_cfr_plus_approaches_the_equilibrium_of_tiny_with_wagers():
    tree = exact.build_tree(TINY_WAGER)
    start = exact.exploitability(tree, exact.uniform_policy(tree)) / tree.value_range
    assert start == pytest.approx(0.0887431, abs=1e-6)
    assert exact.exploitability(tree, exact.cfr_plus(tree, 20)) / tree.value_range < 0.002


def test_a_callable_becomes_a_table_by_asking_each_set_once():
    tree = exact.build_tree(TINY)
    asked = []

    def policy(player, features_BE, legal_BA):
        asked.append((player, len(features_BE)))
        return legal_BA * (2.0 + player)  # any scale: rows are made to sum to 1

    policy_SA = exact.policy_table(tree, policy)
    np.testing.assert_allclose(policy_SA, exact.uniform_policy(tree))
    assert [player for player, _ in asked] == [0, 1]
    assert sum(rows for _, rows in asked) == tree.num_sets
    for row in (0, 17, tree.num_sets - 1):
        assert tree.index_of(int(tree.player_S[row]), tree.features_SE[row]) == row


def test_a_game_too_large_is_refused_before_it_fills_the_memory():
    with pytest.raises(ValueError, match="expected at most 5000 in all, as rules like TINY have"):
        exact.build_tree(TINY, max_nodes=5_000)
