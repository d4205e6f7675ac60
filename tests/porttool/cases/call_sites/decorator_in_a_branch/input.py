import torch

USE_COMPILE = False
if USE_COMPILE:

    @torch.compile
    def double(x):
        return 2 * x

    def run(x, function=torch.compile(torch.sin)):
        return function(x)

else:

    def double(x):
        return 2 * x

    def run(x, function=torch.sin):
        return function(x)


out = run(double(torch.ones(3)))
