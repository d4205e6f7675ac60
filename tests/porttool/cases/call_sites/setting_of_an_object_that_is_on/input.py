import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


class Agent:
    def __init__(self, use_compile=False):
        self.use_compile = use_compile
        self.net = Net()
        if self.use_compile:
            self.net = torch.compile(self.net)


agent = Agent(use_compile=True)
