import operator

import torch

fast = operator.attrgetter("compile")(torch)
operator.methodcaller("compile", dynamic=False)(torch.nn.Linear(4, 2))
