import torch

CODE = "f = torch.compile(torch.sin)"
exec(CODE)
