"""Traversals on a Ray cluster of two nodes on this machine, one of which is killed.

Not named test_*: it wants the extra `ray`, which is larger than the rest of what CI installs. Run
it by `make test-ray`.
"""

import dataclasses
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import ray
import torch
from ray.cluster_utils import Cluster

from coolrl_lost_cities.games.classic.deep_cfr import ray_backend
from coolrl_lost_cities.games.classic.deep_cfr.config import (
    DeepCFRConfig,
    load_config,
)
from coolrl_lost_cities.games.classic.deep_cfr.networks import Network, build_network
from coolrl_lost_cities.games.classic.deep_cfr.ray_backend import (
    ClusterUnreachable,
    PieceFailed,
    RayPool,
    SourcesDiffer,
)
from coolrl_lost_cities.games.classic.deep_cfr.trainer import DeepCFRTrainer
from coolrl_lost_cities.games.classic.deep_cfr.traversal import TraversalSamples, TraversalSpec
from coolrl_lost_cities.games.classic.deep_cfr.workers import local_forward, run_with_networks

SMALL = [
    "rules.num_colors=3",
    "rules.num_ranks=4",
    "rules.hand_size=3",
    "rules.max_steps=60",
    "network.hidden_size=16",
    "network.num_layers=2",
    "traversal.num_workers=2",
]
_START_S = 300.0  # Ray gives a node 30 s by itself, too few on a busy machine
SPEC = TraversalSpec(
    seed=3, iteration=2, traverser=1, first_id=5, num_traversals=400, lanes=16, exploration=0.4
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A head and a second node, one CPU each; nodes find the package where this process does."""
    torch.set_num_threads(1)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.add_node(num_cpus=1, wait=False)
    cluster.wait_for_nodes(timeout=_START_S)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def config_of(cluster: Cluster, *overrides: str) -> DeepCFRConfig:
    cluster_at = [f"traversal.ray_address={cluster.address}", "traversal.backend=ray"]
    return load_config(None, [*SMALL, *cluster_at, *overrides])


def some_networks(config: DeepCFRConfig) -> list[Network]:
    generator = torch.Generator().manual_seed(1)
    return [build_network(config, generator) for _ in range(2)]


def payload(networks: list[Network]) -> dict:
    return {"networks": [network.state_dict() for network in networks]}


def in_process(config: DeepCFRConfig, spec: TraversalSpec) -> TraversalSamples:
    return run_with_networks(config, spec, local_forward(some_networks(config)))


def assert_same(left: TraversalSamples, right: TraversalSamples) -> None:
    assert left.counters.infostates == right.counters.infostates > 1000
    for part in ("advantage", "strategy"):
        ours, theirs = getattr(left, part), getattr(right, part)
        for field in dataclasses.fields(ours):
            np.testing.assert_array_equal(getattr(ours, field.name), getattr(theirs, field.name))


def test_where_no_cluster_is_the_run_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))  # where a cluster that was killed left no trace
    config = load_config(None, [*SMALL, "traversal.backend=ray"])
    with pytest.raises(ClusterUnreachable, match=r"traversal\.ray_address auto .*ray start --head"):
        RayPool(config)


def test_samples_are_the_same_though_a_node_is_killed(cluster: Cluster) -> None:
    config = config_of(cluster)
    pool = RayPool(config)
    try:
        pool.push_weights(payload(some_networks(config)))
        assert_same(pool.collect(SPEC), in_process(config, SPEC))
        pool.push_weights({"networks": []})
        with pytest.raises(PieceFailed, match="list index out of range"):
            pool.collect(SPEC)
        pool.push_weights(payload(some_networks(config)))

        # Long enough to be in the middle of it when the node goes.
        start = time.perf_counter()
        pool.collect(SPEC)
        seconds = time.perf_counter() - start
        times = max(10, int(10 / seconds))
        spec = dataclasses.replace(SPEC, num_traversals=times * SPEC.num_traversals)
        found: list[TraversalSamples] = []
        collecting = threading.Thread(target=lambda: found.append(pool.collect(spec)))
        collecting.start()
        time.sleep(2)
        lost = cluster.worker_nodes.copy().pop()
        cluster.remove_node(lost, allow_graceful=False)
        assert collecting.is_alive()
        collecting.join()
        assert_same(found[0], in_process(config, spec))
        assert sum(node["Alive"] for node in ray.nodes()) == 1
    finally:
        pool.close()


def test_a_run_on_the_cluster_learns_what_a_local_one_does(
    cluster: Cluster, tmp_path: Path
) -> None:
    small = [
        "traversal.traversals_per_iteration=30",
        "memory.advantage_capacity=200",
        "memory.strategy_capacity=200",
        "optimization.advantage_steps=2",
        "optimization.strategy_steps=2",
        "evaluation.eval_every=0",
    ]
    found = []
    for name, backend in (("ray", "ray"), ("here", "local")):
        (tmp_path / name).mkdir()
        here = [f"run.out={tmp_path / name}", f"traversal.backend={backend}"]
        with DeepCFRTrainer(config_of(cluster, *small, *here)) as trainer:
            trainer.run_iteration()
            found.append(trainer._strategy_network.state_dict())
    for name, tensor in found[0].items():
        assert torch.equal(tensor, found[1][name])


def test_nodes_with_other_sources_are_refused(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(cluster)
    pool = RayPool(config)
    try:
        pool.push_weights(payload(some_networks(config)))
        monkeypatch.setattr(ray_backend, "sources_digest", lambda: "of another version")
        with pytest.raises(SourcesDiffer, match=r"Ray node \S+ has another version of coolrl_lost"):
            pool.collect(SPEC)
    finally:
        pool.close()
