import torch
from torch import nn
from torch.optim import Adam


def _clean_state_dict(network):
    return getattr(network, "_orig_mod", network).state_dict()


class Learner:
    def __init__(self, cfg):
        self.net = torch.compile(nn.Linear(cfg.n_in, cfg.n_out))
        self.opt = Adam(self.net.parameters())

    def save(self):
        return {"net": _clean_state_dict(self.net), "opt": self.opt.state_dict()}

    def push(self, queue):
        queue.put(_clean_state_dict(self.net))
