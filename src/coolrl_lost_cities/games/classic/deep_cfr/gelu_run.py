"""Two runs on the same batches, compiled and not, and how far their parameters end up apart.

With ReLU a rounding error turns units on or off, and parameters part by as much as by another form
of AdamW: that says nothing. GELU is smooth, so they have to stay together. Many steps through many
layers make more of a rounding error all the same; how much, the same run in float64 tells.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from coolrl_lost_cities.games.classic.deep_cfr.config import DeepCFRConfig
from coolrl_lost_cities.games.classic.deep_cfr.fixed_batches import (
    Arm,
    Decisions,
    eager_arm,
    fixed_decisions,
    new_network,
    with_gelu,
)
from coolrl_lost_cities.games.classic.deep_cfr.gradient_error import MOST_TIMES, graphs_compiled
from coolrl_lost_cities.games.classic.deep_cfr.steps import TrainingSteps

STEPS = 500
LIMIT = 1e-5  # on the largest difference of a parameter, where rounding alone makes less of one


@dataclass(frozen=True)
class GeluRun:
    """By what is learnt, the largest difference of a parameter, and how far one moved at most.

    `rounding` is the largest difference between the eager run and the same one in float64.
    """

    steps: int
    apart: dict[str, float]
    moved: dict[str, float]
    rounding: dict[str, float]
    graphs: int

    @property
    def worst(self) -> str:
        """The name of what is furthest apart for its limit."""
        return max(self.apart, key=lambda name: self.apart[name] / self.limit(name))

    @property
    def holds(self) -> bool:
        """Whether something was compiled, and the parameters stayed together."""
        return self.graphs > 0 and self.apart[self.worst] <= self.limit(self.worst)

    def limit(self, name: str) -> float:
        """Return how far apart parameters may be: `LIMIT`, or a few times what rounding makes."""
        return max(LIMIT, MOST_TIMES * self.rounding[name])


def gelu_run(
    config: DeepCFRConfig, compiled: Arm, num_steps: int, say: Callable[[str], None]
) -> GeluRun:
    """Train the configured network with GELU both ways, in fp32, on batches of fixed games."""
    config = with_gelu(config)
    apart: dict[str, float] = {}
    moved: dict[str, float] = {}
    rounding: dict[str, float] = {}
    before = graphs_compiled()
    for decisions in fixed_decisions(config):
        start = _flat(new_network(config).parameters())
        ends = []
        for name, arm, dtype in (
            ("compile off", eager_arm(), torch.float32),
            ("compile on", compiled, torch.float32),
            ("in float64", eager_arm(), torch.float64),
        ):
            say(f"{num_steps} steps with GELU, {decisions.name}, {name}")
            ends.append(_trained(config, arm, decisions, num_steps, dtype))
        for column, other in ((apart, ends[1]), (moved, start), (rounding, ends[2])):
            column[decisions.name] = float((ends[0] - other).abs().max())
    return GeluRun(num_steps, apart, moved, rounding, graphs_compiled() - before)


def _trained(
    config: DeepCFRConfig, arm: Arm, decisions: Decisions, num_steps: int, dtype: torch.dtype
) -> Tensor:
    settings = config.optimization
    network = new_network(config).to(dtype)
    optimizer = torch.optim.AdamW(
        network.parameters(),
        lr=settings.learning_rate,
        weight_decay=settings.weight_decay,
        fused=True,
    )
    device = torch.device(config.run.device)
    # float32 leaves the network's own types as they are.
    steps = TrainingSteps(torch.float32, device, settings.grad_clip, arm.whole)
    wrapped = arm.wrap(network)
    for batch in decisions.batches(num_steps):
        steps.fit(wrapped, optimizer, decisions.loss, batch)
    return _flat(network.parameters())


def _flat(parameters: Iterable[Tensor]) -> Tensor:
    return torch.cat([parameter.detach().double().flatten() for parameter in parameters])
