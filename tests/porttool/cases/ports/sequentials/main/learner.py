from collections import OrderedDict

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

    def stacks(self):
        first = nn.Sequential(self.policy, nn.ReLU())
        first[0].state_dict()
        first[1].state_dict()
        first.state_dict()
        second = nn.Sequential(*self.critics)
        second.state_dict()
        named = nn.Sequential(OrderedDict([("policy", self.policy), ("act", nn.ReLU())]))
        named.state_dict()
        built = nn.Sequential()
        built.add_module("policy", self.policy)
        built.state_dict()
        plain = nn.Sequential(*[nn.Linear(1, 1) for _ in range(2)])
        plain.state_dict()
        target = nn.Sequential(OrderedDict(target=self.target))
        target.state_dict()
