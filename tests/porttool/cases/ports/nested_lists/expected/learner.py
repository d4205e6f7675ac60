import torch
from torch import nn


def _clean_state_dict(network):
    return getattr(network, "_orig_mod", network).state_dict()


class Learner:
    def __init__(self, cfg):
        self.cfg = cfg
        self.policy = torch.compile(nn.Linear(cfg.n_in, cfg.n_out))
        self.target = nn.Linear(cfg.n_in, cfg.n_out)
        self.critics = [torch.compile(nn.Linear(cfg.n_in, 1)) for _ in range(2)]
        self.opt = torch.optim.Adam(self.policy.parameters())

    def save(self):
        return {
            "policy": _clean_state_dict(self.policy),
            "target": self.target.state_dict(),
            "critics": [_clean_state_dict(c) for c in self.critics],
            "opt": self.opt.state_dict(),
        }

    def load(self, blob):
        getattr(self.policy, "_orig_mod", self.policy).load_state_dict(blob["policy"])

    def grid(self):
        grid = [[self.policy, self.target], [self.target]]
        _clean_state_dict(grid[0][0])
        grid[0][1].state_dict()
        grid[1][0].state_dict()
        for row in grid:
            for net in row:
                _clean_state_dict(net)
        flat = [net for row in grid for net in row]
        _clean_state_dict(flat[0])

    def plain(self):
        for row in [[self.target] for _ in range(3)]:
            for net in row:
                net.state_dict()
        deep = [{"nets": [self.policy], "others": [self.target]}]
        _clean_state_dict(deep[0]["nets"][0])
        deep[0]["others"][0].state_dict()
