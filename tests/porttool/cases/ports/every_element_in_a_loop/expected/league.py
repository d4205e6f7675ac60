import torch as th
from torch import nn


def clean(network):
    return getattr(network, "_orig_mod", network).state_dict()


class League:
    def __init__(self, width):
        self.players = [nn.Linear(width, 1) for _ in range(2)]
        self.judges = {"early": nn.Linear(width, 1), "late": nn.Linear(width, 1)}
        self.critics = [nn.Linear(width, 1) for _ in range(3)]
        for index, player in enumerate(self.players):
            self.players[index] = th.compile(player)
        for name in self.judges:
            self.judges[name] = th.compile(self.judges[name])
        self.critics = list(map(th.compile, self.critics))
        self.drafts = list(map(th.compile, [nn.Linear(width, 2) for _ in range(3)]))

    def save(self):
        return {
            "players": [clean(player) for player in self.players],
            "judges": {name: clean(judge) for name, judge in self.judges.items()},
            "critics": [clean(critic) for critic in self.critics],
            "drafts": [clean(draft) for draft in self.drafts],
        }

    def push(self, queue):
        for best in self.players:
            queue.put(clean(best))
        queue.put(clean(self.judges["late"]))
        for last in (*self.critics, *self.drafts):
            queue.put(clean(last))
