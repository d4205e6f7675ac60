from collections import UserDict
from collections.abc import MutableMapping

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

    def fill(self):
        bag, plain_bag = Bag(), PlainBag([self.target])
        bag.append(self.policy)
        bag[0].state_dict()
        for net in bag:
            net.state_dict()
        plain_bag[0].state_dict()
        by_name, user, store = Named(), User(), Store()
        by_name["policy"] = self.policy
        user["policy"] = self.policy
        store["policy"] = self.policy
        by_name["policy"].state_dict()
        for net in by_name.values():
            net.state_dict()
        user["policy"].state_dict()
        store["policy"].state_dict()
        Filled([self.policy]).dump()


class Bag(list):
    pass


class PlainBag(list):
    pass


class Filled(list):
    def dump(self):
        return self[0].state_dict()


class Named(dict):
    pass


class User(UserDict):
    pass


class Store(MutableMapping):
    def __init__(self):
        self.items_by_name = {}

    def __setitem__(self, name, item):
        self.items_by_name[name] = item

    def __getitem__(self, name):
        return self.items_by_name[name]
