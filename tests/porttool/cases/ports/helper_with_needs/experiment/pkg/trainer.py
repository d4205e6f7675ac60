from collections import OrderedDict

import torch
from torch import nn

PREFIX = '_orig_mod.'


def _strip(key):
    return key.removeprefix(PREFIX)


def _clean_state_dict(network):
    return OrderedDict((_strip(k), v) for k, v in network.state_dict().items())


class Learner:
    def __init__(self, cfg):
        self.net = torch.compile(nn.Linear(cfg.n_in, cfg.n_out))
        self.opt = torch.optim.Adam(self.net.parameters())

    def save(self):
        return {"net": _clean_state_dict(self.net), "opt": self.opt.state_dict()}
