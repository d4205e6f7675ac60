import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


model = Net(); model.forward = torch.compile(model.forward)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
optimizer.step = torch.compile(optimizer.step); done = True
