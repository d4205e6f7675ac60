import torch
from torch import nn


class Buffer:
    def __init__(self, size):
        self.size = size
        self.rows = []

    def add(self, row):
        self.rows.append(row)
        del self.rows[: -self.size]

    def state_dict(self):
        return {"size": self.size, "rows": list(self.rows)}

    def load_state_dict(self, state):
        self.size, self.rows = state["size"], list(state["rows"])


def _clean_state_dict(network):
    return getattr(network, "_orig_mod", network).state_dict()


class Learner:
    def __init__(self, cfg):
        self.policy = torch.compile(nn.Linear(cfg.n_in, cfg.n_out))
        self.buffer = Buffer(cfg.size)
        self.opt = torch.optim.Adam(self.policy.parameters())

    def save(self):
        return {"policy": _clean_state_dict(self.policy), "opt": self.opt.state_dict()}
