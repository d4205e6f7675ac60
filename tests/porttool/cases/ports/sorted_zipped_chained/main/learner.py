import heapq
import itertools
import random

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

    def order(self):
        for net in sorted([self.policy], key=id):
            net.state_dict()
        for net, opt in zip(reversed(self.critics), [self.opt]):
            net.state_dict()
            opt.state_dict()
        for _, net in enumerate([self.target]):
            net.state_dict()
        for net in map(lambda net: net, self.critics):
            net.state_dict()
        for net in filter(None, self.critics):
            net.state_dict()

    def chain(self):
        for net in itertools.chain(self.critics, [self.target]):
            net.state_dict()
        for net in itertools.chain([self.target], [nn.Linear(1, 1)]):
            net.state_dict()
        for one, other in itertools.product(self.critics, [self.target]):
            one.state_dict()
            other.state_dict()
        for net in itertools.takewhile(bool, self.critics):
            net.state_dict()
        heap = []
        heapq.heappush(heap, self.policy)
        heap[0].state_dict()
        random.choice([self.target]).state_dict()
