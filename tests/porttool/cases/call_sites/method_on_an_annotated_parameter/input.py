import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


def prepare(model: nn.Module) -> nn.Module:
    model.compile(dynamic=False)
    return model


net = prepare(Net())
out = net(torch.ones(3, 4))
