import torch
from torch import nn


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

    def heads(self):
        heads = nn.ModuleDict({"policy": self.policy, "target": self.target})
        heads["policy"].state_dict()
        heads["target"].state_dict()
        heads.policy.state_dict()
        heads.target.state_dict()
        heads.state_dict()

    def later(self):
        later = nn.ModuleDict()
        later["policy"] = self.policy
        later.state_dict()

    def plain(self):
        plain = nn.ModuleDict(dict(target=self.target))
        plain["target"].state_dict()
        plain.state_dict()
