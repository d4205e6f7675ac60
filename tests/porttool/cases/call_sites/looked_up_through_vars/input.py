import torch

wrap = vars(torch)["compile"]
other = torch.__dict__["compile"]
