import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


model = Net()
fast = torch.compile(model)
optimizer = torch.optim.SGD(fast.parameters(), lr=0.1)
out = fast(torch.ones(3, 4)) + model(torch.ones(3, 4))
