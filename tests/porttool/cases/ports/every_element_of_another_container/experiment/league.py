import torch
from torch import nn


def clean(network):
    return getattr(network, "_orig_mod", network).state_dict()


class League:
    def __init__(self, width):
        self.players = [nn.Linear(width, 1) for _ in range(2)]
        self.judges = [nn.Linear(width, 1) for _ in range(2)]
        for index, player in enumerate(self.players):
            self.players[index] = torch.compile(player)
        self.judges = [torch.compile(judge) for judge in self.judges]

    def save(self):
        return [clean(player) for player in self.players]
