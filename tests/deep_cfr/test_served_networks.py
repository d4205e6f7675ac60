"""What a server does with networks: compiled once, few graphs, and every one of them counted."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import torch
from torch._dynamo.exc import FailOnRecompileLimitHit

from coolrl_lost_cities.games.classic.deep_cfr import served_networks
from coolrl_lost_cities.games.classic.deep_cfr.config import (
    ConfigError,
    DeepCFRConfig,
    build_rules,
    load_config,
)
from coolrl_lost_cities.games.classic.deep_cfr.encoding import encoding_size
from coolrl_lost_cities.games.classic.deep_cfr.networks import (
    Network,
    build_network,
    forward_rows,
)
from coolrl_lost_cities.games.classic.deep_cfr.served_networks import (
    BatchCount,
    ServedNetworks,
    ServerCounts,
)

ON = "compile.inference_server.enabled=true"
STATIC = "compile.inference_server.dynamic=false"
BUCKETS = "compile.inference_server.buckets=powers_of_two"


@pytest.fixture(autouse=True)
def _as_in_a_new_process() -> Iterator[None]:
    torch.set_num_threads(1)
    torch._dynamo.reset()
    with torch._dynamo.config.patch(recompile_limit=8, fail_on_recompile_limit_hit=False):
        yield
    torch._dynamo.reset()


def small_config(*overrides: str) -> DeepCFRConfig:
    small = ["rules.num_colors=2", "rules.num_ranks=3", "rules.hand_size=2", "rules.num_wagers=1"]
    network = ["network.hidden_size=16", "network.num_layers=2"]
    return load_config(None, [*small, *network, *overrides])


def some_networks(seed: int) -> list[Network]:
    generator = torch.Generator().manual_seed(seed)
    return [build_network(small_config(), generator) for _ in range(2)]


def some_features(rows: int) -> np.ndarray:
    size = encoding_size(build_rules(small_config().rules))
    return np.random.default_rng(rows).integers(0, 3, (rows, size), np.uint8)


def counts_after(
    served: ServedNetworks, networks: Sequence[Network], sizes: Sequence[int]
) -> ServerCounts:
    """Push, ask every network for batches of these sizes, and hold the answers against eager."""
    served.load(served.version + 1, [network.state_dict() for network in networks])
    for rows in sizes:
        for number, network in enumerate(networks):
            features_BE = some_features(rows)
            np.testing.assert_allclose(
                served.forward(number, features_BE),
                forward_rows(network, features_BE),
                rtol=1e-4,
                atol=1e-5,
            )
    return served.take_counts()


@pytest.mark.slow
def test_dynamic_shapes_take_few_graphs_and_a_push_none() -> None:
    served = ServedNetworks(small_config(ON))
    counts = counts_after(served, some_networks(1), sizes := [16, 3, 40, 100, 7])
    assert {rows: batch.forwards for rows, batch in counts.batches.items()} == dict.fromkeys(
        sorted(sizes), 2
    )
    assert 1 <= sum(batch.graphs for batch in counts.batches.values()) <= 2
    assert counts.batches[16].graphs >= 1
    counts = counts_after(served, some_networks(2), sizes)
    assert sum(batch.graphs for batch in counts.batches.values()) == 0
    assert served.version == 2


@pytest.mark.slow
def test_buckets_take_one_graph_each() -> None:
    served = ServedNetworks(small_config(ON, STATIC, BUCKETS))
    served.load(1, [network.state_dict() for network in some_networks(1)])
    served.warm_up(16)
    assert served.take_counts().batches == {16: BatchCount(forwards=1, graphs=1)}
    counts = counts_after(served, some_networks(2), [3, 16, 17, 30, 32])
    assert counts.batches == {16: BatchCount(4, 0), 32: BatchCount(6, 1)}
    assert (counts.requests, counts.rows) == (10, 2 * (3 + 16 + 17 + 30 + 32))


@pytest.mark.slow
def test_past_the_limit_a_forward_fails_instead_of_going_on_slowly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(served_networks, "_RECOMPILE_LIMIT", 1)
    served = ServedNetworks(small_config(ON, STATIC))
    counts_after(served, some_networks(1), [16])
    with pytest.raises(FailOnRecompileLimitHit):
        served.forward(0, some_features(32))


def test_where_nothing_is_compiled_no_graph_is_counted_and_no_row_is_added() -> None:
    served = ServedNetworks(small_config(BUCKETS))
    counts = counts_after(served, some_networks(1), [3, 17])
    assert counts.batches == {3: BatchCount(2), 17: BatchCount(2)}
    assert counts.policy_network_seconds > 0


def test_fixed_shapes_are_asked_of_a_mode_that_records_them() -> None:
    recorded = "compile.inference_server.mode=reduce-overhead"
    with pytest.raises(ConfigError, match="expected buckets: powers_of_two with it"):
        small_config(recorded)
    assert small_config(recorded, BUCKETS).compile.inference_server.mode == "reduce-overhead"
