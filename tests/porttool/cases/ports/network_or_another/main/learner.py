import torch
from torch import nn


class Learner:
    def __init__(self, cfg):
        self.cfg = cfg
        self.policy = nn.Linear(cfg.n_in, cfg.n_out) if cfg.small else nn.Bilinear(2, 3, 4)
        self.critics = [nn.Linear(cfg.n_in, 1) for _ in range(2)]
        self.opt = torch.optim.Adam(self.policy.parameters())

    def save(self):
        return {"policy": self.policy.state_dict(), "critics": [c.state_dict() for c in self.critics], "opt": self.opt.state_dict()}

    def load(self, sd):
        self.policy.load_state_dict(sd["policy"])
