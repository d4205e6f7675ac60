import torch
from torch import nn


def _clean(network):
    return getattr(network, "_orig_mod", network).state_dict()


class Net(nn.Linear):
    pass


NET = torch.compile(Net(1, 1))
OTHER = Net(1, 1)


def save():
    return _clean(NET), OTHER.state_dict()
