"""Where a run's traversals are played, and who answers their forwards, as one thing.

Played here, in worker processes, or on a Ray cluster; answered by whoever plays, or by a server.
The samples are the same everywhere, so a run may go on without its server as if there had never
been one. Axes: B rows, E encoding, A actions.
"""

import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from torch import Tensor

from coolrl_lost_cities.games.classic.deep_cfr.config import DeepCFRConfig
from coolrl_lost_cities.games.classic.deep_cfr.inference import Rows, pack_network
from coolrl_lost_cities.games.classic.deep_cfr.inference_server import (
    InferenceServer,
    InferenceServerLost,
)
from coolrl_lost_cities.games.classic.deep_cfr.lockstep import TraversalBuffers
from coolrl_lost_cities.games.classic.deep_cfr.networks import load_networks
from coolrl_lost_cities.games.classic.deep_cfr.served_networks import ServerCounts
from coolrl_lost_cities.games.classic.deep_cfr.traversal import (
    TraversalSamples,
    TraversalSpec,
)
from coolrl_lost_cities.games.classic.deep_cfr.workers import (
    TraversalPool,
    WorkerLostServer,
    local_forward,
    run_with_networks,
)

_Result = TypeVar("_Result")
_Networks = Sequence[Mapping[str, Tensor]]  # plain state_dicts, in the order they are numbered


class _Pool(Protocol):
    def push_weights(self, payload: Mapping[str, Any]) -> None: ...

    def collect(self, spec: TraversalSpec) -> TraversalSamples: ...

    def close(self) -> None: ...


class TraversalBackend:
    """Owns the processes that `traversal.*` and `inference_server.*` ask for."""

    def __init__(self, config: DeepCFRConfig) -> None:
        self._config = config
        self._server: InferenceServer | None = None
        self._pool: _Pool | None = None
        self._buffers = TraversalBuffers()
        self._start()

    def _start(self) -> None:
        settings = self._config.traversal
        clients = None
        if settings.inference_backend == "server":
            self._server = InferenceServer(self._config, 1 + settings.num_workers)
            clients = self._server.clients[1:]  # the first asks from this process
        if settings.backend == "ray":
            from coolrl_lost_cities.games.classic.deep_cfr.ray_backend import (  # noqa: PLC0415
                RayPool,  # only here is ray needed
            )

            self._pool = RayPool(self._config)
        elif settings.num_workers > 0:
            self._pool = TraversalPool(self._config, clients)

    def collect(self, spec: TraversalSpec, networks: _Networks) -> TraversalSamples:
        """Run traversals with these networks and return their samples in order of their ids.

        The networks are numbered as `networks.network_numbers` says. The samples are good until
        the next call. Raises what the pool raises, and InferenceServerError.
        """
        return self._with_or_without_server(partial(self._collect, spec, networks))

    def _collect(self, spec: TraversalSpec, networks: _Networks) -> TraversalSamples:
        if self._server is not None:
            self._server.push_weights(networks)
        elif self._pool is not None:
            self._pool.push_weights({"networks": list(networks)})
        if self._pool is not None:
            return self._pool.collect(spec)
        if self._server is not None:
            forward = self._server.clients[0].forward
        else:
            precision = self._config.run.precision
            forward = local_forward(load_networks(self._config, networks), precision)
        return run_with_networks(self._config, spec, forward, self._buffers)

    def answered(self, networks: _Networks, work: Callable[[Sequence[Rows]], _Result]) -> _Result:
        """Return what the work makes of these networks' forwards: by the server if there is one.

        Advantage and strategy networks, no value network.
        The forwards are good until `work` returns. It is done again from its start where the
        server is lost in the middle of it.
        """
        return self._with_or_without_server(lambda: work(self._forwards(networks)))

    def _forwards(self, networks: _Networks) -> list[Rows]:
        if self._server is None:
            precision = self._config.run.precision
            return [
                pack_network(network, precision)
                for network in load_networks(self._config, networks, policies_only=True)
            ]
        self._server.push_weights(networks, policies_only=True)
        forward = self._server.clients[0].forward
        return [partial(forward, number) for number in range(len(networks))]

    def take_counts(self) -> ServerCounts | None:
        """Return what the server did since the last call; None where there is none (any more)."""
        return self._with_or_without_server(
            lambda: None if self._server is None else self._server.take_counts()
        )

    def close(self) -> None:
        """End the processes; a second call does nothing."""
        if self._pool is not None:
            self._pool.close()
        if self._server is not None:
            self._server.close()

    def _with_or_without_server(self, work: Callable[[], _Result]) -> _Result:
        try:
            return work()
        except (InferenceServerLost, WorkerLostServer) as error:
            if self._config.inference_server.on_failure == "stop":
                raise
            *_, reason = str(error).splitlines()
            logging.getLogger(__name__).warning(
                "going on without the inference server (inference_server.on_failure: local): %s",
                reason,
            )
        self.close()
        self._server = self._pool = None
        traversal = dataclasses.replace(self._config.traversal, inference_backend="local")
        self._config = dataclasses.replace(self._config, traversal=traversal)
        self._start()
        return work()
