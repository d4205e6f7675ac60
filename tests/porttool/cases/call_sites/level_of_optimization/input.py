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
parser.add_argument("--opt-level", type=int, default=0)
args = parser.parse_args([])
model = Net()
if args.opt_level >= 2:
    model = torch.compile(model)
