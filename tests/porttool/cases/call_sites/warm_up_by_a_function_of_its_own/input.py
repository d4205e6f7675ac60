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
model = torch.compile(Net())


def warm_up():
    for _ in range(2):
        calls.append(model(torch.zeros(3, 4)))


warm_up()
ran = len(calls)
out = model(torch.ones(3, 4))
