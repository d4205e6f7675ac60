import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


ckpt = Net().state_dict()
model = torch.compile(Net())
prefixed = {f"_orig_mod.{k}": v for k, v in ckpt.items()}
model.load_state_dict(prefixed)
out = model(torch.ones(3, 4))
