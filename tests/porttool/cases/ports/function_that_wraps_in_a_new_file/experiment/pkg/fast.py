import torch


def fast(net):
    return torch.compile(net)
