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

    def call(self):
        many(self.policy, self.target)
        few(self.target)
        named(net=self.policy, other=self.target)
        options, plain = {"net": self.policy}, {"net": self.target}
        given(**options)
        given_plain(**plain)
        pair = (self.policy, self.target)
        both(*pair)
        forward(self.policy, step=1)
        swapped(other=self.policy, net=self.target)


def many(*nets):
    nets[0].state_dict()
    nets[1].state_dict()
    for net in nets:
        net.state_dict()


def few(*nets):
    nets[0].state_dict()


def named(**nets):
    nets["net"].state_dict()
    nets["other"].state_dict()


def given(net=None):
    net.state_dict()


def given_plain(net=None):
    net.state_dict()


def both(net, other):
    net.state_dict()
    other.state_dict()


def forward(*args, **kwargs):
    return last(*args, **kwargs)


def last(net, step):
    net.state_dict()


def swapped(net, other):
    net.state_dict()
    other.state_dict()
