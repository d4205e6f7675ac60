import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


class Config:
    compile = False


def choose(model, enabled):
    return torch.compile(model) if enabled else model


def leave_early(model, *, use=False):
    if not use:
        return model
    return torch.compile(model)


def disable(model, wanted=False):
    return torch.compile(model, disable=not wanted)


config = Config()
models = [
    choose(Net(), config.compile),
    leave_early(Net(), use=config.compile),
    leave_early(Net()),
    disable(Net(), wanted=config.compile),
]
