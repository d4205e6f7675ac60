import torch
from torch import nn


def _clean(network):
    return getattr(network, "_orig_mod", network).state_dict()


class Net(nn.Linear):
    pass


class T:
    def __init__(self):
        net = torch.compile(Net(1, 1))
        self.net = net
        other = Net(1, 1)
        self.other = other

    def save(self):
        return _clean(self.net)

    def f(self):
        _clean(self.net)
        self.other.state_dict()
