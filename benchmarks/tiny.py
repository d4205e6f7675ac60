"""Deep CFR on a game small enough to be solved: trained step by step, its exploitability known.

Figures are shares of the value range that the game's histories really reach: 4 points on TINY.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from coolrl_lost_cities.games.classic.deep_cfr.checkpoints import load_checkpoint
from coolrl_lost_cities.games.classic.deep_cfr.config import (
    DeepCFRConfig,
    build_rules,
    load_config,
)
from coolrl_lost_cities.games.classic.deep_cfr.exact import (
    GameTree,
    Policy,
    build_tree,
    exploitability,
    policy_table,
)
from coolrl_lost_cities.games.classic.deep_cfr.networks import load_networks
from coolrl_lost_cities.games.classic.deep_cfr.policies import average_policy, current_policy
from coolrl_lost_cities.games.classic.deep_cfr.trainer import DeepCFRTrainer
from coolrl_lost_cities.games.classic.rules import TINY, Rules

OVERRIDES = (
    "network.hidden_size=64",
    "network.num_layers=2",
    "traversal.traversals_per_iteration=1000",
    "traversal.lanes=512",
    "traversal.exploration=0.5",
    "optimization.advantage_batch_size=256",
    "optimization.strategy_batch_size=256",
    "optimization.advantage_steps=100",
    "optimization.strategy_steps=100",
    "optimization.learning_rate=3.0e-3",
    "value.hidden_size=64",
    "value.num_layers=2",
    "value.batch_size=256",
    "value.steps=100",
    "value.learning_rate=3.0e-3",
    "value.capacity=50000",
    "memory.advantage_capacity=50000",
    "memory.strategy_capacity=50000",
    "checkpoint.save_latest=false",
    "evaluation.eval_every=0",
)


@dataclass(frozen=True)
class Point:
    """How far a run is: `cpu_s`, `infostates` and `nodes` since its start, shares of the range."""

    iteration: int
    cpu_s: float
    infostates: int
    nodes: int
    average: float
    current: float


def rules_overrides(rules: Rules) -> list[str]:
    return [f"rules.{name}={json.dumps(value)}" for name, value in asdict(rules).items()]


def tiny_config(folder: Path, seed: int, overrides: Sequence[str] = ()) -> DeepCFRConfig:
    """Return the config of a run on TINY, or on whatever game the overrides make of it."""
    place = [f"run.out={json.dumps(str(folder))}", f"run.seed={seed}"]
    return load_config(None, [*rules_overrides(TINY), *OVERRIDES, *overrides, *place])


def share_of_range(tree: GameTree, policy: Policy) -> float:
    return exploitability(tree, policy_table(tree, policy)) / tree.value_range


def train(config: DeepCFRConfig, every: int = 1) -> Iterator[Point]:
    """Train without end; yield a point every so many iterations. Only training is timed."""
    tree = build_tree(build_rules(config.rules))
    folder = Path(config.run.out)
    folder.mkdir(parents=True, exist_ok=True)
    cpu_s, infostates, nodes = 0.0, 0, 0
    with DeepCFRTrainer(config) as trainer:
        while True:
            begun = time.process_time()
            metrics = trainer.run_iteration()
            cpu_s += time.process_time() - begun
            infostates += metrics["infostates"]
            nodes += metrics["nodes"]
            if trainer.iteration % every == 0:
                average, current = _policies(trainer, config, folder / "now.pt")
                yield Point(
                    iteration=trainer.iteration,
                    cpu_s=cpu_s,
                    infostates=infostates,
                    nodes=nodes,
                    average=share_of_range(tree, average),
                    current=share_of_range(tree, current),
                )


def _policies(trainer: DeepCFRTrainer, config: DeepCFRConfig, path: Path) -> tuple[Policy, Policy]:
    trainer.save(path)
    stored = load_checkpoint(path)
    average = average_policy(load_networks(config, [stored["strategy_network"]])[0])
    current = current_policy(load_networks(config, stored["advantage_networks"]))
    return average, current
