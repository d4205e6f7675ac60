import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.body = nn.Linear(n, n)

    def forward(self, x):
        return self.body(x)


@torch.no_grad()
def loss(net, x):
    return net(x).sum()
