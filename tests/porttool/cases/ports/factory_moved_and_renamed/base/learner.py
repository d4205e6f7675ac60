import torch
from torch import nn


def build(cfg):
    return nn.Linear(cfg.n_in, cfg.n_out)


class Learner:
    def __init__(self, cfg):
        self.policy = build(cfg)

    def save(self):
        return {"policy": self.policy.state_dict()}
