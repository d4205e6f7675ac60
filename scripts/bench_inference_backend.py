"""Compare who answers the forwards of traversals: networks at hand, a server, a compiled server.

    python scripts/bench_inference_backend.py
    python scripts/bench_inference_backend.py --set run.device=cuda --workers 2 --json backends.json

All play the same traversals, in turn, so that a busy machine slows all alike; what is printed are
medians over the repeats. Local and served samples must be equal bit for bit on the CPU, which is
checked. `policy_network_seconds` is the time in forwards, on the server's side where there is one;
the askers' waiting comes on top. With --workers 0 this process asks, else so many worker processes.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import platform
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from coolrl_lost_cities.games.classic.deep_cfr.compiler import CompilerMissing, require_cpp_compiler
from coolrl_lost_cities.games.classic.deep_cfr.config import (
    DeepCFRConfig,
    load_config,
)
from coolrl_lost_cities.games.classic.deep_cfr.inference_server import InferenceServer
from coolrl_lost_cities.games.classic.deep_cfr.memory import NodeSamples
from coolrl_lost_cities.games.classic.deep_cfr.networks import build_network, load_networks
from coolrl_lost_cities.games.classic.deep_cfr.served_networks import BatchCount
from coolrl_lost_cities.games.classic.deep_cfr.traversal import (
    TraversalSamples,
    TraversalSpec,
)
from coolrl_lost_cities.games.classic.deep_cfr.workers import (
    Forward,
    TraversalPool,
    local_forward,
    run_with_networks,
)

Weights = Sequence[Mapping[str, torch.Tensor]]


@dataclass(frozen=True)
class Repeat:
    """One set of traversals: wall seconds, processor seconds of all processes, what was done."""

    wall_s: float
    cpu_s: float
    infostates: int
    policy_network_seconds: float | None  # unknown inside of workers
    batches: Mapping[int, BatchCount]
    digest: str


class Timed:
    """A forward that adds up its time and counts its batches."""

    def __init__(self, forward: Forward) -> None:
        self._forward = forward
        self.restart()

    def restart(self) -> None:
        self.seconds = 0.0
        self.batches: dict[int, BatchCount] = {}

    def __call__(self, network: int, features_BE: Any) -> Any:
        start = time.perf_counter()
        outputs_BA = self._forward(network, features_BE)
        self.seconds += time.perf_counter() - start
        before = self.batches.get(len(features_BE), BatchCount())
        self.batches[len(features_BE)] = BatchCount(before.forwards + 1)
        return outputs_BA


class Contestant:
    """One way to answer, with its processes, warm."""

    def __init__(self, config: DeepCFRConfig, weights: Weights) -> None:
        self._config = config
        workers = config.traversal.num_workers
        self.server: InferenceServer | None = None
        self.pool: TraversalPool | None = None
        if config.traversal.inference_backend == "server":
            self.server = InferenceServer(config, max(1, workers))
            self.server.push_weights(weights)
            self.warm_up = self.server.take_counts()
            self._ask = Timed(self.server.clients[0].forward)
        else:
            self._ask = Timed(local_forward(load_networks(config, weights), config.run.precision))
        if workers:
            self.pool = TraversalPool(config, self.server.clients if self.server else None)
            self.pool.push_weights({"networks": [] if self.server else list(weights)})

    def run(self, spec: TraversalSpec) -> Repeat:
        pids = [*(self.pool.pids if self.pool else []), self.server.pid if self.server else None]
        clocks = [time.CLOCK_PROCESS_CPUTIME_ID, *(_cpu_clock(pid) for pid in pids if pid)]
        self._ask.restart()
        cpu, wall = sum(map(time.clock_gettime, clocks)), time.perf_counter()
        if self.pool is not None:
            samples = self.pool.collect(spec)
        else:
            samples = run_with_networks(self._config, spec, self._ask)
        wall = time.perf_counter() - wall
        cpu = sum(map(time.clock_gettime, clocks)) - cpu
        seconds: float | None = self._ask.seconds if self.pool is None else None
        batches: Mapping[int, BatchCount] = self._ask.batches
        if self.server is not None:
            counts = self.server.take_counts()
            seconds, batches = counts.policy_network_seconds, counts.batches
        return Repeat(wall, cpu, samples.counters.infostates, seconds, batches, digest(samples))

    def close(self) -> None:
        for owner in (self.pool, self.server):
            if owner is not None:
                owner.close()


def _cpu_clock(pid: int) -> int:
    return (~pid << 3) | 2  # what clock_getcpuclockid returns on Linux


def digest(samples: TraversalSamples) -> str:
    text = hashlib.sha256()
    for part in (samples.advantage, samples.strategy):
        for field in dataclasses.fields(NodeSamples):
            text.update(getattr(part, field.name).tobytes())
    return text.hexdigest()


@contextmanager
def contestants(config: DeepCFRConfig, compiled: bool) -> Iterator[dict[str, Contestant]]:
    generator = torch.Generator().manual_seed(config.run.seed)
    weights = [build_network(config, generator).state_dict() for _ in range(2)]
    local = _with(config, "local", enabled=False)
    served = _with(config, "server", enabled=False)
    configs = {"local": local, "server": served}
    if compiled:
        configs["compiled server"] = _with(config, "server", enabled=True)
    found: dict[str, Contestant] = {}
    try:
        for name, its_config in configs.items():
            found[name] = Contestant(its_config, weights)
        yield found
    finally:
        for contestant in found.values():
            contestant.close()


def _with(config: DeepCFRConfig, backend: Any, *, enabled: bool) -> DeepCFRConfig:
    traversal = dataclasses.replace(config.traversal, inference_backend=backend)
    served = dataclasses.replace(config.compile.inference_server, enabled=enabled)
    compiling = dataclasses.replace(config.compile, inference_server=served)
    return dataclasses.replace(config, traversal=traversal, compile=compiling)


def measure(config: DeepCFRConfig, traversals: int, repeats: int, compiled: bool) -> dict[str, Any]:
    """Return the report; repeat 0 warms everything up and is not counted."""
    found: dict[str, list[Repeat]] = {}
    with contestants(config, compiled) as all_of_them:
        for repeat in range(repeats + 1):
            spec = TraversalSpec(
                seed=config.run.seed,
                iteration=repeat,
                traverser=repeat % 2,
                first_id=0,
                num_traversals=traversals,
                lanes=config.traversal.lanes,
                exploration=config.traversal.exploration,
            )
            for name, contestant in all_of_them.items():
                found.setdefault(name, []).append(contestant.run(spec))
        warm_up = {
            name: contestant.warm_up.batches
            for name, contestant in all_of_them.items()
            if contestant.server is not None
        }
    if config.run.device == "cpu":
        for ours, theirs in zip(found["local"], found["server"], strict=True):
            assert ours.digest == theirs.digest, "the server's samples differ from the local ones"
    base = found["local"]
    return {
        "network": f"{config.network.kind} {config.network.hidden_size} x "
        f"{config.network.num_layers}",
        "precision": config.run.precision,
        "device": config.run.device,
        "lanes": config.traversal.lanes,
        "workers": config.traversal.num_workers,
        "buckets": config.compile.inference_server.buckets,
        "traversals": traversals,
        "repeats": repeats,
        "torch": torch.__version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}",
        "backends": {
            name: _summary(its_repeats, base, warm_up.get(name, {}))
            for name, its_repeats in found.items()
        },
    }


def _summary(
    repeats: Sequence[Repeat], base: Sequence[Repeat], warm_up: Mapping[int, BatchCount]
) -> dict[str, Any]:
    warm, counted = repeats[0], repeats[1:]
    pairs = list(zip(counted, base[1:], strict=True))
    seconds = [one.policy_network_seconds for one in counted]
    batches: dict[str, dict[str, int]] = {}
    for part in (warm_up, *(repeat.batches for repeat in (warm, *counted))):
        for rows, count in part.items():
            entry = batches.setdefault(str(rows), {"forwards": 0, "graphs": 0})
            entry["forwards"] += count.forwards
            entry["graphs"] += count.graphs
    return {
        "rows_per_s": statistics.median(r.infostates / r.wall_s for r in counted),
        "rows_per_cpu_s": statistics.median(r.infostates / r.cpu_s for r in counted),
        "policy_network_seconds": None
        if None in seconds
        else statistics.median(value for value in seconds if value is not None),
        "ratio_to_local": statistics.median(
            (its.infostates / its.wall_s) / (local.infostates / local.wall_s)
            for its, local in pairs
        ),
        "cpu_ratio_to_local": statistics.median(
            (its.infostates / its.cpu_s) / (local.infostates / local.cpu_s) for its, local in pairs
        ),
        "batches": dict(sorted(batches.items(), key=lambda item: int(item[0]))),
        "graphs": sum(entry["graphs"] for entry in batches.values()),
    }


def markdown(report: Mapping[str, Any]) -> str:
    lines = [
        f"{report['network']}, {report['precision']}, {report['device']}, {report['lanes']} lanes, "
        f"workers {report['workers']}, torch {report['torch']}, {report['machine']}; "
        f"medians of {report['repeats']}",
        "",
        "| forwards by | rows/s | rows/CPU-s | policy_network_seconds | ratio | ratio by CPU time "
        "| graphs |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, found in report["backends"].items():
        seconds = found["policy_network_seconds"]
        lines.append(
            f"| {name} | {found['rows_per_s']:,.0f} | {found['rows_per_cpu_s']:,.0f} | "
            f"{'not measured' if seconds is None else f'{seconds:.3f}'} | "
            f"{found['ratio_to_local']:.2f} | {found['cpu_ratio_to_local']:.2f} | "
            f"{found['graphs']} |"
        )
    lines += ["", "| rows of a forward | " + " | ".join(report["backends"]) + " |"]
    lines.append("|---:" * (len(report["backends"]) + 1) + "|")
    sizes = sorted({int(s) for found in report["backends"].values() for s in found["batches"]})
    for size in sizes:
        cells = []
        for found in report["backends"].values():
            entry = found["batches"].get(str(size), {"forwards": 0, "graphs": 0})
            graphs = f" ({entry['graphs']} graphs)" if entry["graphs"] else ""
            cells.append(f"{entry['forwards']}{graphs}")
        lines.append(f"| {size} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", type=Path)
    parser.add_argument("--set", action="append", default=[], dest="overrides", metavar="A.B=C")
    parser.add_argument("--traversals", type=int, default=400, help="in each repeat")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--no-compile", action="store_true", help="leave out the compiled server")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    workers = f"traversal.num_workers={arguments.workers}"
    config = load_config(arguments.config, [*arguments.overrides, workers])
    torch.set_num_threads(1)
    compiled = not arguments.no_compile
    if compiled:
        try:
            require_cpp_compiler()
        except CompilerMissing as error:
            parser.error(f"{error}; or give --no-compile")
    report = measure(config, arguments.traversals, arguments.repeats, compiled)
    print(markdown(report))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
