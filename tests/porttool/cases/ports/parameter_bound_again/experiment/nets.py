import torch
from torch import nn


def _clean(network):
    return getattr(network, "_orig_mod", network).state_dict()


class Net(nn.Linear):
    pass


def train(net, cfg):
    net = torch.compile(net.to('cpu'))
    opt = torch.optim.Adam(net.parameters())
    return _clean(net), opt.state_dict()


def main():
    net = Net(1, 1)
    train(net, 1)
    net.load_state_dict({})
