import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


import torch._dynamo as dynamo
import torch._inductor.config as inductor_config

before = dynamo.config.recompile_limit
dynamo.config.recompile_limit = before + 1
inductor_config.triton.unique_kernel_names = True
text = """two
lines"""
model = torch.compile(Net())
out = model(torch.ones(3, 4))
ran = dynamo.config.recompile_limit - before
dynamo.config.recompile_limit = before
