import torch

from lib.nets import Policy, clean


class Trainer:
    def __init__(self):
        self.policy = torch.compile(Policy())

    def save(self, path):
        torch.save(clean(self.policy), path)
