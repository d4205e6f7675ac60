"""AdamW without torch's compiler: in a run that compiles nothing, nothing of it is imported."""

import inspect
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

_step = inspect.unwrap(torch.optim.AdamW.step)


class AdamW(torch.optim.AdamW):
    """torch's fused AdamW, to the bit.

    Several methods of torch's optimizers are wrapped for the sake of code that is compiled around
    them, and each wrapper imports `torch._dynamo`: two seconds, for nothing where nothing is
    compiled. Nobody compiles around these, so here are the methods without their wrappers.
    """

    add_param_group = inspect.unwrap(torch.optim.AdamW.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.AdamW.zero_grad)
    state_dict = inspect.unwrap(torch.optim.AdamW.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.AdamW.load_state_dict)

    def __init__(
        self, parameters: Iterable[Parameter], *, lr: float, weight_decay: float = 0.01
    ) -> None:
        super().__init__(parameters, lr=lr, weight_decay=weight_decay, fused=True)

    @torch.no_grad()
    def step(self, closure: Any = None) -> Tensor | None:  # type: ignore[override]
        """Take one step; the wrapper that is left out would turn gradients off as well."""
        return _step(self, closure)
