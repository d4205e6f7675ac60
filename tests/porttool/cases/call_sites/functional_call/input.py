import torch
from torch import nn

net = torch.compile(nn.Linear(3, 3))
weights = {name: value.detach() for name, value in net.named_parameters()}
out = torch.func.functional_call(net, weights, (torch.ones(2, 3),))
ckpt = weights
