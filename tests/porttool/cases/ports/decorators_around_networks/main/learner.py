import functools
from functools import lru_cache, wraps

import torch
from torch import nn
from elsewhere import registered


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


def traced(function):
    @wraps(function)
    def inner(*args, **kwargs):
        return function(*args, **kwargs)

    return inner


def swapped(function):
    def inner(self):
        return self.policy

    return inner


def with_policy(function):
    @wraps(function)
    def inner():
        return function(Learner(None).policy)

    return inner


@with_policy
def inject(net=None):
    net.state_dict()


@traced
def pass_on(net):
    net.state_dict()


@traced
def pass_plain(net):
    net.state_dict()


class Decorated(Learner):
    @traced
    def online(self):
        return self.policy

    @lru_cache
    def cached(self):
        return self.policy

    @functools.cache
    def frozen(self):
        return self.target

    @swapped
    def replaced(self):
        return self.target

    @torch.no_grad()
    def detached(self):
        return self.policy

    @registered("net")
    def known(self):
        return self.target

    @staticmethod
    def same(net):
        return net

    @classmethod
    def also(cls, net):
        return net

    def use(self):
        self.online().state_dict()
        self.cached().state_dict()
        self.frozen().state_dict()
        self.replaced().state_dict()
        self.detached().state_dict()
        self.known().state_dict()
        self.same(self.policy).state_dict()
        self.same(self.target).state_dict()
        self.also(self.policy).state_dict()
        Decorated.also(self.target).state_dict()
        pass_on(self.policy)
        pass_plain(self.target)
        inject()
