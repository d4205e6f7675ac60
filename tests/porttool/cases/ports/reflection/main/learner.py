import inspect
import operator
import sys
from importlib import import_module

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

    def reflect(self, name):
        getattr(self, "policy").state_dict()
        getattr(self, "target").state_dict()
        getattr(self, name).state_dict()
        vars(self)["policy"].state_dict()
        self.__dict__["policy"].state_dict()
        for value in vars(self).values():
            value.state_dict()
        operator.attrgetter("policy")(self).state_dict()
        setattr(self, "late", self.policy)
        self.late.state_dict()
        setattr(self, name, self.policy)
        self.later.state_dict()
        globals()["NET"].state_dict()
        locals()["name"].state_dict()
        object.__getattribute__(self, "policy").state_dict()
        inspect.getattr_static(self, "policy").state_dict()
        eval("self.policy").state_dict()
        sys.modules[__name__].NET.state_dict()
        import_module("learner").NET.state_dict()
