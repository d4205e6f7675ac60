import argparse

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


parser = argparse.ArgumentParser()
parser.add_argument("--backend", default=None)
args = parser.parse_args([])
model = Net()
if args.backend is not None:
    model = torch.compile(model, backend=args.backend)
out = model(torch.ones(3, 4))
