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

    def unpack(self):
        nets = [self.policy, self.target]
        first, *rest = nets
        first.state_dict()
        for net in nets[1:]:
            net.state_dict()
        online, frozen = self.policy, self.target
        online.state_dict()
        frozen.state_dict()
        *_, last = self.policy, self.target
        last.state_dict()
        (old, new), other = (self.target, self.policy), self.target
        old.state_dict()
        new.state_dict()
        other.state_dict()
        nets[::-1][0].state_dict()
