import torch
from torch import nn


def _clean(network):
    return getattr(network, "_orig_mod", network).state_dict()


class Net(nn.Linear):
    pass


class T:
    def __init__(self):
        self.a, self.b = torch.compile(Net(1, 1)), Net(2, 2)

    def save(self):
        return _clean(self.a), self.b.state_dict()
