"""The escher estimator on a game small enough that its action values are known."""

from dataclasses import replace

import numpy as np
import pytest

from coolrl_lost_cities.games.classic.deep_cfr.exact import (
    GameTree,
    build_tree,
    node_values,
    policy_table,
    reach_probabilities,
)
from coolrl_lost_cities.games.classic.deep_cfr.histories import history_size
from coolrl_lost_cities.games.classic.deep_cfr.memory import NodeSamples, dense
from coolrl_lost_cities.games.classic.deep_cfr.regret import regret_matching
from coolrl_lost_cities.games.classic.deep_cfr.tabular import StateIndex
from coolrl_lost_cities.games.classic.deep_cfr.traversal import (
    BOTH,
    TraversalSamples,
    TraversalSpec,
    run_traversals,
)
from coolrl_lost_cities.games.classic.rules import TINY_ONE_COLOR

SPEC = TraversalSpec(
    seed=5,
    iteration=1,
    traverser=0,
    first_id=0,
    num_traversals=60_000,
    lanes=4096,
    exploration=0.5,
    estimator="escher",
    trace_decay=0.5,
)


def advantages(player: int, features_BE: np.ndarray, legal_BA: np.ndarray) -> np.ndarray:
    """Arbitrary positive numbers: every action has a probability."""
    weights_E = np.arange(1, features_BE.shape[1] + 1) * 40503 + player
    row_B1 = (features_BE * weights_E).sum(axis=1, keepdims=True)
    return (((row_B1 + np.arange(legal_BA.shape[1]) * 7919) % 1013) / 900.0 + 0.1).astype(
        np.float32
    )


class ValueTable:
    """The mean return of every action in every history, once they stop to move."""

    def __init__(self) -> None:
        self._index = StateIndex(history_size(TINY_ONE_COLOR))
        self._mean_SA = np.zeros((0, TINY_ONE_COLOR.num_actions))

    def __call__(self, histories_BV: np.ndarray) -> np.ndarray:
        known = self._index.find(histories_BV)
        padded_SA = np.vstack([self._mean_SA, np.zeros((1, TINY_ONE_COLOR.num_actions))])
        return padded_SA[known].astype(np.float32)

    def learn(self, samples: NodeSamples) -> None:
        self._index.add(samples.features_SE)
        row_S = self._index.find(samples.features_SE)
        taken_SA, returns_SA = dense(samples, TINY_ONE_COLOR.num_actions)
        sum_SA = np.zeros((len(self._index), TINY_ONE_COLOR.num_actions))
        count_SA = np.zeros_like(sum_SA)
        np.add.at(sum_SA, row_S, returns_SA)
        np.add.at(count_SA, row_S, taken_SA)
        self._mean_SA = sum_SA / np.maximum(count_SA, 1)


def learned_values(spec: TraversalSpec) -> ValueTable:
    """Return the values of the policy: each sweep looks one decision further, and none is longer
    than the game.
    """
    table = ValueTable()
    for sweep in range(TINY_ONE_COLOR.max_steps + 1):
        table.learn(run(replace(spec, iteration=100 + sweep), table).values)
    return table


def run(spec: TraversalSpec, table: ValueTable) -> TraversalSamples:
    return run_traversals(TINY_ONE_COLOR, spec, advantages, table)


def mean_regrets(
    tree: GameTree, samples: NodeSamples, sets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean regret of each of these information sets, and how often it was met."""
    index = StateIndex(tree.features_SE.shape[1])
    index.add(tree.features_SE[sets])
    row_S = index.find(samples.features_SE)
    _, regrets_SA = dense(samples, TINY_ONE_COLOR.num_actions)
    sum_SA = np.zeros((len(index), TINY_ONE_COLOR.num_actions))
    np.add.at(sum_SA, row_S[row_S >= 0], regrets_SA[row_S >= 0])
    visits_S = np.bincount(row_S[row_S >= 0], minlength=len(index))
    return sum_SA / np.maximum(visits_S, 1)[:, None], visits_S


def exact_regrets(
    tree: GameTree, policy_SA: np.ndarray, met_SA: np.ndarray, player: int
) -> np.ndarray:
    """Return each set's mean of Q - V of `policy_SA`, over its histories as `met_SA` meets them."""
    sign = 1 if player == 0 else -1
    values_N = sign * node_values(tree, policy_SA)
    reach_N = reach_probabilities(tree, met_SA, without=player)
    child = np.flatnonzero(tree.parent_N >= 0)
    parent = tree.parent_N[child]
    set_S = tree.set_N[parent]
    action_values_SA = np.zeros((tree.num_sets, TINY_ONE_COLOR.num_actions))
    gain = reach_N[parent] * tree.chance_N[child] * values_N[child]
    np.add.at(action_values_SA, (set_S, tree.action_N[child]), gain)
    running = tree.set_N >= 0
    reach_S = np.bincount(tree.set_N[running], reach_N[running], tree.num_sets)
    action_values_SA /= np.maximum(reach_S, 1e-12)[:, None]
    mean_S1 = (action_values_SA * policy_SA).sum(axis=1, keepdims=True)
    return np.where(tree.legal_SA, action_values_SA - mean_S1, 0.0)


@pytest.mark.parametrize("traverser", [0, 1, BOTH])
def test_regrets_are_exact_where_the_values_are(traverser: int) -> None:
    """Values are those of the policies; who explores decides which histories are met how often."""
    spec = replace(SPEC, traverser=traverser)
    samples = run(spec, learned_values(spec)).advantage
    tree = build_tree(TINY_ONE_COLOR)
    policy_SA = policy_table(
        tree, lambda p, f, legal: regret_matching(advantages(p, f, legal), legal)
    )
    count_S1 = np.maximum(tree.legal_SA.sum(axis=1, keepdims=True), 1)
    explored_SA = SPEC.exploration * tree.legal_SA / count_S1 + (1 - SPEC.exploration) * policy_SA
    for player in (0, 1) if traverser == BOTH else (traverser,):
        mine = (tree.player_S == player) & (tree.legal_SA.sum(axis=1) > 1)
        mean_SA, visits_S = mean_regrets(tree, samples, mine)
        met_SA = explored_SA if traverser == BOTH else policy_SA
        wanted_SA = exact_regrets(tree, policy_SA, met_SA, player)[mine]
        often = visits_S > 300
        assert often.sum() >= 12
        np.testing.assert_allclose(mean_SA[often], wanted_SA[often], atol=0.03)
