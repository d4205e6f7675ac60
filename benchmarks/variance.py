"""How much the estimators of regrets vary: around the exact regrets of a tiny game, and by
themselves on the full one.

    python -m benchmarks.variance [--iterations N] [--traversals N] [--networks FILE]

Prints two Markdown tables. The policy is the same for all estimators: two advantage networks and a
value network after a few iterations of escher on TINY; on the full game those of a run's
`networks.pt` (trained with a value network), or else of as many iterations there.

tiny: a set's regret is the weighted mean of its targets. `error` is the standard error that it has
after 1,000 visits, `off` how far it is from the exact one here, and `chance` how far an unbiased
one would be, with as many visits as the sets have had: in points, root mean squares over sets by
their visits and over legal actions. `exact` is the size of the exact regrets. full: `effective` is
the share of rows that as many rows of equal weight would make (Kish 1965), `target` the weighted
root mean square of a decision's targets in points, `zero` the share of decisions whose targets are
all zero.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.tiny import tiny_config
from coolrl_lost_cities.games.classic.deep_cfr.checkpoints import load_checkpoint
from coolrl_lost_cities.games.classic.deep_cfr.config import (
    DeepCFRConfig,
    build_rules,
    config_from_mapping,
    load_config,
)
from coolrl_lost_cities.games.classic.deep_cfr.exact import (
    build_tree,
    counterfactual_regrets,
    policy_table,
    reach_probabilities,
)
from coolrl_lost_cities.games.classic.deep_cfr.memory import NodeSamples, dense
from coolrl_lost_cities.games.classic.deep_cfr.networks import load_networks
from coolrl_lost_cities.games.classic.deep_cfr.policies import current_policy
from coolrl_lost_cities.games.classic.deep_cfr.tabular import StateIndex
from coolrl_lost_cities.games.classic.deep_cfr.trainer import DeepCFRTrainer
from coolrl_lost_cities.games.classic.deep_cfr.traversal import TraversalSpec
from coolrl_lost_cities.games.classic.deep_cfr.workers import local_forward, run_with_networks

VARIANTS = {
    "outcome, no baseline": ("outcome", "none"),
    "outcome, score": ("outcome", "score"),
    "outcome, learned": ("outcome", "learned"),
    "escher": ("escher", "score"),
}
VISITS = 1000
FULL = (
    "network.kind=color_shared",
    "network.hidden_size=64",
    "network.num_layers=2",
    "value.hidden_size=64",
    "value.num_layers=2",
    "value.steps=60",
    "optimization.advantage_steps=60",
    "optimization.strategy_steps=1",
    "optimization.reinitialize_advantage=false",
    "traversal.traversals_per_iteration=256",
    "traversal.lanes=256",
    "memory.advantage_capacity=200000",
    "memory.strategy_capacity=1000",
    "evaluation.eval_every=0",
)


def trained(config: DeepCFRConfig, iterations: int) -> Path:
    """Train with escher; return where the networks lie."""
    with DeepCFRTrainer(config) as trainer:
        for _ in range(iterations):
            trainer.run_iteration()
        trainer.save_latest()
    return Path(config.run.out) / "networks.pt"


def sampled(networks: Path, variant: str, traversals: int) -> NodeSamples:
    """Return what a variant makes of player 0's decisions, by the stored networks."""
    contents = load_checkpoint(networks)
    kind, baseline = VARIANTS[variant]
    mapping = contents["config"]
    mapping["estimator"] = {"kind": kind, "baseline": baseline}
    config = config_from_mapping(mapping, str(networks))
    values = contents["value_networks"] if config.estimator.asks_values else []
    stored = [*contents["advantage_networks"], *values]
    spec = TraversalSpec(
        seed=1,
        iteration=1,
        traverser=0,
        first_id=0,
        num_traversals=traversals,
        lanes=config.traversal.lanes,
        exploration=config.traversal.exploration,
        estimator=kind,
        baseline=baseline,
    )
    return run_with_networks(config, spec, local_forward(load_networks(config, stored))).advantage


