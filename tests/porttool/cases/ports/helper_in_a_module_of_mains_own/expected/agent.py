import torch
from torch import nn

from weights import clean


class Agent:
    def __init__(self, width):
        self.net = torch.compile(nn.Linear(width, 1))

    def save(self):
        return clean(self.net)

    def publish(self, store):
        store.put(clean(self.net))

    def push(self, queue):
        queue.put(clean(self.net))
