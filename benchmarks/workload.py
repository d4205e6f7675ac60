"""What the trainer's benchmarks work on: how much of it, and the networks, memories and specs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from coolrl_lost_cities.games.classic.deep_cfr.config import (
    DeepCFRConfig,
    config_from_mapping,
    config_to_mapping,
)
from coolrl_lost_cities.games.classic.deep_cfr.networks import Network, build_network
from coolrl_lost_cities.games.classic.deep_cfr.traversal import TraversalSpec

Line = dict[str, Any]


# Untrained networks go round the discard piles until they are cut; trained ones take about so long.
MAX_STEPS = "rules.max_steps=120"


@dataclass(frozen=True)
class Sizes:
    """How much work a round is: enough that it takes far longer than the clocks can tell apart."""

    networks: tuple[tuple[int, int], ...] = ((512, 3), (256, 2))
    precisions: tuple[str, ...] = ("fp32", "bf16")
    games: int = 1024
    steps: int = 60
    lanes: int = 256
    traversals: int = 768
    batches: int = 20
    samples: int = 100_000
    batch_size: int = 1024
    gathers: int = 40
    training_steps: int = 10
    matches: int = 1000
    matches_one_by_one: int = 40
    requests: int = 20
    request_rows: int = 1024


def variants(sizes: Sizes) -> Iterator[tuple[tuple[int, int], str]]:
    for network in sizes.networks:
        for precision in sizes.precisions:
            yield network, precision


def changed(config: DeepCFRConfig, *overrides: str) -> DeepCFRConfig:
    return config_from_mapping(config_to_mapping(config), "benchmark", overrides)


def sized(
    config: DeepCFRConfig, hidden_size: int, num_layers: int, precision: str
) -> DeepCFRConfig:
    return changed(
        config,
        f"network.hidden_size={hidden_size}",
        f"network.num_layers={num_layers}",
        f"run.precision={precision}",
    )


def a_spec(sizes: Sizes, num_traversals: int) -> TraversalSpec:
    return TraversalSpec(
        seed=1,
        iteration=1,
        traverser=0,
        first_id=0,
        num_traversals=num_traversals,
        lanes=sizes.lanes,
        exploration=0.5,
    )


def some_networks(config: DeepCFRConfig) -> list[Network]:
    generator = torch.Generator().manual_seed(1)
    return [build_network(config, generator).to(config.run.device) for _ in range(2)]


def state_on_cpu(network: Network) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu() for name, tensor in network.state_dict().items()}


def shape_of(config: DeepCFRConfig) -> str:
    return f"{config.network.hidden_size} x {config.network.num_layers}"
