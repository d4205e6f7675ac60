"""What is learnt, against what is known: exploitability on games small enough to solve.

All figures are shares of the value range that the game's histories really reach, which is
stricter than `Rules.score_range`: 4 points against 20 on TINY.
"""

from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from coolrl_lost_cities.games.classic.deep_cfr.config import (
    CheckpointConfig,
    DeepCFRConfig,
    EvaluationConfig,
    MemoryConfig,
    NetworkConfig,
    OptimizationConfig,
    RulesConfig,
    RunConfig,
    TraversalConfig,
)
from coolrl_lost_cities.games.classic.deep_cfr.exact import (
    Policy,
    build_tree,
    exploitability,
    policy_table,
    uniform_policy,
)
from coolrl_lost_cities.games.classic.deep_cfr.networks import load_networks
from coolrl_lost_cities.games.classic.deep_cfr.policies import average_policy, current_policy
from coolrl_lost_cities.games.classic.deep_cfr.tabular import TabularCFR
from coolrl_lost_cities.games.classic.deep_cfr.trainer import DeepCFRTrainer
from coolrl_lost_cities.games.classic.rules import TINY, Rules

# One card in the hand, longer fights for it: 12,972 information sets with a choice against 2,163.
ONE_CARD = Rules(
    num_colors=2,
    num_ranks=3,
    lowest_rank=1,
    num_wagers=0,
    hand_size=1,
    expedition_cost=4,
    bonus_cards=2,
    bonus=1,
    max_steps=8,
    remember_history=True,
)


def share_of_range(rules: Rules, policy: Policy) -> float:
    tree = build_tree(rules)
    return exploitability(tree, policy_table(tree, policy)) / tree.value_range


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rules", "uniform", "iterations"),
    [(TINY, 0.1686, 60), (ONE_CARD, 0.1042, 100)],
    ids=["tiny", "one_card"],
)
def test_the_table_comes_to_the_equilibrium(rules: Rules, uniform: float, iterations: int) -> None:
    tree = build_tree(rules)
    start = exploitability(tree, uniform_policy(tree)) / tree.value_range
    assert start == pytest.approx(uniform, abs=1e-4)
    table = TabularCFR(rules, seed=1, lanes=512, exploration=0.5)
    for _ in range(iterations):
        table.run_iteration(1000)
    assert share_of_range(rules, table.average_policy) < 0.02


def tiny_config(seed: int, out: Path) -> DeepCFRConfig:
    return DeepCFRConfig(
        run=RunConfig(seed=seed, out=str(out)),
        rules=RulesConfig(**asdict(TINY)),
        network=NetworkConfig(kind="mlp", hidden_size=64, num_layers=2),
        traversal=TraversalConfig(traversals_per_iteration=1000, lanes=512, exploration=0.5),
        optimization=OptimizationConfig(
            advantage_batch_size=256,
            strategy_batch_size=256,
            advantage_steps=100,
            strategy_steps=100,
            learning_rate=3e-3,
        ),
        memory=MemoryConfig(advantage_capacity=50_000, strategy_capacity=50_000),
        checkpoint=CheckpointConfig(save_latest=False),
        evaluation=EvaluationConfig(eval_every=0),
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_networks_come_near_the_equilibrium(seed: int, tmp_path: Path) -> None:
    """The whole trainer below 0.1 of the range; uniform play is at 0.169."""
    torch.set_num_threads(1)
    config = tiny_config(seed, tmp_path)
    with DeepCFRTrainer(config) as trainer:
        for _ in range(6):
            trainer.run_iteration()
        trainer.save(tmp_path / "end.pt")
    stored = torch.load(tmp_path / "end.pt", weights_only=True)
    average = average_policy(load_networks(config, [stored["strategy_network"]])[0])
    current = current_policy(load_networks(config, stored["advantage_networks"]))
    assert share_of_range(TINY, average) < 0.1
    assert share_of_range(TINY, current) < 0.1
