import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


nets = [Net(), Net()]
for i, net in enumerate(nets):
    nets[i] = torch.compile(net)
out = nets[0](torch.ones(3, 4)) + nets[1](torch.ones(3, 4))
ckpt = [net.state_dict() for net in nets]
