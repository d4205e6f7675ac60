import torch
from torch import nn

from conf import Config


def clean(network):
    return getattr(network, "_orig_mod", network).state_dict()


class League:
    def __init__(self, config: Config):
        self.players = [nn.Linear(config.width, 1) for _ in range(2)]
        self.judges = {"early": nn.Linear(config.width, 1), "late": nn.Linear(config.width, 1)}
        for index, player in enumerate(self.players):
            self.players[index] = torch.compile(player)
        for name in self.judges:
            self.judges[name] = torch.compile(self.judges[name])

    def save(self):
        return {
            "players": [clean(player) for player in self.players],
            "judges": {name: clean(judge) for name, judge in self.judges.items()},
        }
