import torch
from torch import nn


def _clean_state_dict(network):
    return getattr(network, "_orig_mod", network).state_dict()


def _load_clean(network, sd):
    getattr(network, "_orig_mod", network).load_state_dict(sd)


class Learner:
    def __init__(self, cfg):
        self.cfg = cfg
        self.policy = torch.compile(nn.Linear(cfg.n_in, cfg.n_out))
        self.critics = [torch.compile(nn.Linear(cfg.n_in, 1)) for _ in range(2)]
        self.opt = torch.optim.Adam(self.policy.parameters())

    def save(self):
        return {"policy": _clean_state_dict(self.policy), "critics": [_clean_state_dict(c) for c in self.critics], "opt": self.opt.state_dict()}

    def load(self, sd):
        _load_clean(self.policy, sd["policy"])
