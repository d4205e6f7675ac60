"""Networks fitted to their memories, one after the other or side by side.

Axes: B batch rows, E encoding, A actions.
"""

import math
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from coolrl_lost_cities.games.classic.deep_cfr.errors import DeepCFRError
from coolrl_lost_cities.games.classic.deep_cfr.memory import Batch, ReservoirMemory, empty_batch
from coolrl_lost_cities.games.classic.deep_cfr.metrics import PhaseTimes
from coolrl_lost_cities.games.classic.deep_cfr.steps import TrainingSteps
from coolrl_lost_cities.games.classic.deep_cfr.whole_step import Loss

_TINY = 1e-30  # importance weights of long games may all vanish in float32
_NEVER = -1e9  # an infinite logit times a target of zero would be no number


class Diverged(DeepCFRError):
    """A network's loss is no finite number any more, and neither are its weights."""

    def __init__(self, phase: str, loss: float) -> None:
        super().__init__(
            f"{phase}: the mean loss of an iteration is {loss}, so its network is lost; resume "
            "from the last checkpoint with a lower optimization.learning_rate or grad_clip, or "
            "with run.precision: fp32"
        )


@dataclass(frozen=True, eq=False)
class Fit:
    """So many steps of one network on batches of one memory, drawn with a generator of its own.

    Targets are divided by `scale`, the units of the memory that an output of 1 stands for.
    """

    phase: str
    network: nn.Module
    optimizer: torch.optim.Optimizer
    memory: ReservoirMemory
    generator: np.random.Generator
    loss: Loss
    num_steps: int
    batch_size: int
    scale: float = 1.0


class Fitter:
    """Does fits, each network's batches in arrays that are filled again and again."""

    def __init__(
        self,
        steps: TrainingSteps,
        device: torch.device,
        *,
        permute_colors: bool,
        side_by_side: bool,
    ) -> None:
        self._steps = steps
        self._device = device
        self._permute_colors = permute_colors
        self._side_by_side = side_by_side
        self._batches: dict[str, Batch] = {}

    def run(self, fits: Sequence[Fit], times: PhaseTimes) -> list[float]:
        """Do the fits and return their mean losses; a memory without rows gives 0.

        Side by side each has a thread: torch lets go of the interpreter while it computes, and
        what one fit does never depends on the others, so the results are the same.
        """
        if not self._side_by_side or len(fits) == 1:
            return [self._run_one(fit, times) for fit in fits]
        # OpenMP counts its threads for each of ours anew; more than the run's would change bits.
        each = torch.get_num_threads()
        with ThreadPoolExecutor(len(fits), "fit", torch.set_num_threads, (each,)) as threads:
            return list(threads.map(lambda fit: self._run_one(fit, times), fits))

    def _run_one(self, fit: Fit, times: PhaseTimes) -> float:
        if len(fit.memory) == 0:
            return 0.0
        total = torch.zeros((), device=self._device)
        drawing = 0.0
        with times.measure(fit.phase):
            for _ in range(fit.num_steps):
                begun = time.perf_counter()
                batch = self._draw(fit)
                drawing += time.perf_counter() - begun
                total += self._steps.fit(
                    fit.network,
                    fit.optimizer,
                    fit.loss,
                    (
                        self._tensor(batch.features_BE),
                        self._tensor(batch.targets_BA) / fit.scale,
                        self._tensor(batch.legal_BA),
                        self._tensor(batch.weights_B),
                    ),
                )
            mean = total.item() / fit.num_steps
        times.add_part("batches", drawing)
        if not math.isfinite(mean):
            raise Diverged(fit.phase, mean)
        return mean

    def _draw(self, fit: Fit) -> Batch:
        """Sample a batch; its arrays are good until the fit's next one."""
        if fit.phase not in self._batches:
            pinned = self._device.type == "cuda"
            self._batches[fit.phase] = empty_batch(fit.memory.shape, fit.batch_size, pinned=pinned)
        return fit.memory.sample(
            fit.batch_size,
            fit.generator,
            permute_colors=self._permute_colors,
            out=self._batches[fit.phase],
        )

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self._device)


def set_learning_rate(optimizers: Sequence[torch.optim.Optimizer], rate: float) -> None:
    """Give optimizers their rate for the steps to come."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate


def squared_error(
    outputs_BA: Tensor, targets_BA: Tensor, legal_BA: Tensor, weights_B: Tensor
) -> Tensor:
    """Return the weighted mean over rows of the squared error summed over legal actions.

    Weights count relative to each other: their scale, which grows with the iterations, does not.
    """
    errors_B = ((outputs_BA - targets_BA) * legal_BA).square().sum(dim=1)
    return (weights_B * errors_B).sum() / weights_B.sum().clamp_min(_TINY)


def cross_entropy(
    outputs_BA: Tensor, targets_BA: Tensor, legal_BA: Tensor, weights_B: Tensor
) -> Tensor:
    """Return the weighted mean over rows of the cross-entropy to the played policies, in nats.

    Like the squared error of Brown et al. 2019 (sec. 5) it is smallest at the weighted average.
    """
    log_BA = functional.log_softmax(outputs_BA.masked_fill(~legal_BA, _NEVER), dim=1)
    entropy_B = -(targets_BA * log_BA).sum(dim=1)
    return (weights_B * entropy_B).sum() / weights_B.sum().clamp_min(_TINY)
