import torch
from torch import nn


def _clean_state_dict(network):
    return getattr(network, "_orig_mod", network).state_dict()


class Learner:
    def __init__(self, cfg):
        self.policy = torch.compile(nn.Linear(cfg.n_in, cfg.n_out))
        self.critic = nn.Linear(cfg.n_in, 1)
        self.opt = torch.optim.Adam(self.policy.parameters())

    def save(self):
        return {"policy": _clean_state_dict(self.policy), "critic": self.critic.state_dict(), "opt": self.opt.state_dict()}

    def push(self, queue):
        queue.put(self.critic.state_dict())
