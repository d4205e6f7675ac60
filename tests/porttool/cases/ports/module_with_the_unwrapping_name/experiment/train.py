import torch
from torch import nn

from conf import Config


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Linear(width, width)

    def forward(self, x):
        return self.body(x)

    def act(self, x):
        return self.forward(x).argmax(-1)


class Trainer:
    def __init__(self, cfg: Config):
        self.net = nn.DataParallel(Net(cfg.width))
        self.opt = torch.optim.Adam(self.net.parameters())

    def save(self, path):
        torch.save({"net": self.net.module.state_dict(), "opt": self.opt.state_dict()}, path)

    def load(self, path):
        state = torch.load(path)
        self.net.module.load_state_dict(state["net"])
        self.opt.load_state_dict(state["opt"])
