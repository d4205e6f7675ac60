"""How long one forward of each trained network takes, at its training batch, on its device.

Below some 150 us a call on a GPU is its launches rather than its products, and compile pays for
more than it saves; the plan's threshold goes by that where it does not go by sizes.

Axes: B batch rows, E encoding.
"""

import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from coolrl_lost_cities.games.classic.deep_cfr.compute_lock import compute_lock
from coolrl_lost_cities.games.classic.deep_cfr.config import DeepCFRConfig, load_config
from coolrl_lost_cities.games.classic.deep_cfr.errors import DeepCFRError
from coolrl_lost_cities.games.classic.deep_cfr.fingerprint import Fingerprint, take_fingerprint
from coolrl_lost_cities.games.classic.deep_cfr.inference import check_precision, training_dtype
from coolrl_lost_cities.games.classic.deep_cfr.networks import build_network, build_value_network
from coolrl_lost_cities.games.classic.deep_cfr.steps import TrainingSteps

RESULT = "call_time.json"
_WARM_UP = 3
_LEAST_CALLS, _MOST_CALLS = 9, 200
_ENOUGH_S = 3.0  # of one network; then no more than the least calls are made


class NoDevice(DeepCFRError):
    """The device that trains is not there, so nothing can be measured on it."""

    def __init__(self, device: str) -> None:
        super().__init__(
            f"run.device is {device}, and torch sees no such device here; measure on the machine "
            "that trains, or with --set run.device=cpu"
        )


@dataclass(frozen=True)
class CallTime:
    """Microseconds of one forward: the median over `calls`, and their quartiles."""

    batch: int
    calls: int
    median_us: float
    low_us: float
    high_us: float


@dataclass(frozen=True)
class CallTimes:
    """What was measured of a configuration, by what each network learns."""

    config: DeepCFRConfig
    networks: dict[str, CallTime]
    fingerprint: Fingerprint

    @property
    def call_us(self) -> float:
        """The shortest call of the networks that the section `network` describes."""
        return min(self.networks[name].median_us for name in ("advantage", "strategy"))


def measure_call_times(config: DeepCFRConfig) -> CallTimes:
    """Time forwards that can be trained on, in the precision of the run and not compiled.

    Raises NoDevice and ComputeLocked.
    """
    device = torch.device(config.run.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise NoDevice(config.run.device)
    check_precision(config.run.precision, device)
    settings = config.optimization
    batches = {"advantage": settings.advantage_batch_size, "strategy": settings.strategy_batch_size}
    networks: dict[str, tuple[nn.Module, int]] = {
        name: (build_network(config), batch) for name, batch in batches.items()
    }
    if config.estimator.asks_values:
        networks["value"] = build_value_network(config), config.value.batch_size
    steps = TrainingSteps(
        training_dtype(config.run.precision, device), device, settings.grad_clip, None
    )
    with compute_lock():
        fingerprint = take_fingerprint(config)
        times = {
            name: _time(steps, network.to(device), batch, device)
            for name, (network, batch) in networks.items()
        }
    return CallTimes(config, times, fingerprint)


def table(found: CallTimes) -> str:
    """Return one row a network."""
    rows = ["| network | batch | us a call | quartiles | calls |", "|---|---:|---:|---:|---:|"]
    rows += [
        f"| {name} | {one.batch} | {one.median_us:.0f} | {one.low_us:.0f} to {one.high_us:.0f} "
        f"| {one.calls} |"
        for name, one in found.networks.items()
    ]
    return "\n".join(rows)


def contents(found: CallTimes) -> dict[str, Any]:
    """Return the file's contents: first what a reader knows who knows nothing of games."""
    network, run = found.config.network, found.config.run
    return {
        "measured": found.fingerprint.measured,
        "machine": found.fingerprint.machine,
        "what": (
            f"{network.kind} {network.hidden_size} x {network.num_layers} in {run.precision}, one "
            "forward at the training batch"
        ),
        "device": run.device,
        "call_us": found.call_us,
        "table": table(found),
        "networks": {name: asdict(one) for name, one in found.networks.items()},
        "fingerprint": asdict(found.fingerprint),
    }


def run_and_write(path: Path | None, overrides: Sequence[str], out: Path | None) -> str:
    """Measure a configuration, write the file to the folder and return what to say."""
    config = load_config(path, overrides)
    torch.set_num_threads(config.run.num_threads)
    found = measure_call_times(config)
    folder = out or Path(f"{config.run.out}_call_time")
    folder.mkdir(parents=True, exist_ok=True)
    result = folder / RESULT
    result.write_text(f"{json.dumps(contents(found), indent=1)}\n", encoding="utf-8")
    return f"{table(found)}\nOn {found.fingerprint.machine}.\n{result}"


def _time(steps: TrainingSteps, network: nn.Module, batch: int, device: torch.device) -> CallTime:
    scale_E = network.feature_scale
    assert isinstance(scale_E, Tensor)
    # Dense products take as long whatever the numbers are.
    features_BE = torch.ones(batch, len(scale_E), dtype=torch.uint8, device=device)

    def call() -> None:
        steps.outputs(network, features_BE)
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    for _ in range(_WARM_UP):
        call()
    microseconds = _calls(call)
    low, median, high = statistics.quantiles(microseconds, n=4)
    return CallTime(batch, len(microseconds), median, low, high)


def _calls(call: Callable[[], None]) -> list[float]:
    begun = time.perf_counter()
    found: list[float] = []
    while len(found) < _LEAST_CALLS or (
        len(found) < _MOST_CALLS and time.perf_counter() - begun < _ENOUGH_S
    ):
        before = time.perf_counter()
        call()
        found.append((time.perf_counter() - before) * 1e6)
    return found
