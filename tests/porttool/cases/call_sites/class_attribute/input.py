import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


class Block(nn.Module):
    act = staticmethod(torch.compile(torch.relu))
    shared = torch.compile(nn.Linear(4, 4))

    def forward(self, x):
        return self.act(self.shared(x))


model = Block()
out = model(torch.ones(3, 4))
ckpt = model.state_dict()
