import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.core = nn.Linear(4, 2)
        self.fast = torch.compile(self.core)

    def forward(self, x):
        return self.fast(x) if self.training else self.core(x)
