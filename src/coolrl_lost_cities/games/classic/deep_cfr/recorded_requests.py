# ruff: noqa: N815 -- fields are arrays, and array names end in their axes
"""What an inference server is asked in a run: real rows, in batches of the sizes that it forwards.

The sizes are counted by the server of a short run, since they depend on who waits for it together.
The rows are those of the same networks' further games. Axes: B rows, E encoding.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from coolrl_lost_cities.games.classic.deep_cfr import runs
from coolrl_lost_cities.games.classic.deep_cfr.checkpoints import load_checkpoint
from coolrl_lost_cities.games.classic.deep_cfr.config import (
    DeepCFRConfig,
    config_from_mapping,
    config_to_mapping,
)
from coolrl_lost_cities.games.classic.deep_cfr.networks import load_networks
from coolrl_lost_cities.games.classic.deep_cfr.trainer import DeepCFRTrainer
from coolrl_lost_cities.games.classic.deep_cfr.traversal import TraversalSpec
from coolrl_lost_cities.games.classic.deep_cfr.workers import local_forward, run_with_networks

ITERATIONS = 2
MOST_FORWARDS = 64

U8 = NDArray[np.uint8]
_OVERRIDES = (
    f"run.iterations={ITERATIONS}",
    "run.minutes=null",
    "run.overwrite=true",
    "traversal.backend=local",
    "traversal.inference_backend=server",
    "checkpoint.save_latest=true",
    f"checkpoint.latest_every={ITERATIONS}",
    "checkpoint.save_every=0",
    "compile.trainer.enabled=false",
    "compile.inference_server.enabled=false",
)


@dataclass(frozen=True, eq=False)
class Request:
    """Rows BE for the network of that number."""

    network: int
    features_BE: U8


@dataclass(frozen=True, eq=False)
class Recording:
    """What to replay, and what it stands for.

    `sizes` counts the forwards of the run by their rows; `requests` has as many of each size, in
    proportion. `weights` are those of the networks that were asked, by their numbers.
    """

    sizes: dict[int, int]
    requests: tuple[Request, ...]
    weights: list[Mapping[str, Tensor]]

    @property
    def replayed(self) -> dict[int, int]:
        """How many requests there are by their rows."""
        return dict(sorted(Counter(len(one.features_BE) for one in self.requests).items()))


def record_requests(config: DeepCFRConfig, out: Path) -> Recording:
    """Run a few iterations in a folder, with a server that compiles nothing.

    Only the run's files stay there, no checkpoint.
    """
    here = f"run.out={json.dumps(str(out))}"
    config = config_from_mapping(config_to_mapping(config), "bench", [*_OVERRIDES, here])
    runs.start_new(config)
    sizes: Counter[int] = Counter()
    with DeepCFRTrainer(config) as trainer:
        for _ in range(ITERATIONS):
            served = trainer.run_iteration()["inference_server"]
            sizes.update({int(rows): count for rows, count in served["forwards"].items()})
    contents = load_checkpoint(out / runs.NETWORKS)
    for name in (runs.LATEST, runs.NETWORKS):
        (out / name).unlink()
    copies = 2 if config.traversal.opponent == "frozen" else 1
    weights = [*copies * contents["advantage_networks"], *contents["value_networks"]]
    return Recording(
        dict(sorted(sizes.items())), cut_anew(_asked(config, weights), dict(sizes)), weights
    )


def _asked(config: DeepCFRConfig, weights: Sequence[Mapping[str, Tensor]]) -> list[Request]:
    """Return what is asked in the traversals of one more iteration, in order."""
    forward = local_forward(load_networks(config, weights), config.run.precision)
    asked: list[Request] = []

    def noting(network: int, features_BE: U8) -> NDArray[np.float32]:
        asked.append(Request(network, features_BE.copy()))
        return forward(network, features_BE)

    settings, estimator = config.traversal, config.estimator
    spec = TraversalSpec(
        seed=config.run.seed,
        iteration=ITERATIONS + 1,
        traverser=0,
        first_id=0,
        num_traversals=settings.traversals_per_iteration,
        lanes=settings.lanes,
        exploration=settings.exploration,
        estimator=estimator.kind,
        baseline=estimator.baseline,
        trace_decay=config.value.trace_decay,
        shared_seats=config.network.shared_seats and settings.opponent == "current",
    )
    run_with_networks(config, spec, noting)
    return asked


def cut_anew(asked: Sequence[Request], sizes: Mapping[int, int]) -> tuple[Request, ...]:
    """Return rows that were asked, cut anew into batches of sizes that occurred as often."""
    every = np.repeat(sorted(sizes), [sizes[rows] for rows in sorted(sizes)])
    number = min(MOST_FORWARDS, len(every))
    places = (np.arange(number) + 0.5) / number
    chosen = every[(places * len(every)).astype(int)]
    np.random.default_rng(0).shuffle(chosen)  # small ones come at any time
    rows_of = {
        network: np.concatenate([one.features_BE for one in asked if one.network == network])
        for network in {one.network for one in asked}
    }
    begins: list[int] = []
    so_far = dict.fromkeys(rows_of, 0)
    for one in asked:
        begins.append(so_far[one.network])
        so_far[one.network] += len(one.features_BE)
    found = []
    for place, rows in zip(places, chosen, strict=True):
        index = int(place * len(asked))
        network = asked[index].network
        taken = np.arange(begins[index], begins[index] + rows) % len(rows_of[network])
        found.append(Request(network, rows_of[network][taken]))
    return tuple(found)
