import torch
from torch import nn


class Net(nn.Linear):
    pass


class T:
    def __init__(self):
        self.a, self.b = Net(1, 1), Net(2, 2)

    def save(self):
        return self.a.state_dict(), self.b.state_dict()

    def f(self):
        self.a.state_dict()
        self.b.state_dict()
