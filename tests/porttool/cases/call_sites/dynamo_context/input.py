import torch
import torch._dynamo

net = torch.nn.Linear(4, 2)
with torch._dynamo.optimize("eager"):
    out = net(torch.ones(3, 4))
