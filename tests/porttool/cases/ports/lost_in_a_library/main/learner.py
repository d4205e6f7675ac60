import functools
import itertools
import random

import torch
from torch import nn


class Learner:
    def __init__(self, cfg):
        self.cfg = cfg
        self.policy = nn.Linear(cfg.n_in, cfg.n_out)
        self.target = nn.Linear(cfg.n_in, cfg.n_out)
        self.critics = [nn.Linear(cfg.n_in, 1) for _ in range(2)]
        self.opt = torch.optim.Adam(self.policy.parameters())

    def save(self):
        return {
            "policy": self.policy.state_dict(),
            "target": self.target.state_dict(),
            "critics": [c.state_dict() for c in self.critics],
            "opt": self.opt.state_dict(),
        }

    def load(self, blob):
        self.policy.load_state_dict(blob["policy"])

    def pick(self):
        for _, net in itertools.combinations(self.critics, 2):
            net.state_dict()
        functools.reduce(lambda one, other: other, self.critics).state_dict()
        random.choice(self.critics).state_dict()
        random.choice([self.target, nn.Linear(1, 1)]).state_dict()
