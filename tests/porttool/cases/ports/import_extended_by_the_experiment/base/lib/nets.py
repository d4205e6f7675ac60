from torch import nn


class Policy(nn.Module):
    pass


class Value(nn.Module):
    pass
