import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


nets = [Net(), Net()]
fast = [torch.compile(net) for net in nets]
out = [net(torch.ones(3, 4)) for net in fast] + [net(torch.ones(3, 4)) for net in nets]
