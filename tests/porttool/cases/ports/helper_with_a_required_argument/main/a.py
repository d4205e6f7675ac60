import torch
from torch import nn


class Learner:
    def __init__(self, cfg):
        self.net = nn.Linear(cfg.n_in, cfg.n_out)
        self.opt = torch.optim.Adam(self.net.parameters())

    def save(self):
        return {"net": self.net.state_dict(prefix='a.'), "opt": self.opt.state_dict()}

    def more(self):
        return self.net.state_dict(), self.net.state_dict(prefix='b.'), self.net.state_dict(keep_vars=True)
