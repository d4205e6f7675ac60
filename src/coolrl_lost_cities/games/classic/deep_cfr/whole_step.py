"""One optimizer step as one compiled function: forward, loss, backward, clipping and AdamW.

Compiling only the forward leaves most of a step as it was. Here nothing of a step is left outside,
so that element-wise work is fused with its neighbours; the matrix products stay what they are.

Axes: B batch rows, E encoding, A actions.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value
from torch.optim.adamw import adamw

# (outputs_BA, targets_BA, legal_BA, weights_B) -> loss
Loss = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
# features BE, targets BA, legal actions BA, weights B
BatchTensors = tuple[Tensor, Tensor, Tensor, Tensor]
_State = tuple[list[Tensor], list[Tensor], list[Tensor]]  # steps, then _AVERAGES

_AVERAGES = ("exp_avg", "exp_avg_sq")
_NORM_FLOOR = 1e-6  # what torch's own clipping adds to the norm that it divides by


class WholeStep:
    """Takes steps of AdamW through a compiled function, which is built for one network and loss.

    The network is the plain one: its parameters and the optimizer's state are changed in place and
    stay where they are, so checkpoints and weights are those of a run that compiles nothing. Other
    numbers come in as tensors, so that no new rate and no restored state compiles anew.
    """

    def __init__(
        self,
        network: nn.Module,
        optimizer: torch.optim.Optimizer,
        loss: Loss,
        *,
        dtype: torch.dtype,
        grad_clip: float,
        options: Mapping[str, Any],
    ) -> None:
        (self._group,) = optimizer.param_groups
        self._optimizer = optimizer
        self._names = [name for name, _ in network.named_parameters()]
        self._parameters = list(network.parameters())
        self._rate = torch.zeros((), device=self._parameters[0].device)
        self._compiled = torch.compile(
            _step_of(network, loss, self._names, self._group, dtype=dtype, grad_clip=grad_clip),
            **{**options, "fullgraph": True},
        )

    def take(self, batch: BatchTensors) -> Tensor:
        """Take one step on a batch; return the loss before it."""
        self._rate.fill_(self._group["lr"])
        states = [self._state(parameter) for parameter in self._parameters]
        # Without gradients of its own the function is free to change what it differentiates by.
        values = [parameter.detach() for parameter in self._parameters]
        with torch.no_grad():
            # 1 - 0.999 ** step, in single precision, is 6e-5 off at the first steps.
            steps = [state["step"].double() for state in states]
            kept = (steps, *([state[name] for state in states] for name in _AVERAGES))
            loss: Tensor = self._compiled(values, kept, self._rate, batch)
            for state, step in zip(states, steps, strict=True):
                state["step"].copy_(step)
        return loss

    def _state(self, parameter: Tensor) -> dict[str, Tensor]:
        """Return what AdamW keeps of a parameter, made as `torch.optim` makes it the first time."""
        state: dict[str, Tensor] = self._optimizer.state[parameter]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32, device=parameter.device)
            state["exp_avg"] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
            state["exp_avg_sq"] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
        return state


def _step_of(
    network: nn.Module,
    loss: Loss,
    names: list[str],
    group: Mapping[str, Any],
    *,
    dtype: torch.dtype,
    grad_clip: float,
) -> Callable[..., Tensor]:
    first, second = group["betas"]
    decay, epsilon = group["weight_decay"], group["eps"]

    def step(values: list[Tensor], state: _State, rate: Tensor, batch: BatchTensors) -> Tensor:
        steps, averages, squares = state
        features_BE, *rest = batch

        def objective(parameters: dict[str, Tensor]) -> Tensor:
            with torch.autocast(features_BE.device.type, dtype, enabled=dtype != torch.float32):
                outputs_BA = functional_call(network, parameters, (features_BE,))
            return loss(outputs_BA.float(), *rest)

        gradients, value = grad_and_value(objective)(dict(zip(names, values, strict=True)))
        found = [gradients[name] for name in names]
        norm = torch.linalg.vector_norm(torch.stack([g.norm() for g in found]))
        factor = (grad_clip / (norm + _NORM_FLOOR)).clamp(max=1.0)
        adamw(
            values,
            [gradient * factor for gradient in found],
            averages,
            squares,
            [],
            steps,
            # torch keeps its fused form out of the compiler, which fuses this one itself.
            foreach=False,
            fused=False,
            capturable=rate.is_cuda,
            amsgrad=False,
            beta1=first,
            beta2=second,
            lr=rate,
            weight_decay=decay,
            eps=epsilon,
            maximize=False,
        )
        return value

    return step
