import torch
from torch import nn


class Net(nn.Linear):
    pass


NET = Net(1, 1)
OTHER = Net(1, 1)


def save():
    return NET.state_dict(), OTHER.state_dict()


def more():
    nets = [NET]
    nets[0].state_dict()
    OTHER.state_dict()
