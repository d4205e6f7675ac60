import torch
from torch import nn


class League:
    def __init__(self, width):
        self.players = [nn.Linear(width, 1) for _ in range(2)]
        self.judges = {"early": nn.Linear(width, 1), "late": nn.Linear(width, 1)}
        self.critics = [nn.Linear(width, 1) for _ in range(3)]
        self.drafts = [nn.Linear(width, 2) for _ in range(3)]

    def save(self):
        return {
            "players": [player.state_dict() for player in self.players],
            "judges": {name: judge.state_dict() for name, judge in self.judges.items()},
            "critics": [critic.state_dict() for critic in self.critics],
            "drafts": [draft.state_dict() for draft in self.drafts],
        }
