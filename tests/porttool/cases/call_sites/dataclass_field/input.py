import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


from dataclasses import dataclass, field


@dataclass
class Agent:
    net: nn.Module = field(default_factory=lambda: torch.compile(Net()))
    act: object = torch.compile(torch.tanh)


agent = Agent()
model = agent.net
out = agent.act(model(torch.ones(3, 4)))
ckpt = model.state_dict()
