import torch
from torch import nn

from conf import Config


class League:
    def __init__(self, config: Config):
        self.players = [nn.Linear(config.width, 1) for _ in range(2)]
        self.judges = {"early": nn.Linear(config.width, 1), "late": nn.Linear(config.width, 1)}

    def save(self):
        return {
            "players": [player.state_dict() for player in self.players],
            "judges": {name: judge.state_dict() for name, judge in self.judges.items()},
        }
