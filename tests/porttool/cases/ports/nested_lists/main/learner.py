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

    def grid(self):
        grid = [[self.policy, self.target], [self.target]]
        grid[0][0].state_dict()
        grid[0][1].state_dict()
        grid[1][0].state_dict()
        for row in grid:
            for net in row:
                net.state_dict()
        flat = [net for row in grid for net in row]
        flat[0].state_dict()

    def plain(self):
        for row in [[self.target] for _ in range(3)]:
            for net in row:
                net.state_dict()
        deep = [{"nets": [self.policy], "others": [self.target]}]
        deep[0]["nets"][0].state_dict()
        deep[0]["others"][0].state_dict()
