import torch

from pkg.networks import build_network


def _clean_state_dict(state_dict):
    return {key.removeprefix("_orig_mod."): value for key, value in state_dict.items()}


class Trainer:
    def __init__(self, config):
        self._advantage_networks = [torch.compile(build_network(config)) for _ in range(2)]
        self._strategy_network = torch.compile(build_network(config))
        self._optimizer = torch.optim.Adam(self._strategy_network.parameters())

    def checkpoint(self):
        return {
            "advantage": [
                _clean_state_dict(network.state_dict()) for network in self._advantage_networks
            ],
            "strategy": _clean_state_dict(self._strategy_network.state_dict()),
            "optimizer": self._optimizer.state_dict(),
        }

    def payload(self):
        weights = []
        for network in self._advantage_networks:
            weights.append(_clean_state_dict(network.state_dict()))
        return weights

    def restore(self, state):
        for network, weights in zip(self._advantage_networks, state["advantage"], strict=True):
            network._orig_mod.load_state_dict(weights)
        self._strategy_network._orig_mod.load_state_dict(state["strategy"])
