import torch

from lib.nets import Policy


class Trainer:
    def __init__(self):
        self.policy = Policy()

    def save(self, path):
        torch.save(self.policy.state_dict(), path)
