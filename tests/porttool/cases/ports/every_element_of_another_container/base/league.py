import torch
from torch import nn


class League:
    def __init__(self, width):
        self.players = [nn.Linear(width, 1) for _ in range(2)]
        self.judges = [nn.Linear(width, 1) for _ in range(2)]

    def save(self):
        return [player.state_dict() for player in self.players]
