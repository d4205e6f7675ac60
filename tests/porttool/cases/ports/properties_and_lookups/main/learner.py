from functools import cached_property

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

    def look_up(self):
        box = Box(self)
        box.net.state_dict()
        box.other.state_dict()
        box["any"].state_dict()
        for net in box:
            net.state_dict()
        box().state_dict()
        (box @ box).state_dict()
        (-box).state_dict()


class Box:
    def __init__(self, owner):
        self.owner = owner

    @property
    def net(self):
        return self.owner.policy

    @cached_property
    def other(self):
        return self.owner.target

    def __getitem__(self, key):
        return self.owner.policy

    def __iter__(self):
        yield self.owner.policy

    def __call__(self):
        return self.owner.policy

    def __matmul__(self, other):
        return self.owner.policy

    def __neg__(self):
        return self.owner.target
