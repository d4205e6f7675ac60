import torch
from torch import nn


class Agent:
    def __init__(self, width):
        self.net = nn.Linear(width, 1)

    def save(self):
        return self.net.state_dict()

    def target(self):
        from copy import deepcopy

        return deepcopy(self.net)

    def twin(self):
        from copy import deepcopy as twin_of

        net = self.net
        return twin_of(net)
