import dataclasses
from collections import namedtuple
from dataclasses import dataclass
from types import SimpleNamespace
from typing import NamedTuple, TypedDict

import torch
from torch import nn
import attrs


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

    def pack(self):
        pair = Pair(self.policy, self.target)
        _clean_state_dict(pair.net)
        pair.other.state_dict()
        _clean_state_dict(pair[0])
        net, other = pair
        _clean_state_dict(net)
        other.state_dict()
        space = SimpleNamespace(net=self.policy, other=self.target)
        _clean_state_dict(space.net)
        space.other.state_dict()
        typed = Typed(net=self.policy, other=self.target)
        _clean_state_dict(typed.net)
        typed.other.state_dict()
        typed[1].state_dict()
        data = Data(self.policy, self.target)
        _clean_state_dict(data.net)
        data.other.state_dict()
        swapped = dataclasses.replace(Late(self.target), net=self.policy)
        _clean_state_dict(swapped.net)
        keyed = Keyed(net=self.policy, other=self.target)
        _clean_state_dict(keyed["net"])
        keyed["other"].state_dict()
        defined = Defined(self.policy, self.target)
        _clean_state_dict(defined.net)
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
