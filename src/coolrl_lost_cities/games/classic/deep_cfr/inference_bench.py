"""Does compile make an inference server's forwards faster? Four servers, asked the same in turn.

Each is a process of its own, as in a run, and compiles there. They take turns by the replay of all
requests, one way through the list and then the other, so that whatever slows the machine for a
while meets all; the first replay of each, in which it compiles, does not count.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

from coolrl_lost_cities.games.classic.deep_cfr.bench import LEAST_ITERATIONS, Say, check_iterations
from coolrl_lost_cities.games.classic.deep_cfr.compiler import require_cpp_compiler
from coolrl_lost_cities.games.classic.deep_cfr.compute_lock import compute_lock
from coolrl_lost_cities.games.classic.deep_cfr.config import (
    DeepCFRConfig,
    config_from_mapping,
    config_to_mapping,
)
from coolrl_lost_cities.games.classic.deep_cfr.fingerprint import Fingerprint, take_fingerprint
from coolrl_lost_cities.games.classic.deep_cfr.inference_server import (
    InferenceServer,
    InferenceServerError,
)
from coolrl_lost_cities.games.classic.deep_cfr.paired_times import Saving, saving
from coolrl_lost_cities.games.classic.deep_cfr.recorded_requests import (
    Recording,
    Request,
    record_requests,
)
from coolrl_lost_cities.games.classic.deep_cfr.served_networks import BatchCount, ServerCounts

EAGER, DYNAMIC, STATIC, BUCKETS = "eager", "dynamic", "static", "powers of two"
WAYS: dict[str, dict[str, str]] = {
    EAGER: {"enabled": "false"},
    DYNAMIC: {"enabled": "true", "dynamic": "true", "buckets": "none"},
    STATIC: {"enabled": "true", "dynamic": "false", "buckets": "none"},
    BUCKETS: {"enabled": "true", "dynamic": "false", "buckets": "powers_of_two"},
}
_PATIENCE_S = 1200  # of whoever asks for rows that are compiled for first


@dataclass(frozen=True)
class Served:
    """What one way to serve took: seconds in forwards a replay, and its compiling.

    `compiling_s` is how much longer the start and the first replay took than a usual replay.
    `batches` are the forwards of the first replay by their rows, with the graphs made for them, and
    what warming up asked. `failed` says why the times count for nothing, or "".
    """

    compiling_s: float = 0.0
    seconds: tuple[float, ...] = ()
    cpu_seconds: tuple[float, ...] = ()
    batches: dict[int, BatchCount] = field(default_factory=dict)
    failed: str = ""

    @property
    def mean(self) -> float:
        """Mean seconds in the forwards of a replay."""
        return sum(self.seconds) / len(self.seconds)

    @property
    def graphs(self) -> int:
        """How many graphs were compiled."""
        return sum(one.graphs for one in self.batches.values())


@dataclass(frozen=True)
class InferenceBench:
    """All ways by name, what was replayed, and where."""

    config: DeepCFRConfig
    recording: Recording
    served: Mapping[str, Served]
    fingerprint: Fingerprint
    load_after: float

    @property
    def configured(self) -> str:
        """The way that the configuration would compile."""
        settings = self.config.compile.inference_server
        if settings.buckets == "powers_of_two":
            return BUCKETS
        return DYNAMIC if settings.dynamic else STATIC

    @property
    def failed(self) -> str:
        """Why the bench as a whole counts for nothing, or ""."""
        asked = (EAGER, self.configured)
        return next((self.served[name].failed for name in asked if self.served[name].failed), "")

    def saving(self, name: str) -> Saving | None:
        """Return what a way saves against eager forwards; None where one of them failed."""
        eager, other = self.served[EAGER], self.served[name]
        if eager.failed or other.failed:
            return None
        return saving(eager.seconds, other.seconds)


@dataclass
class _Arm:
    """A server, and what it has done so far."""

    server: InferenceServer
    started_s: float = 0.0
    first: ServerCounts = field(default_factory=ServerCounts)
    measured: list[ServerCounts] = field(default_factory=list)
    failed: str = ""


def run_inference_bench(
    config: DeepCFRConfig, out: Path, say: Say, *, replays: int = LEAST_ITERATIONS
) -> InferenceBench:
    """Time all ways, each `replays` times.

    Raises TooFewIterations, CompilerMissing and ComputeLocked.
    """
    check_iterations(replays)
    if config.run.device == "cpu":
        require_cpp_compiler()
    with compute_lock(), ExitStack() as stack:
        fingerprint = take_fingerprint(config)
        say("recording what a server is asked")
        recording = record_requests(config, out / "recorded")
        arms = {}
        for name in WAYS:
            say(f"{name}: start and first replay, which are not counted")
            server = stack.enter_context(closing(InferenceServer(way_config(config, name), 1)))
            arms[name] = _started(server, recording)
        _in_turn(arms, recording.requests, replays, say)
        load_after = take_fingerprint(config).load
    served = {name: _served(arm) for name, arm in arms.items()}
    return InferenceBench(config, recording, served, fingerprint, load_after)


def way_config(config: DeepCFRConfig, name: str) -> DeepCFRConfig:
    """Return the configuration of a server that serves in this way."""
    overrides = [f"compile.inference_server.{key}={value}" for key, value in WAYS[name].items()]
    overrides += ["compile.inference_server.mode=default"]
    overrides += [f"inference_server.timeout_s={_PATIENCE_S}"]
    return config_from_mapping(config_to_mapping(config), f"bench, {name}", overrides)


def _started(server: InferenceServer, recording: Recording) -> _Arm:
    arm = _Arm(server)
    begun = time.perf_counter()
    try:
        server.push_weights(recording.weights)
        arm.first = _replay(server, recording.requests)
    except InferenceServerError as error:
        arm.failed = _last_line(error)
    arm.started_s = time.perf_counter() - begun
    return arm


def _in_turn(arms: dict[str, _Arm], requests: Sequence[Request], replays: int, say: Say) -> None:
    for number in range(replays):
        # A B, then B A: a machine that slows down steadily slows all down alike.
        for name in arms if number % 2 == 0 else reversed(arms):
            arm = arms[name]
            if arm.failed:
                continue
            try:
                counts = _replay(arm.server, requests)
            except InferenceServerError as error:
                arm.failed = _last_line(error)
                continue
            arm.measured.append(counts)
            seconds = counts.policy_network_seconds
            say(f"{name}: replay {number + 1} of {replays}, {seconds:.3f} s")


def _replay(server: InferenceServer, requests: Sequence[Request]) -> ServerCounts:
    for request in requests:
        server.clients[0].forward(request.network, request.features_BE)
    return server.take_counts()


def _served(arm: _Arm) -> Served:
    if arm.failed:
        return Served(failed=arm.failed)
    seconds = tuple(one.policy_network_seconds for one in arm.measured)
    again = sorted(
        {rows for one in arm.measured for rows, batch in one.batches.items() if batch.graphs}
    )
    failed = f"compiled again in a measured replay, at {again} rows" if again else ""
    return Served(
        compiling_s=arm.started_s - sum(seconds) / len(seconds),
        seconds=seconds,
        cpu_seconds=tuple(one.cpu_seconds for one in arm.measured),
        batches=arm.first.batches,
        failed=failed,
    )


def _last_line(error: Exception) -> str:
    *_, line = str(error).strip().splitlines()
    return line
