import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


import asyncio
import inspect


async def serve(x):
    model = torch.compile(Net())
    return model(x)


@torch.compile
async def later(x):
    return x + 1


still = inspect.iscoroutinefunction(later)
out = asyncio.run(serve(torch.ones(3, 4)))
