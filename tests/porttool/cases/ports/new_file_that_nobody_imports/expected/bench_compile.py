import time

import torch
from torch import nn

net = torch.compile(nn.Linear(3, 3))
start = time.perf_counter()
net(torch.zeros(8, 3))
print(time.perf_counter() - start)
