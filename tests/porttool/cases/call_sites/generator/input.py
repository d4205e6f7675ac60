import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


def nets(n):
    for _ in range(n):
        yield torch.compile(Net())


made = list(nets(2))
out = made[0](torch.ones(3, 4)) + made[1](torch.ones(3, 4))
ckpt = [net.state_dict() for net in made]
