import functools

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

    def call(self):
        functools.partial(dump, self.policy)()
        functools.partial(dump_plain, self.target)()
        functools.partial(dump_named, net=self.policy)()
        functools.partial(same, self.policy)().state_dict()
        functools.partial(same, self.target)().state_dict()
        self.online = lambda: self.policy
        self.frozen = lambda: self.target
        self.online().state_dict()
        self.frozen().state_dict()
        keep = self.keep
        keep(self.policy)
        choice = dump_one if self.cfg else dump_other
        choice(self.policy)

    def keep(self, net):
        net.state_dict()


def same(net):
    return net


def dump(net):
    net.state_dict()


def dump_plain(net):
    net.state_dict()


def dump_named(net):
    net.state_dict()


def dump_one(net):
    net.state_dict()


def dump_other(net):
    net.state_dict()
