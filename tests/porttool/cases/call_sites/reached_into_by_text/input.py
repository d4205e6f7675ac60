import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


model = torch.compile(Net())
one = getattr(model, "_orig_mod")
two = model._modules["_orig_mod"]
three = model.get_submodule("_orig_mod")
four = getattr(model, "_orig_mod", model)
