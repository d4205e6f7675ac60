import torch
from torch import nn


class Learner:
    def __init__(self, cfg):
        self.net = torch.compile(nn.Linear(cfg.n_in, cfg.n_out))
        self.opt = torch.optim.Adam(self.net.parameters())

    def save(self):
        return {"net": {k.removeprefix('_orig_mod.'): v for k, v in self.net.state_dict().items()}, "opt": self.opt.state_dict()}
