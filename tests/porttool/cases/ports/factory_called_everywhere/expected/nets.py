import torch
from torch import nn


def _clean(network):
    return getattr(network, "_orig_mod", network).state_dict()


class Net(nn.Linear):
    pass


def make(n):
    return torch.compile(Net(n, n))


def make2(n):
    return Net(n, 2)


def save():
    return _clean(make(1)), make2(1).state_dict()


class T:
    def __init__(self):
        self.n = make(2)
        self.m = make2(2)
        self.k = {'x': make}

    def f(self):
        _clean(self.n)
        self.m.state_dict()
        _clean(self.k['x'](1))
