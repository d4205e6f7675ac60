import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


nets = {}
nets["a"] = torch.compile(Net())
nets["b"] = torch.compile(Net())
for key in nets:
    nets[key] = nets[key].eval()
out = nets["a"](torch.ones(3, 4)) + nets["b"](torch.ones(3, 4))
ckpt = {key: net.state_dict() for key, net in nets.items()}
