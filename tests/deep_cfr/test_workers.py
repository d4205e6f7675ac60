import copy
import dataclasses
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from coolrl_lost_cities.games.classic.deep_cfr import processes
from coolrl_lost_cities.games.classic.deep_cfr.config import (
    DeepCFRConfig,
    build_rules,
    load_config,
)
from coolrl_lost_cities.games.classic.deep_cfr.inference_server import InferenceServer
from coolrl_lost_cities.games.classic.deep_cfr.networks import Network, build_network
from coolrl_lost_cities.games.classic.deep_cfr.trainer import DeepCFRTrainer
from coolrl_lost_cities.games.classic.deep_cfr.traversal import (
    TraversalSamples,
    TraversalSpec,
    run_traversals,
)
from coolrl_lost_cities.games.classic.deep_cfr.workers import (
    TraversalPool,
    WorkerDied,
    WorkerFailed,
    local_forward,
    split_spec,
    traversal_advantages,
)

SMALL = [
    "rules.num_colors=3",
    "rules.num_ranks=4",
    "rules.hand_size=3",
    "rules.max_steps=60",
    "network.hidden_size=16",
    "network.num_layers=2",
]
FROZEN = "traversal.opponent=frozen"
SPEC = TraversalSpec(
    seed=3, iteration=2, traverser=1, first_id=5, num_traversals=21, lanes=8, exploration=0.4
)


def small_config(*overrides: str) -> DeepCFRConfig:
    return load_config(None, [*SMALL, *overrides])


def some_networks(config: DeepCFRConfig, count: int = 2) -> list[Network]:
    generator = torch.Generator().manual_seed(1)
    return [build_network(config, generator) for _ in range(count)]


def payload(networks: list[Network]) -> dict:
    return {"networks": [network.state_dict() for network in networks]}


def in_process(config: DeepCFRConfig, networks: list[Network]) -> TraversalSamples:
    ask = traversal_advantages(config, SPEC.traverser, local_forward(networks))
    return run_traversals(build_rules(config.rules), SPEC, ask)


def assert_same(left: TraversalSamples, right: TraversalSamples) -> None:
    assert left.counters == right.counters
    for part in ("advantage", "strategy"):
        ours, theirs = getattr(left, part), getattr(right, part)
        for field in dataclasses.fields(ours):
            mine, other = getattr(ours, field.name), getattr(theirs, field.name)
            assert mine.dtype == other.dtype
            np.testing.assert_array_equal(mine, other, err_msg=f"{part}.{field.name}")


@pytest.mark.parametrize("parts", [1, 2, 4, 21, 40])
def test_ids_are_split_into_contiguous_ranges(parts):
    chunks = split_spec(SPEC, parts)
    ids = [i for c in chunks for i in range(c.first_id, c.first_id + c.num_traversals)]
    assert ids == list(range(5, 26))
    sizes = [chunk.num_traversals for chunk in chunks]
    assert len(chunks) == min(parts, 21)
    assert max(sizes) - min(sizes) <= 1
    assert {dataclasses.replace(c, first_id=5, num_traversals=21) for c in chunks} == {SPEC}


@pytest.fixture(scope="module")
def one_worker() -> Iterator[TraversalPool]:
    """One local worker, which would also hold a frozen opponent."""
    with TraversalPool(small_config("traversal.num_workers=1", FROZEN)) as pool:
        yield pool


def test_samples_are_the_same_with_one_worker(one_worker):
    networks = some_networks(small_config())
    one_worker.push_weights(payload(networks * 2))  # the snapshots are the current networks
    expected = in_process(small_config(), networks)
    assert len(expected.advantage.weights_S) > 100
    assert_same(one_worker.collect(SPEC), expected)


@pytest.mark.slow
def test_samples_are_the_same_from_a_server_with_any_number_of_workers():
    config = small_config("traversal.inference_backend=server")
    networks = some_networks(config)
    expected = in_process(config, networks)
    server = InferenceServer(config, 4)
    try:
        server.push_weights([network.state_dict() for network in networks])
        ask = traversal_advantages(config, SPEC.traverser, server.clients[0].forward)
        assert_same(run_traversals(build_rules(config.rules), SPEC, ask), expected)
        for clients in (server.clients[1:2], server.clients[2:4]):
            with TraversalPool(
                small_config(f"traversal.num_workers={len(clients)}"), clients
            ) as pool:
                assert_same(pool.collect(SPEC), expected)
    finally:
        server.close()


