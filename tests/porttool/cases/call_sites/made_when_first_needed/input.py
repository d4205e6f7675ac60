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
    def __init__(self):
        self.net = Net()
        self._compiled = None

    def act(self, x):
        if self._compiled is None:
            self._compiled = torch.compile(self.net)
        return self._compiled(x)


agent = Agent()
out = agent.act(torch.ones(3, 4)) + agent.act(torch.ones(3, 4))
model = agent.net
ckpt = model.state_dict()
