import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


actor, critic = torch.compile(Net()), torch.compile(Net(), dynamic=False)
out = actor(torch.ones(3, 4)) - critic(torch.ones(3, 4))
ckpt = {"actor": actor.state_dict(), "critic": critic.state_dict()}
