"""How far gradients are from those in float64, compiled and not, on the same batches.

Rounding makes eager gradients differ from exact ones, and compiled ones differ from both. Compiled
gradients are held to be right while they are about as far from the exact ones as eager ones are.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from coolrl_lost_cities.games.classic.deep_cfr.config import DeepCFRConfig
from coolrl_lost_cities.games.classic.deep_cfr.fixed_batches import (
    Arm,
    Decisions,
    eager_arm,
    fixed_decisions,
    new_network,
)
from coolrl_lost_cities.games.classic.deep_cfr.inference import training_dtype
from coolrl_lost_cities.games.classic.deep_cfr.steps import TrainingSteps

MOST_TIMES = 3.0  # as far from float64 as eager gradients are
_BATCHES = 4
_NO_CLIP = 1e30
_FIRST_MOMENT = 0.9  # of AdamW


@dataclass(frozen=True)
class GradientError:
    """Relative errors (root mean square over batches) by what is learnt, and compiled graphs."""

    eager: dict[str, float]
    compiled: dict[str, float]
    graphs: int

    @property
    def times(self) -> float:
        """How many times as far as eager gradients the compiled ones are, at worst."""
        return max(self.compiled[name] / self.eager[name] for name in self.eager)

    @property
    def holds(self) -> bool:
        """Whether something was compiled, and its gradients are as good as eager ones."""
        return self.graphs > 0 and self.times <= MOST_TIMES


def gradient_error(config: DeepCFRConfig, compiled: Arm) -> GradientError:
    """Compare the gradients of a new network in the precision of the run, fp16 as fp32."""
    eager: dict[str, float] = {}
    other: dict[str, float] = {}
    before = graphs_compiled()
    for decisions in fixed_decisions(config):
        network = new_network(config)
        exact = _gradients(config, copy.deepcopy(network).double(), eager_arm(), decisions)
        eager[decisions.name] = _error(
            _gradients(config, copy.deepcopy(network), eager_arm(), decisions), exact
        )
        other[decisions.name] = _error(_gradients(config, network, compiled, decisions), exact)
    return GradientError(eager, other, graphs_compiled() - before)


def graphs_compiled() -> int:
    """Return how many graphs this process has compiled so far."""
    from torch._dynamo.utils import counters  # noqa: PLC0415 -- slow, and torch alone may do

    return int(counters["stats"]["unique_graphs"])


def _gradients(
    config: DeepCFRConfig, network: nn.Module, arm: Arm, decisions: Decisions
) -> list[Tensor]:
    """Return the gradient of each batch, flat, in float64.

    They are read where every way to take a step leaves them: of the first step, AdamW's first
    moment is the gradient times a number. At a learning rate of 0 the next batch meets the same
    weights.
    """
    device = torch.device(config.run.device)
    dtype = training_dtype(config.run.precision, device)
    double = next(network.parameters()).dtype == torch.float64
    if double or dtype == torch.float16:
        dtype = torch.float32  # which leaves the network's own types as they are
    steps = TrainingSteps(dtype, device, _NO_CLIP, arm.whole)
    wrapped = arm.wrap(network)
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.0, weight_decay=0.0, fused=True)
    found = []
    for batch in decisions.batches(_BATCHES):
        optimizer.state.clear()
        steps.fit(wrapped, optimizer, decisions.loss, batch)
        moments = [optimizer.state[parameter]["exp_avg"] for parameter in network.parameters()]
        flat = torch.cat([moment.double().flatten() for moment in moments])
        found.append(flat / (1 - _FIRST_MOMENT))
    return found


def _error(found: Sequence[Tensor], exact: Sequence[Tensor]) -> float:
    squares = [
        float((one - other).square().sum() / other.square().sum())
        for one, other in zip(found, exact, strict=True)
    ]
    return math.sqrt(sum(squares) / len(squares))
