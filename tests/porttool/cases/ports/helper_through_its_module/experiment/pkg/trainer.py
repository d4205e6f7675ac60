import torch
from torch import nn

from pkg import keys


class Learner:
    def __init__(self, cfg):
        self.net = torch.compile(nn.Linear(cfg.n_in, cfg.n_out))
        self.opt = torch.optim.Adam(self.net.parameters())

    def save(self):
        return {"net": keys._clean_state_dict(self.net), "opt": self.opt.state_dict()}
