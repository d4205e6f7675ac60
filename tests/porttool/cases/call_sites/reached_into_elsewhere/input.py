import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


def save(model, path):
    torch.save(model._orig_mod.state_dict(), path)


def build():
    return torch.compile(Net())
