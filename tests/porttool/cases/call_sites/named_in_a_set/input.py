import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


SKIPPED = {torch.compile, torch.jit.script}
NAMES = {torch.compile: "compile"}
out = torch.compile in SKIPPED and NAMES[torch.compile] == "compile"
