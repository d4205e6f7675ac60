import torch
from torch import nn

from conf import Config


def clean(network):
    return getattr(network, "_orig_mod", network).state_dict()


class League:
    def __init__(self, config: Config):
        self.players = [nn.Linear(config.width, 1) for _ in range(2)]
        self.judges = {"early": nn.Linear(config.width, 1), "late": nn.Linear(config.width, 1)}
        if config.perf.comp.enabled:
            self.players = [torch.compile(player) for player in self.players]
            self.judges = {
                key: torch.compile(judge) for key, judge in self.judges.items()
            }

    def save(self):
        return {
            "players": [clean(player) for player in self.players],
            "judges": {name: clean(judge) for name, judge in self.judges.items()},
        }

    def push(self, queue):
        for best in self.players:
            queue.put(clean(best))
