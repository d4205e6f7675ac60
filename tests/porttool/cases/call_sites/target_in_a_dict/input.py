import torch

spec = {"_target_": "torch.compile", "dynamic": False}
wrap = dict(_target_="torch.compile", _partial_=True)
names = {"title": "torch.compile"}
