import torch
from tools import _clean_state_dict
from torch import nn


class Learner:
    def __init__(self, cfg):
        self.policy = torch.compile(nn.Linear(cfg.n_in, cfg.n_out))
        self.opt = torch.optim.Adam(self.policy.parameters())

    def save(self):
        return {"policy": _clean_state_dict(self.policy), "opt": self.opt.state_dict()}
