"""The same batches of sampled decisions over and over, and networks trained on them in two ways.

The full loop samples its games with the networks that it trains, so the smallest difference grows
into other games. Here the games are fixed, and what differs is how the steps are computed.

Axes: B batch rows, E encoding, A actions.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from coolrl_lost_cities.games.classic.deep_cfr.config import DeepCFRConfig, build_rules
from coolrl_lost_cities.games.classic.deep_cfr.fitting import cross_entropy, squared_error
from coolrl_lost_cities.games.classic.deep_cfr.inference import pack_network
from coolrl_lost_cities.games.classic.deep_cfr.memory import NodeSamples, ReservoirMemory
from coolrl_lost_cities.games.classic.deep_cfr.networks import build_network
from coolrl_lost_cities.games.classic.deep_cfr.replay import build_memory
from coolrl_lost_cities.games.classic.deep_cfr.traversal import TraversalSpec, run_traversals
from coolrl_lost_cities.games.classic.deep_cfr.whole_step import Loss

_GAMES = 256

Batch = tuple[Tensor, Tensor, Tensor, Tensor]  # features BE, targets BA, legal BA, weights B


@dataclass(frozen=True)
class Arm:
    """One way to compute training steps: what wraps a network, or what compiles whole steps."""

    wrap: Callable[[nn.Module], nn.Module]
    whole: Mapping[str, Any] | None = None


@dataclass(frozen=True, eq=False)
class Decisions:
    """Decisions of one kind, and the loss by which a network learns from them."""

    name: str
    loss: Loss
    memory: ReservoirMemory
    batch_size: int
    scale: float
    device: torch.device

    def batches(self, number: int) -> Iterator[Batch]:
        """Yield so many batches, the same ones at every call."""
        generator = np.random.default_rng(0)
        for _ in range(number):
            batch = self.memory.sample(self.batch_size, generator)
            features_BE, targets_BA, legal_BA, weights_B = (
                torch.from_numpy(array).to(self.device)
                for array in (batch.features_BE, batch.targets_BA, batch.legal_BA, batch.weights_B)
            )
            yield features_BE, targets_BA / self.scale, legal_BA, weights_B


def eager_arm() -> Arm:
    """Return the arm that compiles nothing."""
    return Arm(lambda network: network)


def compiled_arm(config: DeepCFRConfig) -> Arm:
    """Return the arm that compiles what a run with `compile.trainer.enabled` would."""
    options: dict[str, Any] = dict(config.compile.trainer.options)
    if config.compile.trainer.scope == "step":
        return Arm(lambda network: network, options)

    def wrap(network: nn.Module) -> nn.Module:
        compiled: Any = torch.compile(network, **options)
        return compiled

    return Arm(wrap)


def fixed_decisions(config: DeepCFRConfig) -> list[Decisions]:
    """Return decisions to learn advantages from, and others to learn a strategy from.

    Games are played by a network of random weights. Whoever explores does so always, so that every
    decision has the weight 1, none stands for all others and a batch says as much as it has rows.
    """
    rules, settings = build_rules(config.rules), config.optimization
    rows = pack_network(build_network(config))
    spec = TraversalSpec(
        seed=config.run.seed,
        iteration=1,
        traverser=0,
        first_id=0,
        num_traversals=_GAMES,
        lanes=min(config.traversal.lanes, _GAMES),
        exploration=1.0,
    )
    samples = run_traversals(rules, spec, lambda player, features_BE, legal_BA: rows(features_BE))
    device = torch.device(config.run.device)

    def memory(found: NodeSamples) -> ReservoirMemory:
        kept = build_memory(rules, len(found), np.random.default_rng(config.run.seed))
        kept.add(found)
        return kept

    regrets, policies = memory(samples.advantage), memory(samples.strategy)
    sizes = settings.advantage_batch_size, settings.strategy_batch_size
    return [
        Decisions("advantage", squared_error, regrets, sizes[0], regrets.value_scale(), device),
        Decisions("strategy", cross_entropy, policies, sizes[1], 1.0, device),
    ]


def new_network(config: DeepCFRConfig) -> nn.Module:
    """Return a network of random weights on the run's device, another one than played."""
    generator = torch.Generator().manual_seed(config.run.seed + 1)
    return build_network(config, generator).to(config.run.device)


def with_gelu(config: DeepCFRConfig) -> DeepCFRConfig:
    """Return the configuration with GELU in place of ReLU."""
    return dataclasses.replace(
        config, network=dataclasses.replace(config.network, activation="gelu")
    )
