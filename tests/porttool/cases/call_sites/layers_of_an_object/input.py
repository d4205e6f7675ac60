import torch
from torch import nn


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
        self.norm = nn.LayerNorm(4)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


model = Stack()
for layer in model.layers:
    layer.compile(dynamic=False)
model.norm.compile()
out = model(torch.ones(3, 4))
ckpt = model.state_dict()
