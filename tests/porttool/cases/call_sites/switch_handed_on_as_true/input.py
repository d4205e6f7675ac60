import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


def build(use_compile=False):
    model = Net()
    if use_compile:
        model = torch.compile(model)
    return model


model = build(use_compile=True)
