import torch

from pkg.networks import build_network


class Trainer:
    def __init__(self, config):
        self._advantage_networks = [build_network(config) for _ in range(2)]
        self._strategy_network = build_network(config)
        self._optimizer = torch.optim.Adam(self._strategy_network.parameters())

    def checkpoint(self):
        return {
            "advantage": [network.state_dict() for network in self._advantage_networks],
            "strategy": self._strategy_network.state_dict(),
            "optimizer": self._optimizer.state_dict(),
        }

    def payload(self):
        weights = []
        for network in self._advantage_networks:
            weights.append(network.state_dict())
        return weights

    def restore(self, state):
        for network, weights in zip(self._advantage_networks, state["advantage"], strict=True):
            network.load_state_dict(weights)
        self._strategy_network.load_state_dict(state["strategy"])
