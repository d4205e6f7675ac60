import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


config = {"compile": False}
wrap = {True: torch.compile, False: lambda module: module}[config["compile"]]
out = wrap(Net())(torch.ones(3, 4))
