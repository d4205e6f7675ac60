import dataclasses
from collections import namedtuple
from dataclasses import dataclass
from types import SimpleNamespace
from typing import NamedTuple, TypedDict

import torch
from torch import nn
import attrs


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

    def pack(self):
        pair = Pair(self.policy, self.target)
        pair.net.state_dict()
        pair.other.state_dict()
        pair[0].state_dict()
        net, other = pair
        net.state_dict()
        other.state_dict()
        space = SimpleNamespace(net=self.policy, other=self.target)
        space.net.state_dict()
        space.other.state_dict()
        typed = Typed(net=self.policy, other=self.target)
        typed.net.state_dict()
        typed.other.state_dict()
        typed[1].state_dict()
        data = Data(self.policy, self.target)
        data.net.state_dict()
        data.other.state_dict()
        swapped = dataclasses.replace(Late(self.target), net=self.policy)
        swapped.net.state_dict()
        keyed = Keyed(net=self.policy, other=self.target)
        keyed["net"].state_dict()
        keyed["other"].state_dict()
        defined = Defined(self.policy, self.target)
        defined.net.state_dict()
        defined.other.state_dict()


Pair = namedtuple("Pair", "net other")


class Typed(NamedTuple):
    net: nn.Module
    other: nn.Module


@dataclass
class Data:
    net: nn.Module
    other: nn.Module


@dataclass
class Late:
    net: nn.Module


class Keyed(TypedDict):
    net: nn.Module
    other: nn.Module


@attrs.define
class Defined:
    net = attrs.field()
    other = attrs.field()
