import torch
from torch import nn


def _clean(network):
    return getattr(network, "_orig_mod", network).state_dict()


class Net(nn.Linear):
    pass


def nets():
    yield torch.compile(Net(1, 1))
    yield Net(2, 2)


def save():
    return [_clean(n) for n in nets()]


def f():
    for n in nets():
        _clean(n)
