import heapq
import itertools
import random

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

    def order(self):
        for net in sorted([self.policy], key=id):
            _clean_state_dict(net)
        for net, opt in zip(reversed(self.critics), [self.opt]):
            _clean_state_dict(net)
            opt.state_dict()
        for _, net in enumerate([self.target]):
            net.state_dict()
        for net in map(lambda net: net, self.critics):
            _clean_state_dict(net)
        for net in filter(None, self.critics):
            _clean_state_dict(net)

    def chain(self):
        for net in itertools.chain(self.critics, [self.target]):
            _clean_state_dict(net)
        for net in itertools.chain([self.target], [nn.Linear(1, 1)]):
            net.state_dict()
        for one, other in itertools.product(self.critics, [self.target]):
            _clean_state_dict(one)
            other.state_dict()
        for net in itertools.takewhile(bool, self.critics):
            _clean_state_dict(net)
        heap = []
        heapq.heappush(heap, self.policy)
        _clean_state_dict(heap[0])
        random.choice([self.target]).state_dict()
