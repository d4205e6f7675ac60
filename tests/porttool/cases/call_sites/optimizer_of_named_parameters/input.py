import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


model = torch.compile(Net())
optimizer = torch.optim.AdamW(model.named_parameters(), lr=0.1)
model(torch.ones(3, 4)).sum().backward()
optimizer.step()
ckpt = {name: 0 for group in optimizer.state_dict()["param_groups"] for name in group["param_names"]}
out = model(torch.ones(3, 4))
