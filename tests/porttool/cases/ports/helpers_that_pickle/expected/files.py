import torch


def store(thing, path):
    torch.save(thing, path)


def store_plain(thing, path):
    torch.save(thing, path)
