import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


class Scaled(Net):
    @torch.compile(dynamic=False)
    def forward(self, x):
        return super().forward(x) * 2

    @torch.compile
    def encode(self, x):
        return self.a(x)


model = Scaled()
out = model(torch.ones(3, 4)).sum() + model.encode(torch.ones(3, 4)).sum()
ckpt = model.state_dict()
