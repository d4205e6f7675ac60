import torch
from torch import nn


class Net(nn.Linear):
    def __call__(self, x):
        return self.forward(x) + 1


class Trainer:
    def __init__(self, net):
        self.net = net
        self.net = torch.compile(self.net)


Trainer(net=Net(4, 4))
