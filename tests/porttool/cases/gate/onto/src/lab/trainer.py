"""A trainer with two kinds of networks, weight pushes and checkpoints."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lab.config import LabConfig, describe


def build_network(config: LabConfig) -> nn.Module:
    """Return a network with fresh weights."""
    size = config.network.hidden_size
    return nn.Sequential(nn.Linear(8, size), nn.ReLU(), nn.Linear(size, 4))


class Evaluator:
    """Keeps the very object that it is given."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network


class Trainer:
    """Owns the networks for the length of a run."""

    def __init__(self, config: LabConfig, *, resume_from: Path | None = None) -> None:
        self._config = config
        self._device = torch.device("cpu")
        self.iteration = 0

        rate = config.optimization.learning_rate
        self._advantage_networks = [build_network(config).to(self._device) for _ in range(2)]
        self._strategy_network = build_network(config).to(self._device)
        self._advantage_optimizers = [
            torch.optim.AdamW(network.parameters(), lr=rate) for network in self._advantage_networks
        ]
        self._strategy_optimizer = torch.optim.AdamW(self._strategy_network.parameters(), lr=rate)

        self._log = [describe(config)]
        self._evaluator = Evaluator(self._strategy_network)
        if resume_from is not None:
            self.load(resume_from)

    def payload(self, backend: str) -> dict[str, Any]:
        """Return what workers need; nothing where a server answers for them."""
        if backend == "server":
            networks: list[dict[str, Tensor]] = []
        else:
            networks = [_on_cpu(network.state_dict()) for network in self._advantage_networks]
        return {"networks": networks, "iteration": self.iteration}

    def snapshot(self, player: int) -> dict[str, Tensor]:
        """Return the weights of one player."""
        weights = _on_cpu(self._advantage_networks[player].state_dict())
        self._log.append(f"snapshot {player} at {self.iteration}")
        return weights

    def train(self, batch: Tensor) -> float:
        """Take one step; return the loss."""
        settings = self._config.optimization
        total = 0.0
        for _ in range(settings.steps):
            loss = self._strategy_network(batch).square().mean()
            self._strategy_optimizer.zero_grad()
            loss.backward()
            self._strategy_optimizer.step()
            total += loss.item()
        self.iteration += 1
        return total / settings.steps

    def save(self, path: Path) -> None:
        """Write everything that `load` needs."""
        contents = {
            "iteration": self.iteration,
            "advantage": [network.state_dict() for network in self._advantage_networks],
            "strategy": self._strategy_network.state_dict(),
            "optimizer": self._strategy_optimizer.state_dict(),
        }
        torch.save(contents, path)
        path.with_suffix(".json").write_text(json.dumps(self._log))

    def load(self, path: Path) -> None:
        """Continue from a checkpoint."""
        contents = torch.load(path, weights_only=True)
        for network, weights in zip(self._advantage_networks, contents["advantage"], strict=True):
            network.load_state_dict(weights)
        self._strategy_network.load_state_dict(contents["strategy"])
        self._strategy_optimizer.load_state_dict(contents["optimizer"])
        self.iteration = contents["iteration"]


def _on_cpu(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies that training no longer touches."""
    return {name: tensor.detach().cpu().clone() for name, tensor in weights.items()}
