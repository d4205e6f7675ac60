"""Traversals on a Ray cluster: the pieces that local workers would get, and the same samples.

A piece that was lost with its node is played again elsewhere, by Ray; since a traversal's random
numbers depend on its id alone, nobody can tell afterwards. All nodes need these very sources, which
is checked, and CPUs alike, which is not: another CPU rounds matrix products in another way.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ray
import torch
from ray.exceptions import RayError, RayTaskError

from coolrl_lost_cities.games.classic.deep_cfr.config import DeepCFRConfig
from coolrl_lost_cities.games.classic.deep_cfr.errors import DeepCFRError
from coolrl_lost_cities.games.classic.deep_cfr.networks import load_networks
from coolrl_lost_cities.games.classic.deep_cfr.processes import pack_weights, unpack_weights
from coolrl_lost_cities.games.classic.deep_cfr.traversal import (
    TraversalSamples,
    TraversalSpec,
    concatenate,
)
from coolrl_lost_cities.games.classic.deep_cfr.workers import (
    local_forward,
    run_with_networks,
    split_spec,
)
from coolrl_lost_cities.games.classic.kernel_cache import sources_digest

_RETRIES = 5  # nodes that may be lost under one piece


class ClusterUnreachable(DeepCFRError):
    """There is no Ray cluster at the address."""

    def __init__(self, address: str, reason: str) -> None:
        self.address = address
        super().__init__(
            f"no Ray cluster answers at traversal.ray_address {address} ({reason}); start one with "
            "`ray start --head` and give the address that it prints"
        )


class ClusterFailed(DeepCFRError):
    """The cluster lost a piece for good; the run's checkpoints are as they were."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the Ray cluster gave traversals up ({reason}); look at `ray status` and resume from "
            "the last checkpoint"
        )


class PieceFailed(DeepCFRError):
    """A piece raised; the text is its traceback."""

    def __init__(self, text: str) -> None:
        self.traceback = text
        super().__init__(f"a traversal on the Ray cluster failed:\n{text}")


class SourcesDiffer(DeepCFRError):
    """A node has another state of this package, whose samples might be others."""

    def __init__(self, node: str) -> None:
        super().__init__(
            f"Ray node {node} has another version of coolrl_lost_cities than this process; install "
            "the same one on all nodes"
        )


@dataclass(frozen=True)
class _OtherSources:
    node: str


class RayPool:
    """A connection to the cluster at `traversal.ray_address`; close it to let it go."""

    def __init__(self, config: DeepCFRConfig) -> None:
        address = config.traversal.ray_address
        try:
            ray.init(address=address, log_to_driver=False, logging_level="warning")
        except (ConnectionError, ValueError, RuntimeError) as error:
            *_, reason = str(error).splitlines()
            raise ClusterUnreachable(address, reason) from error
        self._num_pieces = config.traversal.num_workers
        self._config = ray.put(config)
        self._networks = ray.put(pack_weights([]))
        # SPREAD: Ray would fill one node before it looks at the next.
        self._play = ray.remote(_play).options(
            num_cpus=1, max_retries=_RETRIES, scheduling_strategy="SPREAD"
        )

    def push_weights(self, payload: Mapping[str, Any]) -> None:
        """Keep `{"networks": [state_dict, ...]}` for the traversals to come, copied."""
        self._networks = ray.put(pack_weights(payload["networks"]))

    def collect(self, spec: TraversalSpec) -> TraversalSamples:
        """Run the traversals and return their samples in order of their ids.

        Waits for as long as the cluster has nobody to play them. Raises PieceFailed, SourcesDiffer,
        ClusterFailed.
        """
        pieces = [
            self._play.remote(self._config, self._networks, piece, sources_digest())
            for piece in split_spec(spec, self._num_pieces)
        ]
        try:
            played = ray.get(pieces)
        except RayTaskError as error:
            raise PieceFailed(str(error)) from error
        except RayError as error:
            raise ClusterFailed(str(error).splitlines()[0]) from error
        for samples in played:
            if isinstance(samples, _OtherSources):
                raise SourcesDiffer(samples.node)
        return concatenate(played)

    def close(self) -> None:
        """Let go of the cluster, which lives on; a second call does nothing."""
        ray.shutdown()


def _play(
    config: DeepCFRConfig, packed_networks: bytes, spec: TraversalSpec, sources: str
) -> TraversalSamples | _OtherSources:
    if sources != sources_digest():
        return _OtherSources(ray.util.get_node_ip_address())
    torch.set_num_threads(1)
    networks = load_networks(config, unpack_weights(packed_networks))
    forward = local_forward(networks, config.run.precision)
    return run_with_networks(config, spec, forward)
