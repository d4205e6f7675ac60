import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


class Cfg:
    compile = False


cfg = Cfg()
wrap = torch.compile if cfg.compile else (lambda model: model)
model = wrap(Net())
other = torch.compile(Net()) if cfg.compile else Net()
out = model(torch.ones(3, 4))
