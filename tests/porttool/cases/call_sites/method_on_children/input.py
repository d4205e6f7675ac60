import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


model = nn.Sequential(Net(), nn.ReLU())
for block in model.children():
    block.compile(dynamic=False)
out = model(torch.ones(3, 4))
