import contextvars

import torch
from torch import nn
from elsewhere import Vault


class Learner:
    def __init__(self, cfg):
        self.cfg = cfg
        self.policy = nn.Linear(cfg.n_in, cfg.n_out)
        self.target = nn.Linear(cfg.n_in, cfg.n_out)
        self.critics = [nn.Linear(cfg.n_in, 1) for _ in range(2)]
        self.opt = torch.optim.Adam(self.policy.parameters())

    def save(self):
        return {
            "policy": self.policy.state_dict(),
            "target": self.target.state_dict(),
            "critics": [c.state_dict() for c in self.critics],
            "opt": self.opt.state_dict(),
        }

    def load(self, blob):
        self.policy.load_state_dict(blob["policy"])

    def stash(self):
        vault, other = Vault(), Vault()
        vault.stash(self.policy)
        other.stash(self.target)
        vault.fetch().state_dict()
        other.fetch().state_dict()
        variable = contextvars.ContextVar("net")
        variable.set(self.policy)
        variable.get().state_dict()
        holder = Vault()
        holder.net = self.policy
        holder.other = self.target
        holder.net.state_dict()
        holder.other.state_dict()
