import torch


@torch.compile
class Net(torch.nn.Module):
    def forward(self, x):
        return x
