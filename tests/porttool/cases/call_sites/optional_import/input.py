try:
    import torch
    from torch import nn
except ImportError:
    torch = None

model = torch.compile(nn.Linear(4, 2))
out = model(torch.ones(3, 4))
ckpt = model.state_dict()
