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

    def compare(self):
        other = Other()
        other.policy.state_dict()
        self.policy.state_dict()
        for thing in (self, other):
            thing.policy.state_dict()
        for thing in (other, other):
            thing.policy.state_dict()


class Other:
    def __init__(self):
        self.policy = nn.Linear(1, 1)

    def dump(self):
        return self.policy.state_dict()


class Inheriting(Learner):
    def dump(self):
        return self.policy.state_dict()


def compare(learner: Learner, other: Other):
    learner.policy.state_dict()
    other.policy.state_dict()
