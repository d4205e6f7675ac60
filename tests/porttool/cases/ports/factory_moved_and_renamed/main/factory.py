from torch import nn


def make(cfg):
    return nn.Linear(cfg.n_in, cfg.n_out)