def tiny_row(networks: Path, variant: str, traversals: int) -> list[str]:
    contents = load_checkpoint(networks)
    config = config_from_mapping(contents["config"], str(networks))
    rules = build_rules(config.rules)
    tree = build_tree(rules)
    policy = current_policy(load_networks(config, contents["advantage_networks"]))
    policy_SA = policy_table(tree, policy)
    mine = (tree.player_S == 0) & (tree.legal_SA.sum(axis=1) > 1)
    reach_N = reach_probabilities(tree, policy_SA, without=0)
    running = tree.set_N >= 0
    reach_S = np.bincount(tree.set_N[running], reach_N[running], tree.num_sets)[mine]
    regrets_SA = counterfactual_regrets(tree, policy_SA)[mine]
    met = reach_S > 0
    exact_SA = regrets_SA[met] / reach_S[met, None]

    samples = sampled(networks, variant, traversals)
    index = StateIndex(tree.features_SE.shape[1])
    index.add(tree.features_SE[mine][met])
    row_S = index.find(samples.features_SE)
    _, targets_SA = dense(samples, rules.num_actions)
    weights_S = samples.weights_S.astype(np.float64)
    sums_S = np.bincount(row_S, weights_S, len(index))
    visits_S = np.bincount(row_S, minlength=len(index))
    mean_SA = np.zeros_like(exact_SA)
    np.add.at(mean_SA, row_S, targets_SA * weights_S[:, None])
    mean_SA /= np.maximum(sums_S, 1e-12)[:, None]
    spread_SA = np.zeros_like(exact_SA)
    np.add.at(spread_SA, row_S, (weights_S[:, None] * (targets_SA - mean_SA[row_S])) ** 2)
    # The variance of a ratio of means, for one visit.
    spread_SA *= (visits_S / np.maximum(sums_S, 1e-12) ** 2)[:, None]
    often = visits_S >= 100
    share_S1 = (visits_S * often / (visits_S * often).sum())[:, None]
    legal_of_S1 = tree.legal_SA[mine][met].sum(axis=1, keepdims=True)
    error = np.sqrt((share_S1 * spread_SA / VISITS / legal_of_S1).sum())
    off = np.sqrt((share_S1 * (mean_SA - exact_SA) ** 2 / legal_of_S1).sum())
    spread_of_mean_SA = spread_SA / np.maximum(visits_S, 1)[:, None]
    chance = np.sqrt((share_S1 * spread_of_mean_SA / legal_of_S1).sum())
    size = np.sqrt((share_S1 * exact_SA**2 / legal_of_S1).sum())
    return [variant, *(f"{points:.4f}" for points in (error, off, chance, size))]


def full_row(networks: Path, variant: str, traversals: int) -> list[str]:
    samples = sampled(networks, variant, traversals)
    weights_S = samples.weights_S.astype(np.float64)
    squares_S = (samples.values_SL.astype(np.float64) ** 2).sum(axis=1)
    effective = weights_S.sum() ** 2 / (len(samples) * (weights_S**2).sum())
    target = np.sqrt(weights_S @ squares_S / weights_S.sum())
    return [variant, f"{effective:.2g}", f"{target:.2f}", f"{(squares_S == 0).mean():.3f}"]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--traversals", type=int, default=20_000)
    parser.add_argument("--networks", type=Path, help="a run's networks.pt, on the full game")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        tiny = tiny_config(Path(folder) / "tiny", 0, ["estimator.kind=escher"])
        Path(tiny.run.out).mkdir()
        networks = trained(tiny, options.iterations)
        rows = [tiny_row(networks, variant, options.traversals) for variant in VARIANTS]
        title = f"on TINY, after {options.iterations} iterations"
        print(table([title, "error", "off", "chance", "exact"], rows), flush=True)
        print()
        networks = options.networks
        if networks is None:
            out = Path(folder) / "full"
            out.mkdir()
            full = load_config(None, [*FULL, f"run.out={out}", "estimator.kind=escher"])
            networks = trained(full, options.iterations)
        played = max(64, options.traversals // 40)
        rows = [full_row(networks, variant, played) for variant in VARIANTS]
        print(table([f"on the full rules, {played} games", "effective", "target", "zero"], rows))


if __name__ == "__main__":
    main()
