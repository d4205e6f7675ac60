import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


agents = [Net(), Net()]
out = []
for agent in agents:
    agent.a = torch.compile(agent.a)
    net = Net()
    net = torch.compile(net)
    out.append(agent(torch.ones(3, 4)) + net(torch.ones(3, 4)))
