from collections import defaultdict

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

    def groups(self):
        groups = {"wrapped": [self.policy], "plain": [self.target]}
        _clean_state_dict(groups["wrapped"][0])
        groups["plain"][0].state_dict()

    def defaults(self):
        online = defaultdict(list)
        online["nets"].append(self.policy)
        for nets in online.values():
            for net in nets:
                _clean_state_dict(net)
        frozen = defaultdict(list)
        frozen["nets"].append(self.target)
        frozen["nets"][0].state_dict()

    def chosen(self):
        by_name = {}
        by_name.setdefault("online", []).append(self.policy)
        for nets in by_name.values():
            _clean_state_dict(nets[0])
        single = {}
        single.setdefault("frozen", self.target).state_dict()
        _clean_state_dict(single.setdefault("online", self.policy))
        made = defaultdict(lambda: self.policy)
        _clean_state_dict(made["any"])
        fresh = defaultdict(lambda: nn.Linear(1, 1))
        fresh["any"].state_dict()
        nested = defaultdict(dict)
        nested["a"]["b"] = self.policy
        _clean_state_dict(nested["a"]["b"])
