import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--compile", action="store_true")
args = parser.parse_args([])
model = Net()
if args.compile and hasattr(torch, "compile"):
    print("compiling")
    model = torch.compile(model)
out = model(torch.ones(3, 4))
