import torch

from agent import Agent


class FastAgent(Agent):
    def __init__(self, cfg):
        super().__init__(cfg)
        self.policy = torch.compile(self.policy)
