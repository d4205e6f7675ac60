from collections import defaultdict

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

    def groups(self):
        groups = {"wrapped": [self.policy], "plain": [self.target]}
        groups["wrapped"][0].state_dict()
        groups["plain"][0].state_dict()

    def defaults(self):
        online = defaultdict(list)
        online["nets"].append(self.policy)
        for nets in online.values():
            for net in nets:
                net.state_dict()
        frozen = defaultdict(list)
        frozen["nets"].append(self.target)
        frozen["nets"][0].state_dict()

    def chosen(self):
        by_name = {}
        by_name.setdefault("online", []).append(self.policy)
        for nets in by_name.values():
            nets[0].state_dict()
        single = {}
        single.setdefault("frozen", self.target).state_dict()
        single.setdefault("online", self.policy).state_dict()
        made = defaultdict(lambda: self.policy)
        made["any"].state_dict()
        fresh = defaultdict(lambda: nn.Linear(1, 1))
        fresh["any"].state_dict()
        nested = defaultdict(dict)
        nested["a"]["b"] = self.policy
        nested["a"]["b"].state_dict()
