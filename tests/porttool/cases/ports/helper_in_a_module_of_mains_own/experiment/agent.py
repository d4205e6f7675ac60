import torch
from torch import nn


def clean(network):
    return getattr(network, "_orig_mod", network).state_dict()


class Agent:
    def __init__(self, width):
        self.net = torch.compile(nn.Linear(width, 1))

    def save(self):
        return clean(self.net)
