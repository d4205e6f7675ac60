import torch
from torch import nn


def _clean_state_dict(network):
    return getattr(network, "_orig_mod", network).state_dict()


class Learner:
    def __init__(self, cfg):
        self.cfg = cfg
        self.policy = torch.compile(nn.Linear(cfg.n_in, cfg.n_out))
        self.target = nn.Linear(cfg.n_in, cfg.n_out)
        self.critics = [torch.compile(nn.Linear(cfg.n_in, 1)) for _ in range(2)]
        self.opt = torch.optim.Adam(self.policy.parameters())

    def save(self):
        return {
            "policy": _clean_state_dict(self.policy),
            "target": self.target.state_dict(),
            "critics": [_clean_state_dict(c) for c in self.critics],
            "opt": self.opt.state_dict(),
        }

    def load(self, blob):
        getattr(self.policy, "_orig_mod", self.policy).load_state_dict(blob["policy"])

    def bind(self, choice):
        if (net := self.policy) is not None:
            _clean_state_dict(net)
        match [self.policy, self.target]:
            case [first, second]:
                _clean_state_dict(first)
                second.state_dict()
        match {"net": self.policy, "other": self.target}:
            case {"net": taken, "other": left}:
                _clean_state_dict(taken)
                left.state_dict()
        match self.policy:
            case nn.Linear() as matched:
                _clean_state_dict(matched)
        match self.target:
            case whole:
                whole.state_dict()
        chosen = self.policy if choice else self.target
        _clean_state_dict(chosen)
        chosen = self.target
        chosen.state_dict()
        _clean_state_dict(choice and self.policy)
        (self.target or None).state_dict()

    def rebind(self, choice):
        try:
            tried = self.policy
        except ValueError:
            tried = self.target
        _clean_state_dict(tried)
        looped = self.target
        for _ in range(3):
            _clean_state_dict(looped)
            looped = self.policy
        one, two = self.policy, self.target
        one, two = two, one
        one.state_dict()
        _clean_state_dict(two)
        gone = self.policy
        del gone
        gone = self.target
        gone.state_dict()
        for self.current in self.critics:
            _clean_state_dict(self.current)
        slots = [None]
        slots[0], other = self.policy, self.target
        _clean_state_dict(slots[0])
        other.state_dict()

    def carried(self):
        try:
            raise Carrying(self.policy)
        except Carrying as caught:
            _clean_state_dict(caught.net)


class Carrying(Exception):
    def __init__(self, net):
        super().__init__("carries a network")
        self.net = net
