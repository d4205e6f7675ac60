from functools import cached_property

import torch
from torch import nn


def _clean_state_dict(network):
    return getattr(network, "_orig_mod", network).state_dict()


class Learner:
    def __init__(self, cfg):
        self.cfg = cfg
        self.policy = torch.compile(nn.Linear(cfg.n_in, cfg.n_out))
        self.target = nn.Linear(cfg.n_in, cfg.n_out)
        self.critics = [torch.compile(nn.Linear(cfg.n_in, 1)) for _ in range(2)]
        self.opt = torch.optim.Adam(self.policy.parameters())

    def save(self):
        return {
            "policy": _clean_state_dict(self.policy),
            "target": self.target.state_dict(),
            "critics": [_clean_state_dict(c) for c in self.critics],
            "opt": self.opt.state_dict(),
        }

    def load(self, blob):
        getattr(self.policy, "_orig_mod", self.policy).load_state_dict(blob["policy"])

    def look_up(self):
        box = Box(self)
        _clean_state_dict(box.net)
        box.other.state_dict()
        _clean_state_dict(box["any"])
        for net in box:
            _clean_state_dict(net)
        _clean_state_dict(box())
        _clean_state_dict(box @ box)
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
