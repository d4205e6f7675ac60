import torch
from torch import nn


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 2)

    def forward(self, x):
        return self.a(x)


class Net(Base):
    def __init__(self):
        super().__init__()
        super().compile(dynamic=False)


model = Net()
out = model(torch.ones(3, 4))
ckpt = model.state_dict()
