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
