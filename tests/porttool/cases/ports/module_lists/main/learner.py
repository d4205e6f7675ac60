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
        heads = nn.ModuleList([self.policy, self.target])
        heads[0].state_dict()
        heads[1].state_dict()
        heads.state_dict()

    def grown(self):
        grown = nn.ModuleList()
        grown.append(self.policy)
        for head in grown:
            head.state_dict()
        grown.state_dict()

    def added(self):
        added = nn.ModuleList([nn.Linear(1, 1)])
        added += [self.policy]
        added.state_dict()

    def plain(self):
        plain = nn.ModuleList([self.target])
        plain.extend([nn.Linear(1, 1)])
        plain[0].state_dict()
        plain.state_dict()
