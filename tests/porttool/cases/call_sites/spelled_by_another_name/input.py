import torch as th
from torch import compile as c
from torch import nn


def build():
    from torch import compile as local

    return local(nn.Linear(4, 4))


model = c(nn.Linear(4, 4))
other = th.compile(nn.Linear(4, 2), dynamic=False)
third = build()
out = other(model(third(th.ones(3, 4))))
ckpt = model.state_dict(), other.state_dict(), third.state_dict()
