import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


class Agent(nn.Module):
    def __init__(self, net):
        super().__init__()
        setattr(self, "net", torch.compile(net))

    def forward(self, x):
        return self.net(x)


model = Agent(Net())
out = model(torch.ones(3, 4))
ckpt = model.state_dict()
