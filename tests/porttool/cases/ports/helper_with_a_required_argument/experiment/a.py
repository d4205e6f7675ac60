import torch
from torch import nn


def _clean(network, prefix):
    return {k: v for k, v in getattr(network, "_orig_mod", network).state_dict(prefix=prefix).items()}


class Learner:
    def __init__(self, cfg):
        self.net = torch.compile(nn.Linear(cfg.n_in, cfg.n_out))
        self.opt = torch.optim.Adam(self.net.parameters())

    def save(self):
        return {"net": _clean(self.net, prefix='a.'), "opt": self.opt.state_dict()}
