"""Optimizer steps in the precision of the run: products in 16 bits where that pays, sums in 32.

Axes: B batch rows, E encoding, A actions.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from coolrl_lost_cities.games.classic.deep_cfr.whole_step import (
    BatchTensors,
    Loss,
    WholeStep,
)


class TrainingSteps:
    """How the networks of a run are trained. Weights and what the optimizer keeps are float32.

    `dtype` is what products are computed in. In float16 small gradients would vanish, so the loss
    is scaled up as far as they stay finite; the scale is state, shared by all networks. With
    `whole`, options of torch.compile, every step is one compiled function.
    """

    def __init__(
        self,
        dtype: torch.dtype,
        device: torch.device,
        grad_clip: float,
        whole: Mapping[str, Any] | None = None,
    ) -> None:
        self._device = device
        self._dtype = dtype
        self._grad_clip = grad_clip
        self._scaler = torch.amp.GradScaler(device.type, enabled=dtype == torch.float16)
        self._whole = whole
        self._whole_steps: dict[tuple[nn.Module, Loss], WholeStep] = {}

    def fit(
        self,
        network: nn.Module,
        optimizer: torch.optim.Optimizer,
        loss: Loss,
        batch: BatchTensors,
    ) -> Tensor:
        """Take one clipped gradient step on a batch; return the loss before it, detached."""
        if self._whole is None:
            features_BE, *rest = batch
            return self.take(network, optimizer, loss(self.outputs(network, features_BE), *rest))
        key = (network, loss)
        if key not in self._whole_steps:
            self._whole_steps[key] = WholeStep(
                network,
                optimizer,
                loss,
                dtype=self._dtype,
                grad_clip=self._grad_clip,
                options=self._whole,
            )
        return self._whole_steps[key].take(batch)

    def outputs(self, network: nn.Module, features_BE: Tensor) -> Tensor:
        """Run a forward that can be trained on; float32 BA comes out."""
        if self._dtype == torch.float32:
            outputs_BA: Tensor = network(features_BE)
            return outputs_BA
        with torch.autocast(self._device.type, self._dtype):
            outputs_BA = network(features_BE)
        return outputs_BA.float()

    def take(self, network: nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor) -> Tensor:
        """Take one clipped gradient step; return the loss, detached.

        In float16 a step whose gradients are not finite is left out and the scale lowered.
        """
        optimizer.zero_grad()
        self._scaler.scale(loss).backward()
        self._scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(network.parameters(), self._grad_clip)
        self._scaler.step(optimizer)
        self._scaler.update()
        return loss.detach()

    def state_dict(self) -> dict[str, Any]:
        """Return the scale of the loss and its history; nothing outside of float16."""
        return self._scaler.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a stored state. One of another precision is no reason to refuse."""
        if state and self._scaler.is_enabled():
            self._scaler.load_state_dict(state)
