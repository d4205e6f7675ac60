import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


def init_weights(module):
    for parameter in module.parameters():
        nn.init.constant_(parameter, 0.5)


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


net = Net()
print(net)
init_weights(net)
optimizer = torch.optim.SGD(list(net.parameters()), lr=0.1)
model = torch.compile(net)
model.train()
print(count(net))
out = model(torch.ones(3, 4))
ckpt = model.state_dict()
