def build():
    import torch

    return torch.compile(torch.nn.Linear(4, 2))


def ones():
    import torch

    return torch.ones(3, 4)


model = build()
out = model(ones())
ckpt = model.state_dict()
