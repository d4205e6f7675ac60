import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


class Agent(Net):
    def encode(self, x):
        return self.a(x)


model = Agent()
model.encode = torch.compile(
    model.encode,
    dynamic=False,
)
out = model.encode(torch.ones(3, 4))
ckpt = model.state_dict()
