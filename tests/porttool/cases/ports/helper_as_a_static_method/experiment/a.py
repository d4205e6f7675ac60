import torch
from torch import nn


class Learner:
    def __init__(self, cfg):
        self.net = torch.compile(nn.Linear(cfg.n_in, cfg.n_out))
        self.opt = torch.optim.Adam(self.net.parameters())

    def save(self):
        return {"net": self._clean(self.net), "opt": self.opt.state_dict()}

    @staticmethod
    def _clean(network):
        return getattr(network, "_orig_mod", network).state_dict()
