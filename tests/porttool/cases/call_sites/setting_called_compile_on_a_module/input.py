import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, compile=False):
        super().__init__()
        self.compile = compile
        self.a = nn.Linear(4, 4)
        if self.compile:
            self.a = torch.compile(self.a)

    def forward(self, x):
        return self.a(x)


model = Net()
print(model.compile)
assert callable(nn.Linear(4, 4).compile)
