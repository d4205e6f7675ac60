import torch
from torch import nn


def clean(network):
    return getattr(network, "_orig_mod", network).state_dict()


class Agent:
    def __init__(self, width):
        self.net = torch.compile(nn.Linear(width, 1))

    def save(self):
        return clean(self.net)

    def target(self):
        from copy import deepcopy

        return deepcopy(getattr(self.net, "_orig_mod", self.net))

    def twin(self):
        from copy import deepcopy as twin_of

        net = self.net
        return twin_of(getattr(net, "_orig_mod", net))
