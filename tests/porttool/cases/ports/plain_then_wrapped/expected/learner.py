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

    def turn(self, choice):
        net = self.target
        net.state_dict()
        net = self.policy
        _clean_state_dict(net)
        net = self.target
        net.state_dict()
        if choice:
            net = self.policy
        _clean_state_dict(net)
        self.slot = self.target
        _clean_state_dict(self.slot)
        self.slot = self.policy


def push(net):
    _clean_state_dict(net)


def push_plain(net):
    net.state_dict()


def use(learner: Learner):
    push(learner.policy)
    push(learner.target)
    push_plain(learner.target)
