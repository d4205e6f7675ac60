import re

import torch


class Trainer:
    def compile(self, optimizer=None, loss=None):
        return optimizer


class Program:
    def compile(self):
        return 1


def lower(function):
    return Program()


trainer = Trainer()
trainer.compile(optimizer="adam", loss="mse")
trainer.compile()
exe = lower(torch.sin).compile()
pattern = re.compile("a+")
code = compile("1", "<s>", "eval")
TEXT = """
    model = torch.compile(model)
"""
# torch.compile(model)
out = torch.ones(3)