def test_a_frozen_opponent_plays_by_its_snapshot(one_worker):
    networks = some_networks(small_config(), 4)
    current, snapshots = networks[:2], networks[2:]
    # The traverser is player 1, so only its current network and player 0's snapshot are asked.
    expected = in_process(small_config(), [snapshots[0], current[1]])
    assert_same(in_process(small_config(FROZEN), networks), expected)
    one_worker.push_weights(payload(networks))
    assert_same(one_worker.collect(SPEC), expected)


def test_workers_live_on_and_take_new_weights(one_worker):
    networks = some_networks(small_config(), 4)
    pids = one_worker.pids
    one_worker.push_weights(payload(networks[:2] * 2))
    first = copy.deepcopy(one_worker.collect(SPEC))
    assert_same(one_worker.collect(SPEC), first)
    expected = in_process(small_config(), networks[2:])
    one_worker.push_weights(payload(networks[2:] * 2))
    for network in networks:  # what the owner does afterwards is not seen by the workers
        network.reset_parameters(torch.Generator().manual_seed(0))
    assert_same(one_worker.collect(SPEC), expected)
    assert not np.array_equal(first.strategy.values_SL, expected.strategy.values_SL)
    assert one_worker.pids == pids
    assert not any(parameter.is_shared() for net in networks for parameter in net.parameters())


def test_a_failing_worker_shows_its_traceback_and_lives(one_worker):
    networks = some_networks(small_config())
    one_worker.push_weights(payload(networks * 2))
    prefixed = [
        {f"_orig_mod.{key}": value for key, value in network.state_dict().items()}
        for network in networks
    ]
    with pytest.raises(WorkerFailed, match=r"worker 0 failed:\nTraceback") as caught:
        one_worker.push_weights({"networks": prefixed * 2})
    assert "_orig_mod.layers.0.weight" in caught.value.traceback
    assert_same(one_worker.collect(SPEC), in_process(small_config(), networks))


def test_workers_are_not_stopped_by_the_terminals_ctrl_c(one_worker):
    os.kill(one_worker.pids[0], signal.SIGINT)
    networks = some_networks(small_config())
    one_worker.push_weights(payload(networks * 2))
    assert_same(one_worker.collect(SPEC), in_process(small_config(), networks))


@pytest.mark.slow
def test_two_workers_return_the_same_samples_until_one_is_killed():
    config = small_config("traversal.num_workers=2")
    networks = some_networks(config)
    with TraversalPool(config) as pool:
        pid = pool.pids[1]
        os.kill(pid, signal.SIGINT)  # one that still starts does not mind either
        pool.push_weights(payload(networks))
        assert_same(pool.collect(SPEC), in_process(config, networks))
        os.kill(pid, signal.SIGSTOP)  # so that it cannot answer before it dies
        killer = threading.Timer(0.5, os.kill, (pid, signal.SIGKILL))
        killer.start()
        with pytest.raises(WorkerDied) as caught:
            pool.collect(SPEC)
        killer.join()
        assert (caught.value.index, caught.value.pid) == (1, pid)
        assert str(caught.value).startswith(
            f"traversal worker 1 (process {pid}) was killed by SIGKILL, often for want of memory; "
        )
        with pytest.raises(WorkerDied, match=r"worker 1 .* was killed by SIGKILL"):
            pool.push_weights(payload(networks))
        survivor = pool.pids[0]
        assert os.path.exists(f"/proc/{survivor}")
    assert not os.path.exists(f"/proc/{survivor}")


