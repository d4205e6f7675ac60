import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


import functools


class Agent:
    def __init__(self):
        self.net = Net()

    @functools.cached_property
    def policy(self):
        return torch.compile(self.net)


agent = Agent()
out = agent.policy(torch.ones(3, 4))
model = agent.net
ckpt = agent.policy.state_dict()
