import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Linear(width, width)

    def forward(self, x):
        return self.body(x)

    def act(self, x):
        return self.forward(x).argmax(-1)


def bare(net):
    return net.module if isinstance(net, nn.DataParallel) else net


class Trainer:
    def __init__(self, cfg):
        self.net = nn.DataParallel(Net(cfg.width))
        self.opt = torch.optim.Adam(self.net.parameters())

    def save(self, path):
        torch.save({"net": bare(self.net).state_dict(), "opt": self.opt.state_dict()}, path)

    def load(self, path):
        state = torch.load(path)
        bare(self.net).load_state_dict(state["net"])
        self.opt.load_state_dict(state["opt"])

    def push(self, queue):
        queue.put(bare(self.net).state_dict())

    def play(self, x):
        return self.net.act(x)
