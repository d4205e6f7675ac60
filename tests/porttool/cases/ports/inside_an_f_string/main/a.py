import torch
from torch import nn


class Learner:
    def __init__(self, cfg):
        self.net = nn.Linear(cfg.n_in, cfg.n_out)
        self.opt = torch.optim.Adam(self.net.parameters())

    def save(self):
        return {"net": self.net.state_dict(), "opt": self.opt.state_dict()}

    def show(self):
        x = f'{f"{self.net.state_dict()}"}'; y = f'''
{self.net.state_dict():{len(self.net.state_dict())}}''' + f'{self.net.state_dict()=}'
        self.net.load_state_dict(torch.load(f'{x}'), strict=bool(f'''
{y}'''))
