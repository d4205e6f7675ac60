import torch
from torch import nn


class Critic:
    def __init__(self, cfg):
        self.value = nn.Linear(cfg.n_in, 1)

    def save(self):
        return {"value": self.value.state_dict()}

    def push(self, queue):
        queue.put(self.value.state_dict())
