import torch
from torch import nn


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

    def bind(self, choice):
        if (net := self.policy) is not None:
            net.state_dict()
        match [self.policy, self.target]:
            case [first, second]:
                first.state_dict()
                second.state_dict()
        match {"net": self.policy, "other": self.target}:
            case {"net": taken, "other": left}:
                taken.state_dict()
                left.state_dict()
        match self.policy:
            case nn.Linear() as matched:
                matched.state_dict()
        match self.target:
            case whole:
                whole.state_dict()
        chosen = self.policy if choice else self.target
        chosen.state_dict()
        chosen = self.target
        chosen.state_dict()
        (choice and self.policy).state_dict()
        (self.target or None).state_dict()

    def rebind(self, choice):
        try:
            tried = self.policy
        except ValueError:
            tried = self.target
        tried.state_dict()
        looped = self.target
        for _ in range(3):
            looped.state_dict()
            looped = self.policy
        one, two = self.policy, self.target
        one, two = two, one
        one.state_dict()
        two.state_dict()
        gone = self.policy
        del gone
        gone = self.target
        gone.state_dict()
        for self.current in self.critics:
            self.current.state_dict()
        slots = [None]
        slots[0], other = self.policy, self.target
        slots[0].state_dict()
        other.state_dict()

    def carried(self):
        try:
            raise Carrying(self.policy)
        except Carrying as caught:
            caught.net.state_dict()


class Carrying(Exception):
    def __init__(self, net):
        super().__init__("carries a network")
        self.net = net
