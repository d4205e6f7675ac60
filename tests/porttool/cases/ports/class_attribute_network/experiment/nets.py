import torch
from torch import nn


def _clean(network):
    return getattr(network, "_orig_mod", network).state_dict()


class Net(nn.Linear):
    pass


class T:
    net = torch.compile(Net(1, 1))
    other = Net(1, 1)

    def save(self):
        return _clean(self.net), self.other.state_dict()
