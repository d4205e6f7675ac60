import torch
from torch import nn

from factory import make


class Learner:
    def __init__(self, cfg):
        self.policy = make(cfg)

    def save(self):
        return {"policy": self.policy.state_dict()}
