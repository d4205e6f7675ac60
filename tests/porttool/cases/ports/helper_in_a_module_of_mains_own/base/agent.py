import torch
from torch import nn


class Agent:
    def __init__(self, width):
        self.net = nn.Linear(width, 1)

    def save(self):
        return self.net.state_dict()
