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

    def grow(self):
        one, two, three, four, five = [], [], [self.target], [], []
        one.append(self.policy)
        two.extend([self.policy])
        three.insert(0, self.policy)
        four += [self.policy]
        five[:] = [self.policy]
        _clean_state_dict(one[0])
        _clean_state_dict(two[0])
        _clean_state_dict(three[0])
        _clean_state_dict(four[0])
        _clean_state_dict(five[0])

    def join(self):
        for net in [self.target] + [self.policy]:
            _clean_state_dict(net)
        for net in [self.target] + [nn.Linear(1, 1)]:
            net.state_dict()
        repeated = [self.policy] * 3
        _clean_state_dict(repeated[2])
        slots = [None] * 2
        slots[0] = self.policy
        _clean_state_dict(slots[0])
        plain = [self.target]
        plain.append(nn.Linear(1, 1))
        plain[1].state_dict()
