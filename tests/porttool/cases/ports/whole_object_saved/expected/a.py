import torch
from torch import nn


class Learner:
    def __init__(self, cfg):
        self.net = torch.compile(nn.Linear(cfg.n_in, cfg.n_out))
        self.opt = torch.optim.Adam(self.net.parameters())

    def save(self):
        torch.save(self.net._orig_mod, "x")
        return {"net": self.net._orig_mod.state_dict(), "opt": self.opt.state_dict()}

    def b(self):
        torch.save(self.net._orig_mod, 'y', pickle_protocol=4)
        torch.save(self.opt, 'y')
        torch.save({'n': self.net}, 'z')
