import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


bn = nn.BatchNorm1d(4)
model = torch.compile(nn.Sequential(bn, Net()))
dummy = torch.zeros(3, 4)
# warm up
with torch.no_grad():
    for _ in range(2):
        _ = model(dummy)
ran = int(bn.num_batches_tracked)
out = model(torch.ones(3, 4))
