import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


class Replicated(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x)


replicated = True
model = Net()
unoptimized = model
model = torch.compile(model)
if replicated:
    model = Replicated(model)
raw = model.module if replicated else model
out = model(torch.ones(3, 4))
ckpt = raw.state_dict(), model.state_dict()
