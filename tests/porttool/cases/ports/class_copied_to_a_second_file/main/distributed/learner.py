import torch
from torch import nn


class Learner:
    def __init__(self, cfg):
        self.policy = nn.Linear(cfg.n_in, cfg.n_out)
        self.opt = torch.optim.Adam(self.policy.parameters())

    def save(self):
        return {"policy": self.policy.state_dict(), "opt": self.opt.state_dict()}

    def sync(self):
        return self.policy.state_dict()
