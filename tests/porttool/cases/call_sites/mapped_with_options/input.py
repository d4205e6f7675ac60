import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


from functools import partial

first, second = map(partial(torch.compile, dynamic=False), [Net(), Net()])
out = first(torch.ones(3, 4)) + second(torch.ones(3, 4))
ckpt = first.state_dict(), second.state_dict()
