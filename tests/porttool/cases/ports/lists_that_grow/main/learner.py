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

    def grow(self):
        one, two, three, four, five = [], [], [self.target], [], []
        one.append(self.policy)
        two.extend([self.policy])
        three.insert(0, self.policy)
        four += [self.policy]
        five[:] = [self.policy]
        one[0].state_dict()
        two[0].state_dict()
        three[0].state_dict()
        four[0].state_dict()
        five[0].state_dict()

    def join(self):
        for net in [self.target] + [self.policy]:
            net.state_dict()
        for net in [self.target] + [nn.Linear(1, 1)]:
            net.state_dict()
        repeated = [self.policy] * 3
        repeated[2].state_dict()
        slots = [None] * 2
        slots[0] = self.policy
        slots[0].state_dict()
        plain = [self.target]
        plain.append(nn.Linear(1, 1))
        plain[1].state_dict()
