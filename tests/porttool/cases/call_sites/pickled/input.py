import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


import io

model = torch.compile(Net())
out = model(torch.ones(3, 4))
buffer = io.BytesIO()
torch.save(model, buffer)
buffer.seek(0)
restored = torch.load(buffer, weights_only=False)
ckpt = restored.state_dict()
