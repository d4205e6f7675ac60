import torch
from torch import nn

net = torch.compile(nn.Linear(3, 3))
run = net.forward
out = run(torch.ones(2, 3))
