import torch
from torch import nn


class Net(nn.Linear):
    pass


def make(n):
    return Net(n, n)


def make2(n):
    return Net(n, 2)


def save():
    return make(1).state_dict(), make2(1).state_dict()


class T:
    def __init__(self):
        self.n = make(2)
        self.m = make2(2)
        self.k = {'x': make}

    def f(self):
        self.n.state_dict()
        self.m.state_dict()
        self.k['x'](1).state_dict()
