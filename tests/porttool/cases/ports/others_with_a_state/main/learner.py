import torch
from torch import nn
import torchmetrics
from lion import Lion
from torchdata import StatefulDataLoader


class Learner:
    def __init__(self, cfg):
        self.cfg = cfg
        self.policy = nn.Linear(cfg.n_in, cfg.n_out)
        self.target = nn.Linear(cfg.n_in, cfg.n_out)
        self.critics = [nn.Linear(cfg.n_in, 1) for _ in range(2)]
        self.opt = torch.optim.Adam(self.policy.parameters())

    def save(self):
        return {
            "policy": self.policy.state_dict(),
            "target": self.target.state_dict(),
            "critics": [c.state_dict() for c in self.critics],
            "opt": self.opt.state_dict(),
        }

    def load(self, blob):
        self.policy.load_state_dict(blob["policy"])

    def others(self):
        torch.optim.lr_scheduler.StepLR(self.opt, 1).state_dict()
        torch.amp.GradScaler().state_dict()
        StatefulDataLoader([1]).state_dict()
        torchmetrics.Accuracy().state_dict()
        Lion(self.policy.parameters()).state_dict()
        Sign(self.policy.parameters()).state_dict()
        Memory().state_dict()
        torch.optim.swa_utils.SWALR(self.opt).state_dict()
        opts = [torch.optim.Adam(critic.parameters()) for critic in self.critics]
        for critic, opt in zip(self.critics, opts):
            critic.state_dict()
            opt.state_dict()
        both = {"net": self.policy, "opt": self.opt}
        both["opt"].load_state_dict({})
        both["net"].load_state_dict({})


class Sign(torch.optim.Optimizer):
    pass


class Memory:
    def state_dict(self):
        return {}
