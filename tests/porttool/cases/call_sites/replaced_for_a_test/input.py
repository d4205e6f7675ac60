import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


real = torch.compile
torch.compile = lambda model=None, **options: model
try:
    fake = torch.compile
finally:
    torch.compile = real
out = Net()(torch.ones(3, 4))
