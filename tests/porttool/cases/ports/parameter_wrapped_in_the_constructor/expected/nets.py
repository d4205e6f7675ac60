import torch
from torch import nn


def _clean(network):
    return getattr(network, "_orig_mod", network).state_dict()


class Net(nn.Linear):
    pass


class T:
    def __init__(self, net, other):
        self.net = torch.compile(net)
        self.other = other

    def save(self):
        return _clean(self.net), self.other.state_dict()


def f(t):
    x = Net(1, 1)
    t = T(x, x)
    _clean(t.net)
    t.other.state_dict()
    x.state_dict()
