"""Doc."""
from __future__ import annotations

import json
from collections import (
    Counter,
    deque,
)
from collections import OrderedDict

import torch
from torch import nn


def _clean_state_dict(network):
    return OrderedDict(getattr(network, "_orig_mod", network).state_dict())


class Learner:
    def __init__(self, cfg):
        self.net = torch.compile(nn.Linear(cfg.n_in, cfg.n_out))
        self.opt = torch.optim.Adam(self.net.parameters())

    def save(self):
        return {"net": _clean_state_dict(self.net), "opt": self.opt.state_dict()}

    def push(self, queue):
        queue.put(_clean_state_dict(self.net))
