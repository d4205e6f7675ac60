import torch
from torch import nn


class Net(nn.Linear):
    def __call__(self, x):
        return self.forward(x)


net = Net(3, 3)
net = torch.compile(net)
out = net(torch.ones(2, 3))
