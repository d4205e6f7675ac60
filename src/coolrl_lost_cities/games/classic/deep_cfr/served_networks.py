"""The networks that an inference server answers from: loaded by number, compiled or not, counted.

Lives in the server's process only: compiled code must not cross a spawn. Axes: B rows, E encoding,
A actions.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from coolrl_lost_cities.games.classic.deep_cfr.config import DeepCFRConfig
from coolrl_lost_cities.games.classic.deep_cfr.inference import DTYPES, Rows, pack_network
from coolrl_lost_cities.games.classic.deep_cfr.networks import load_networks
from coolrl_lost_cities.games.classic.deep_cfr.traversal import ROW_BLOCK

# A graph for each power of two up to any batch that fits in memory; torch's own limit is 8.
_RECOMPILE_LIMIT = 64

_Shape = tuple[tuple[str | int, ...], ...]


@dataclass(frozen=True)
class BatchCount:
    """What forwards of one number of rows have cost: `graphs` were compiled during them."""

    forwards: int = 0
    graphs: int = 0


@dataclass(frozen=True)
class ServerCounts:
    """What a server did since it was asked last; `batches` by the rows of a forward, padding too.

    `policy_network_seconds` is wall time in forwards, `cpu_seconds` that of the whole process.
    """

    requests: int = 0
    rows: int = 0
    policy_network_seconds: float = 0.0
    cpu_seconds: float = 0.0
    batches: dict[int, BatchCount] = field(default_factory=dict)


def counts_as_metrics(counts: ServerCounts) -> dict[str, Any]:
    """Return counts as plain values for a metrics file, the batch sizes as text."""
    return {
        "requests": counts.requests,
        "rows": counts.rows,
        "policy_network_seconds": counts.policy_network_seconds,
        "cpu_seconds": counts.cpu_seconds,
        "forwards": {str(rows): batch.forwards for rows, batch in counts.batches.items()},
        "graphs": {
            str(rows): batch.graphs for rows, batch in counts.batches.items() if batch.graphs
        },
    }


class ServedNetworks:
    """Networks in evaluation mode on `run.device`, plain or compiled."""

    def __init__(self, config: DeepCFRConfig) -> None:
        self._config = config
        self._settings = config.compile.inference_server
        self._device = torch.device(config.run.device)
        self._forwards: list[Rows] = []
        self._widths: list[int] = []  # of what each takes
        self._compiled: list[nn.Module] = []  # stays empty where nothing is compiled
        self._warm: set[_Shape] = set()
        self.version = 0
        self._restart_counts()
        if self._settings.enabled:
            # Past the limit torch would go on without compiled code, and say so only once.
            torch._dynamo.config.recompile_limit = _RECOMPILE_LIMIT
            torch._dynamo.config.fail_on_recompile_limit_hit = True

    def load(
        self,
        version: int,
        state_dicts: Sequence[Mapping[str, Tensor]],
        *,
        policies_only: bool = False,
    ) -> None:
        """Replace all networks; raises RuntimeError for other keys and then changes nothing.

        They are numbered as in `load_networks`.
        """
        networks = [
            network.to(self._device).eval()
            for network in load_networks(self._config, state_dicts, policies_only=policies_only)
        ]
        self._widths = [network.feature_scale.numel() for network in networks]
        if self._settings.enabled:
            self._compiled = self._compile(networks)
            self._forwards = [self._compiled_forward(network) for network in self._compiled]
        else:
            self._forwards = [
                pack_network(network, self._config.run.precision) for network in networks
            ]
        self.version = version

    def _compile(self, networks: Sequence[nn.Module]) -> list[nn.Module]:
        """Put weights into what is compiled already, so that a push does not compile again."""
        spare: dict[_Shape, list[nn.Module]] = {}
        for compiled in self._compiled:
            spare.setdefault(_shape(compiled), []).append(compiled)
        found = []
        for network in networks:
            if of_its_shape := spare.get(_shape(network)):
                compiled = of_its_shape.pop()
                getattr(compiled, "_orig_mod", compiled).load_state_dict(network.state_dict())
            else:
                compiled = cast(
                    nn.Module,
                    torch.compile(
                        network,
                        mode=self._settings.mode,
                        fullgraph=self._settings.fullgraph,
                        dynamic=self._settings.dynamic,
                    ),
                )
            found.append(compiled)
        return found

    def _compiled_forward(self, network: nn.Module) -> Rows:
        dtype = DTYPES[self._config.run.precision]
        low = dtype != torch.float32

        def rows(features_BE: NDArray[np.uint8]) -> NDArray[np.float32]:
            with torch.inference_mode(), torch.autocast(self._device.type, dtype, enabled=low):
                outputs_BA = network(torch.as_tensor(features_BE, device=self._device))
                answer_BA: NDArray[np.float32] = outputs_BA.float().cpu().numpy()
            return answer_BA

        return rows

    def warm_up(self, rows: int) -> None:
        """Compile now what the next requests of so many rows would have to wait for."""
        for number, compiled in enumerate(self._compiled):
            if (shape := _shape(compiled)) not in self._warm:
                self._counted_forward(number, np.zeros((rows, self._widths[number]), np.uint8))
                self._warm.add(shape)

    def forward(
        self, number: int, features_BE: NDArray[np.uint8], num_requests: int = 1
    ) -> NDArray[np.float32]:
        """Return one network's outputs BA for the rows of so many requests.

        Raises IndexError for a number that has no network, ValueError for rows of another width.
        """
        if features_BE.shape[1] != self._widths[number]:
            raise ValueError(
                f"network {number} takes {self._widths[number]} features, "
                f"got {features_BE.shape[1]} a row"
            )
        outputs_BA = self._counted_forward(number, features_BE)
        self._requests += num_requests
        self._rows += len(features_BE)
        return outputs_BA

    def _counted_forward(self, number: int, features_BE: NDArray[np.uint8]) -> NDArray[np.float32]:
        rows = len(features_BE)
        if self._settings.enabled and self._settings.buckets == "powers_of_two":
            features_BE = padded_to_power_of_two(features_BE)
        graphs = self._num_graphs()
        start = time.perf_counter()
        outputs_BA = self._forwards[number](features_BE)
        self._seconds += time.perf_counter() - start
        before = self._batches.get(len(features_BE), BatchCount())
        self._batches[len(features_BE)] = BatchCount(
            before.forwards + 1, before.graphs + self._num_graphs() - graphs
        )
        return outputs_BA[:rows]

    def take_counts(self) -> ServerCounts:
        """Return what was done since the last call."""
        counts = ServerCounts(
            requests=self._requests,
            rows=self._rows,
            policy_network_seconds=self._seconds,
            cpu_seconds=time.process_time() - self._cpu_start,
            batches=dict(sorted(self._batches.items())),
        )
        self._restart_counts()
        return counts

    def _restart_counts(self) -> None:
        self._requests = self._rows = 0
        self._seconds = 0.0
        self._cpu_start = time.process_time()
        self._batches: dict[int, BatchCount] = {}

    def _num_graphs(self) -> int:
        """Return how many graphs this process has compiled so far."""
        if not self._settings.enabled:
            return 0  # what counts them takes seconds to import
        return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


def _shape(network: nn.Module) -> _Shape:
    """Return what networks have in common that one compiled module can hold the weights of."""
    plain = cast(nn.Module, getattr(network, "_orig_mod", network))
    return tuple((name, *tensor.shape) for name, tensor in plain.state_dict().items())


def padded_to_power_of_two(features_BE: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the rows with zeros below them, so that few numbers of rows are ever compiled for.

    The fewest are a block: sizes below would be compiled for, and win nothing.
    """
    rows = len(features_BE)
    wanted = max(ROW_BLOCK, 1 << (rows - 1).bit_length())
    if wanted == rows:
        return features_BE
    padded_BE = np.zeros((wanted, features_BE.shape[1]), np.uint8)
    padded_BE[:rows] = features_BE
    return padded_BE


def joined_requests(asked: Sequence[object], rows: Sequence[int], most_rows: int) -> list[int]:
    """Return the places of the requests that the next forward answers, the oldest first.

    Requests are given oldest first, by what they ask and their rows. The oldest is always
    answered. Others join it if they ask the same and fit, but only where all have whole
    blocks of rows: then, and only then, a row has the bits that it would have had alone.
    """
    chosen = [0]
    total = rows[0]
    if total % ROW_BLOCK:
        return chosen
    for place in range(1, len(rows)):
        fits = total + rows[place] <= most_rows and rows[place] % ROW_BLOCK == 0
        if fits and asked[place] == asked[0]:
            chosen.append(place)
            total += rows[place]
    return chosen