@pytest.mark.slow
def test_a_killed_owner_leaves_no_worker_no_memory_and_no_words(tmp_path):
    """The owner dies while its workers play: nobody closes anything or tells them to stop."""
    program = """
        import dataclasses, sys
        from coolrl_lost_cities.games.classic.deep_cfr.config import load_config
        from coolrl_lost_cities.games.classic.deep_cfr.networks import build_network
        from coolrl_lost_cities.games.classic.deep_cfr.traversal import TraversalSpec
        from coolrl_lost_cities.games.classic.deep_cfr.workers import TraversalPool

        if __name__ == "__main__":
            config = load_config(None, ["network.hidden_size=16", "traversal.num_workers=2"])
            pool = TraversalPool(config)
            network = build_network(config)
            pool.push_weights({"networks": [network.state_dict()] * 2})
            spec = TraversalSpec(
                seed=3, iteration=1, traverser=0, first_id=0, num_traversals=64, lanes=64,
                exploration=0.5,
            )
            pool.collect(spec)
            print(*pool.pids, flush=True)
            pool.collect(dataclasses.replace(spec, num_traversals=1_000_000))
    """
    script = tmp_path / "owner.py"
    script.write_text(textwrap.dedent(program))
    owner = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    pids = [int(word) for word in owner.stdout.readline().split()]
    assert len(pids) == 2, owner.communicate()[1]
    for pid in pids:
        links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        assert any("memfd:lost-cities" in link for link in links)
        assert not any(link.startswith("/dev/shm") for link in links)
    owner.kill()
    # The pipes of the owner's output close when the last process that holds them is gone.
    words = owner.communicate(timeout=60)
    assert words == ("", "")
    deadline = time.monotonic() + 60
    while any(os.path.exists(f"/proc/{pid}") for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def test_a_worker_without_the_weights_that_are_meant_says_so(one_worker, monkeypatch):
    one_worker.push_weights(payload(some_networks(small_config()) * 2))
    monkeypatch.setattr(one_worker, "_version", one_worker._version + 1)
    with pytest.raises(WorkerFailed, match=r"has weights \d+, expected \d+"):
        one_worker.collect(SPEC)


def test_samples_lie_where_those_before_lay(one_worker):
    networks = some_networks(small_config())
    one_worker.push_weights(payload(networks * 2))
    larger = one_worker.collect(dataclasses.replace(SPEC, num_traversals=40))
    found = one_worker.collect(SPEC)
    assert_same(found, in_process(small_config(), networks))
    for part in ("advantage", "strategy"):
        for field in dataclasses.fields(found.advantage):
            old, new = (getattr(getattr(one, part), field.name) for one in (larger, found))
            assert np.shares_memory(old, new)


def test_closing_ends_a_worker_that_does_not_follow(monkeypatch):
    monkeypatch.setattr(processes, "_STOP_S", 0.1)
    pool = TraversalPool(small_config("traversal.num_workers=1"))
    pid = pool.pids[0]
    os.kill(pid, signal.SIGSTOP)
    pool.close()
    assert not os.path.exists(f"/proc/{pid}")
    pool.close()


def test_a_pool_needs_one_client_a_worker():
    with pytest.raises(ValueError, match="got 0 clients, expected one a worker: 2"):
        TraversalPool(small_config("traversal.num_workers=2"), [])


def test_what_a_trainer_sends_is_plain_and_its_own(tmp_path):
    config = small_config(FROZEN, f"run.out={tmp_path}")
    with DeepCFRTrainer(config) as trainer:
        trainer._freeze_opponent()
        sent = trainer._worker_payload()
        live = [network.state_dict() for network in trainer._advantage_networks] * 2
    assert len(sent["networks"]) == 4
    for state_dict, own in zip(sent["networks"], live, strict=True):
        assert list(state_dict) == [
            f"layers.{i}.{k}" for i in (0, 2, 4) for k in ("weight", "bias")
        ]
        for name, tensor in state_dict.items():
            assert torch.equal(tensor, own[name])
            assert tensor.data_ptr() != own[name].data_ptr()
            assert tensor.device.type == "cpu"
            assert not tensor.requires_grad
    assert b"_orig_mod" not in processes.pack_weights(sent)
    unpacked = processes.unpack_weights(processes.pack_weights(sent))
    assert torch.equal(unpacked["networks"][3]["layers.4.bias"], live[1]["layers.4.bias"])
