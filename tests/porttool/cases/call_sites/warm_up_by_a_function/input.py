import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


calls = []


def warmup(net, n):
    for _ in range(n):
        calls.append(net(torch.zeros(3, 4)))


model = torch.compile(Net())
warmup(model, 2)
ran = len(calls)
out = model(torch.ones(3, 4))
