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

    def publish(self):
        global CURRENT, PREVIOUS
        CURRENT = self.policy
        PREVIOUS = self.target
        Holder.net = self.policy
        Holder.other = self.target
        REGISTRY["policy"] = self.policy
        OTHERS["target"] = self.target
        NETS.append(self.policy)


CURRENT = None
PREVIOUS = None
REGISTRY = {}
OTHERS = {}
NETS: list = []


class Holder:
    net = None
    other = None

    def dump(self):
        return _clean_state_dict(self.net), self.other.state_dict()


def dump():
    _clean_state_dict(CURRENT)
    PREVIOUS.state_dict()
    _clean_state_dict(Holder.net)
    Holder.other.state_dict()
    _clean_state_dict(REGISTRY["policy"])
    OTHERS["target"].state_dict()
    _clean_state_dict(NETS[0])
