import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


model = Net()
orig_model = model
model = torch.compile(model, dynamic=False)
out = model(torch.ones(3, 4)) + orig_model(torch.ones(2, 4)).sum()
ckpt = orig_model.state_dict()
