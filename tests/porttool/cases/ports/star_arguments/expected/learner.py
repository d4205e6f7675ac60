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
    _clean_state_dict(nets[0])
    nets[1].state_dict()
    for net in nets:
        _clean_state_dict(net)


def few(*nets):
    nets[0].state_dict()


def named(**nets):
    _clean_state_dict(nets["net"])
    nets["other"].state_dict()


def given(net=None):
    _clean_state_dict(net)


def given_plain(net=None):
    net.state_dict()


def both(net, other):
    _clean_state_dict(net)
    other.state_dict()


def forward(*args, **kwargs):
    return last(*args, **kwargs)


def last(net, step):
    _clean_state_dict(net)


def swapped(net, other):
    net.state_dict()
    _clean_state_dict(other)
