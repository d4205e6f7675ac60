"""Regrets and returns of every path through small random games, weighed by its probability."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from coolrl_lost_cities.games.classic.deep_cfr.estimators import (
    ESCHER,
    OUTCOME,
    Decisions,
    Estimator,
    finish_game,
)

MOST_LEGAL = 3
TRAVERSER = 1


@dataclass
class Node:
    """A decision, or the end of the game where nobody is to move; values are player 0's."""

    value: float
    player: int = -1
    policy: list[float] = field(default_factory=list)
    drawn: list[float] = field(default_factory=list)
    baseline: list[float] = field(default_factory=list)
    children: list["Node"] = field(default_factory=list)

    @property
    def action_values(self) -> list[float]:
        """Of the player who moves."""
        sign = 1 if self.player == 0 else -1
        return [sign * child.value for child in self.children]


def random_game(rng: np.random.Generator, depth: int, *, explorers: tuple[int, ...]) -> Node:
    if depth == 0:
        return Node(value=float(rng.normal(0, 20)))
    count = int(rng.integers(1, MOST_LEGAL + 1))
    children = [random_game(rng, depth - 1, explorers=explorers) for _ in range(count)]
    # float32, as decisions are recorded, and one action of several that the policy never takes.
    weights = rng.random(count) * (rng.random(count) < 0.7)
    policy = weights / weights.sum() if weights.any() else np.full(count, 1 / count)
    policy = policy.astype(np.float32).astype(np.float64)
    player = int(rng.integers(2))
    explored = 0.4 if player in explorers else 0.0
    return Node(
        value=float(policy @ [child.value for child in children]),
        player=player,
        policy=policy.tolist(),
        drawn=(explored / count + (1 - explored) * policy).tolist(),
        baseline=rng.normal(0, 20, count).astype(np.float32).tolist(),
        children=children,
    )


def paths(node: Node) -> Iterator[tuple[float, list[tuple[Node, int]], float]]:
    """Yield each path that has a probability: that, its decisions, and what it ends with."""
    if not node.children:
        yield 1.0, [], node.value
    for action, child in enumerate(node.children):
        if node.drawn[action] > 0:
            for probability, decisions, value in paths(child):
                yield node.drawn[action] * probability, [(node, action), *decisions], value


def finished(
    path: list[tuple[Node, int]], value: float, estimator: Estimator, *, exact: bool
) -> Decisions:
    """Return the path as the traversal would record it, its regrets and returns filled in."""
    count = len(path)

    def listed(rows: list[list[float]]) -> np.ndarray:
        out_NL = np.zeros((count, MOST_LEGAL), np.float32)
        for row, values in enumerate(rows):
            out_NL[row, : len(values)] = values
        return out_NL

    decisions = Decisions(
        player_N=np.array([node.player for node, _ in path], np.int8),
        learns_N=np.array([node.player == TRAVERSER for node, _ in path]),
        previous_N=np.arange(-1, count - 1),
        taken_N=np.array([action for _, action in path], np.int64),
        num_legal_N=np.array([len(node.policy) for node, _ in path], np.int64),
        drawn_N=np.array([node.drawn[action] for node, action in path]),
        policy_NL=listed([node.policy for node, _ in path]),
        baseline_NL=listed([node.action_values if exact else node.baseline for node, _ in path]),
        regrets_NL=np.full((count, MOST_LEGAL), np.nan, np.float32),
        returns_N=np.full(count, np.nan, np.float32),
    )
    finish_game(decisions, count - 1, value, estimator)
    return decisions


def regrets(node: Node) -> np.ndarray:
    values = np.array(node.action_values)
    return values - values @ node.policy


def mean_regrets(game: Node, estimator: Estimator, *, exact: bool = False) -> dict[int, np.ndarray]:
    """Return the mean over all paths through each decision of the traverser, by the node's id."""
    sums: dict[int, np.ndarray] = {}
    reach: dict[int, float] = {}
    for probability, path, value in paths(game):
        decisions = finished(path, value, estimator, exact=exact)
        for row, (node, _) in enumerate(path):
            if node.player == TRAVERSER:
                estimate = decisions.regrets_NL[row, : len(node.policy)].astype(np.float64)
                sums[id(node)] = sums.get(id(node), 0.0) + probability * estimate
                reach[id(node)] = reach.get(id(node), 0.0) + probability
    return {key: total / reach[key] for key, total in sums.items()}


