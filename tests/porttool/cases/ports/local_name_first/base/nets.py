import torch
from torch import nn


class Net(nn.Linear):
    pass


class T:
    def __init__(self):
        net = Net(1, 1)
        self.net = net
        other = Net(1, 1)
        self.other = other

    def save(self):
        return self.net.state_dict()
