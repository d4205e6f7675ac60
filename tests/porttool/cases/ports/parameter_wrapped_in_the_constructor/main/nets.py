import torch
from torch import nn


class Net(nn.Linear):
    pass


class T:
    def __init__(self, net, other):
        self.net = net
        self.other = other

    def save(self):
        return self.net.state_dict(), self.other.state_dict()


def f(t):
    x = Net(1, 1)
    t = T(x, x)
    t.net.state_dict()
    t.other.state_dict()
    x.state_dict()
