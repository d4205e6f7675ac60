from functools import partial

import torch


@partial(torch.compile, mode="default")
def double(x):
    return x * 2


out = double(torch.ones(3, 4))
