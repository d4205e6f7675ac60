import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


import inspect

known = callable(torch.compile) and hasattr(torch, "compile")
parameters = inspect.signature(torch.compile).parameters
same = torch.compile is torch.compile
out = Net()(torch.ones(3, 4))
