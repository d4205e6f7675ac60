import torch
from torch import nn


def _clean(network):
    return getattr(network, "_orig_mod", network).state_dict()


class Net(nn.Linear):
    pass


class T:
    def __init__(self, net, other):
        self.net = net
        self.other = other

    def f(self):
        _clean(self.net)
        self.other.state_dict()

    def save(self):
        return _clean(self.net)


def main():
    T(torch.compile(Net(1, 1)), Net(2, 2)).save()
