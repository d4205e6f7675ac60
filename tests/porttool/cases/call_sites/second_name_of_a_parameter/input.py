import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


class Outer(nn.Module):
    def __init__(self, core):
        super().__init__()
        self.core = core
        self.fast = torch.compile(core, dynamic=False)

    def forward(self, x):
        return self.fast(x)


model = Outer(Net())
out = model(torch.ones(3, 4))
ckpt = model.state_dict()
