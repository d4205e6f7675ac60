import torch
from torch import nn


def _clean_state_dict(network):
    return getattr(network, "_orig_mod", network).state_dict()


class Learner:
    def __init__(self, args):
        self.net = nn.Linear(args.width, 3)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=args.lr)
        if args.compile_model:
            self.net = torch.compile(self.net)

    def save(self):
        return _clean_state_dict(self.net)

    def push(self, queue):
        queue.put(_clean_state_dict(self.net))
