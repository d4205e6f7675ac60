import torch
from torch import nn


ran = []


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x):
        ran.append(1)
        return self.a(x)


model = torch.compile(Net(), dynamic=True)
for size in (2, 3):
    model(torch.zeros(size, 4))
for size in range(4, 6):
    model(torch.zeros(size, 4))
warm = len(ran)
out = model(torch.ones(3, 4))
