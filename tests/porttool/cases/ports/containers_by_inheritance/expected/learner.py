from collections import UserDict
from collections.abc import MutableMapping

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

    def fill(self):
        bag, plain_bag = Bag(), PlainBag([self.target])
        bag.append(self.policy)
        _clean_state_dict(bag[0])
        for net in bag:
            _clean_state_dict(net)
        plain_bag[0].state_dict()
        by_name, user, store = Named(), User(), Store()
        by_name["policy"] = self.policy
        user["policy"] = self.policy
        store["policy"] = self.policy
        _clean_state_dict(by_name["policy"])
        for net in by_name.values():
            _clean_state_dict(net)
        _clean_state_dict(user["policy"])
        _clean_state_dict(store["policy"])
        Filled([self.policy]).dump()


class Bag(list):
    pass


class PlainBag(list):
    pass


class Filled(list):
    def dump(self):
        return _clean_state_dict(self[0])


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
