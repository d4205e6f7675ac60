import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


def build(width):
    net = nn.Sequential(nn.Linear(4, width), nn.ReLU())
    return torch.compile(net)


model = build(3)
out = model(torch.ones(3, 4))
ckpt = model.state_dict()
