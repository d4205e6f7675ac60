import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


nets = []
for width in (2, 3):
    nets.append(torch.compile(nn.Linear(4, width)))
out = nets[0](torch.ones(3, 4)).sum() + nets[1](torch.ones(3, 4)).sum()
ckpt = [net.state_dict() for net in nets]
