from types import *

import torch
from torch import *

net = torch.compile(torch.nn.Linear(4, 2))
out = net(torch.ones(3, 4))
ckpt = net.state_dict()
