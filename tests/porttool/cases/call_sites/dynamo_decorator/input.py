import torch
from torch import _dynamo


@_dynamo.optimize("eager", nopython=True)
def double(x):
    return x * 2


net = torch._dynamo.optimize()(torch.nn.Linear(4, 2))
out = net(double(torch.ones(3, 4)))
ckpt = net.state_dict()
