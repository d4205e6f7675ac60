import torch
from torch import nn


class Net(nn.Linear):
    pass


def nets():
    yield Net(1, 1)
    yield Net(2, 2)


def save():
    return [n.state_dict() for n in nets()]
