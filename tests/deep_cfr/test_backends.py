"""Where traversals are played and who answers them changes neither samples nor evaluations."""

import dataclasses
import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from coolrl_lost_cities.games.classic.deep_cfr.backends import TraversalBackend
from coolrl_lost_cities.games.classic.deep_cfr.config import (
    ConfigError,
    DeepCFRConfig,
    build_rules,
)
from coolrl_lost_cities.games.classic.deep_cfr.encoding import encoding_size
from coolrl_lost_cities.games.classic.deep_cfr.inference import pack_network
from coolrl_lost_cities.games.classic.deep_cfr.inference_server import InferenceServerGone
from coolrl_lost_cities.games.classic.deep_cfr.metrics import read_metrics, without_times
from coolrl_lost_cities.games.classic.deep_cfr.networks import Network, build_network
from coolrl_lost_cities.games.classic.deep_cfr.trainer import DeepCFRTrainer
from coolrl_lost_cities.games.classic.deep_cfr.traversal import TraversalSamples, TraversalSpec
from coolrl_lost_cities.games.classic.deep_cfr.workers import TraversalPool, WorkerLostServer

# A few more games than the tiny run's, and matches after each iteration.
MORE = [
    "traversal.traversals_per_iteration=40",
    "evaluation.eval_every=1",
    "evaluation.games=20",
    "evaluation.opponents=[random]",
]
Made = Callable[..., DeepCFRConfig]
SERVER = "traversal.inference_backend=server"
LOCALLY = "inference_server.on_failure=local"
SPEC = TraversalSpec(
    seed=3, iteration=2, traverser=1, first_id=5, num_traversals=40, lanes=8, exploration=0.4
)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)  # bits repeat on one thread only


@pytest.fixture
def small_config(tiny_config: Made) -> Made:
    return lambda *overrides: tiny_config(*MORE, *overrides)


def some_networks(config: DeepCFRConfig, count: int = 2) -> list[Network]:
    generator = torch.Generator().manual_seed(1)
    return [build_network(config, generator) for _ in range(count)]


def weights_of(networks: list[Network]) -> list[dict[str, torch.Tensor]]:
    return [network.state_dict() for network in networks]


def collected(config: DeepCFRConfig) -> TraversalSamples:
    backend = TraversalBackend(config)
    try:
        return backend.collect(SPEC, weights_of(some_networks(config)))
    finally:
        backend.close()


def assert_same(left: TraversalSamples, right: TraversalSamples) -> None:
    assert left.counters.infostates == right.counters.infostates > 100
    for part in ("advantage", "strategy"):
        ours, theirs = getattr(left, part), getattr(right, part)
        for field in dataclasses.fields(ours):
            np.testing.assert_array_equal(getattr(ours, field.name), getattr(theirs, field.name))


def kill(pid: int | None) -> None:
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def some_features(config: DeepCFRConfig, rows: int) -> np.ndarray:
    size = encoding_size(build_rules(config.rules))
    return np.random.default_rng(rows).integers(0, 3, (rows, size), np.uint8)


def test_a_backend_that_lost_its_server_goes_on_with_the_same_samples_if_it_may(
    small_config: Made, caplog: pytest.LogCaptureFixture
) -> None:
    expected = collected(small_config())
    backend = TraversalBackend(small_config(SERVER, LOCALLY, "traversal.num_workers=1"))
    weights = weights_of(some_networks(small_config()))
    try:
        assert_same(backend.collect(SPEC, weights), expected)
        counts = backend.take_counts()
        assert counts is not None
        assert counts.rows >= expected.counters.infostates
        assert backend._server is not None
        kill(backend._server.pid)
        with caplog.at_level(logging.WARNING):
            assert_same(backend.collect(SPEC, weights), expected)
        (record,) = caplog.records
        assert "going on without the inference server" in record.getMessage()
        assert "was killed by SIGKILL" in record.getMessage()
        assert backend.take_counts() is None
        assert isinstance(backend._pool, TraversalPool)
        assert len(backend._pool.pids) == 1
        assert_same(backend.collect(SPEC, weights), expected)
    finally:
        backend.close()


def test_a_server_that_dies_in_the_middle_of_an_evaluation_is_done_without(
    small_config: Made,
) -> None:
    config = small_config(SERVER, LOCALLY)
    networks = some_networks(config, 3)
    backend = TraversalBackend(config)
    features_BE = some_features(config, 32)
    wanted = [pack_network(network)(features_BE) for network in networks]
    asked: list[int] = []

    def work(answers: Any) -> list[np.ndarray]:
        asked.append(len(answers))
        first = answers[0](features_BE).copy()  # the next answer takes its place
        if backend._server is not None:
            kill(backend._server.pid)
        return [first, *(answer(features_BE).copy() for answer in answers[1:])]

    try:
        found = backend.answered(weights_of(networks), work)
    finally:
        backend.close()
    assert asked == [3, 3]  # from its start again
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
def test_a_run_that_lost_its_server_stops_clearly(small_config: Made) -> None:
    backend = TraversalBackend(small_config(SERVER, "traversal.num_workers=1"))
    weights = weights_of(some_networks(small_config()))
    try:
        backend.collect(SPEC, weights)
        assert backend._server is not None
        assert backend._pool is not None
        kill(backend._server.pid)
        with pytest.raises(WorkerLostServer, match="the inference server has ended, often for"):
            backend._pool.collect(SPEC)
        with pytest.raises(InferenceServerGone, match="was killed by SIGKILL"):
            backend.collect(SPEC, weights)
    finally:
        backend.close()


def test_a_served_run_writes_the_metrics_of_a_local_one_and_what_was_served(
    small_config: Made, tmp_path: Path
) -> None:
    lines = {}
    for name in ("local", "server"):
        (tmp_path / name).mkdir()
        config = small_config(f"run.out={tmp_path / name}", f"traversal.inference_backend={name}")
        with DeepCFRTrainer(config) as trainer:
            trainer.run_iteration()
        (lines[name],) = read_metrics(tmp_path / name / "metrics.jsonl")
    assert "inference_server" not in lines["local"]
    assert without_times(lines["server"]) == without_times(lines["local"])
    served = lines["server"]["inference_server"]
    assert served["graphs"] == {}
    # 16 lanes a forward; evaluation asks as well.
    assert served["forwards"]["16"] > 20
    assert served["requests"] == sum(served["forwards"].values())
    assert served["rows"] == sum(int(n) * count for n, count in served["forwards"].items())
    assert served["rows"] > lines["server"]["infostates"]


@pytest.mark.parametrize(
    "overrides", [["traversal.num_workers=0"], ["traversal.num_workers=2", SERVER]]
)
def test_a_cluster_needs_pieces_and_networks_of_its_own(
    small_config: Made, overrides: list[str]
) -> None:
    with pytest.raises(ConfigError, match=r"backend is ray with .*; expected at least 1 and local"):
        small_config("traversal.backend=ray", *overrides)
