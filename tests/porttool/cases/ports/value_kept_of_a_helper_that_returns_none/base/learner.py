import torch
from torch import nn


class Learner:
    def __init__(self, cfg):
        self.policy = nn.Linear(cfg.n_in, cfg.n_out)

    def load(self, state):
        self.policy.load_state_dict(state["policy"])