def nodes(game: Node) -> Iterator[Node]:
    if game.children:
        yield game
    for child in game.children:
        yield from nodes(child)


@pytest.mark.parametrize("seed", range(20))
def test_outcome_regrets_are_right_on_average_for_any_baseline(seed: int) -> None:
    game = random_game(np.random.default_rng(seed), 5, explorers=(TRAVERSER,))
    met = mean_regrets(game, Estimator(OUTCOME, 0.5))
    by_id = {id(node): node for node in nodes(game)}
    for key, mean in met.items():
        np.testing.assert_allclose(mean, regrets(by_id[key]), atol=2e-3)


@pytest.mark.parametrize("kind", [OUTCOME, ESCHER])
@pytest.mark.parametrize("seed", range(5))
def test_with_exact_values_every_path_gives_the_exact_regrets(kind: int, seed: int) -> None:
    game = random_game(np.random.default_rng(seed), 4, explorers=())
    for _, path, value in paths(game):
        # The last action's baseline is what the game came to, so nothing is left to chance.
        decisions = finished(path, value, Estimator(kind, 0.5), exact=True)
        for row, (node, _) in enumerate(path):
            if node.player == TRAVERSER:
                got = decisions.regrets_NL[row, : len(node.policy)]
                np.testing.assert_allclose(got, regrets(node), atol=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_escher_regrets_are_differences_of_the_baseline(seed: int) -> None:
    game = random_game(np.random.default_rng(seed), 4, explorers=(0, 1))
    for _, path, value in paths(game):
        decisions = finished(path, value, Estimator(ESCHER, 0.5), exact=False)
        for row, (node, _) in enumerate(path):
            got = decisions.regrets_NL[row, : len(node.policy)]
            if node.player == TRAVERSER:
                wanted = np.array(node.baseline) - np.dot(node.baseline, node.policy)
                np.testing.assert_allclose(got, wanted, atol=1e-4)
            else:
                assert np.isnan(decisions.regrets_NL[row]).all()


@pytest.mark.parametrize("trace_decay", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("explorers", [(), (0, 1)])
def test_returns_are_the_action_values_on_average(
    trace_decay: float, explorers: tuple[int, ...]
) -> None:
    """With exact values as the baseline for any traces; without exploration by lambda 1 alone."""
    game = random_game(np.random.default_rng(7), 5, explorers=explorers)
    for exact in (True, False):
        if not exact and (trace_decay < 1.0 or explorers):
            continue
        sums: dict[tuple[int, int], float] = {}
        reach: dict[tuple[int, int], float] = {}
        for probability, path, value in paths(game):
            decisions = finished(path, value, Estimator(OUTCOME, trace_decay), exact=exact)
            for row, (node, action) in enumerate(path):
                key = id(node), action
                sums[key] = sums.get(key, 0.0) + probability * float(decisions.returns_N[row])
                reach[key] = reach.get(key, 0.0) + probability
        by_id = {id(node): node for node in nodes(game)}
        assert sums
        for (node_id, action), total in sums.items():
            wanted = by_id[node_id].action_values[action]
            assert total / reach[node_id, action] == pytest.approx(wanted, abs=1e-3)


def test_without_traces_a_return_is_the_next_decisions_expected_value() -> None:
    game = random_game(np.random.default_rng(3), 3, explorers=(0, 1))
    for _, path, value in paths(game):
        decisions = finished(path, value, Estimator(OUTCOME, 0.0), exact=False)
        for row, (node, _) in enumerate(path):
            own = 1 if node.player == 0 else -1
            if row + 1 == len(path):
                wanted = own * value
            else:
                following = path[row + 1][0]
                theirs = 1 if following.player == 0 else -1
                wanted = own * theirs * float(np.dot(following.policy, following.baseline))
            assert decisions.returns_N[row] == pytest.approx(wanted, rel=1e-5, abs=1e-5)
