import torch
from torch import nn


class Holder(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner.forward(x)


net = Holder(torch.compile(nn.Linear(3, 3)))
out = net(torch.ones(2, 3))
