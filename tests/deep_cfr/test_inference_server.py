import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from coolrl_lost_cities.games.classic.deep_cfr.config import (
    DeepCFRConfig,
    build_rules,
    load_config,
)
from coolrl_lost_cities.games.classic.deep_cfr.encoding import encoding_size
from coolrl_lost_cities.games.classic.deep_cfr.inference import pack_network
from coolrl_lost_cities.games.classic.deep_cfr.inference_server import (
    InferenceServer,
    InferenceServerError,
    InferenceServerGone,
)
from coolrl_lost_cities.games.classic.deep_cfr.networks import (
    Network,
    build_network,
)
from coolrl_lost_cities.games.classic.deep_cfr.served_networks import (
    BatchCount,
    joined_requests,
    padded_to_power_of_two,
)


def config_of(*overrides: str) -> DeepCFRConfig:
    return load_config(None, ["network.hidden_size=48", *overrides])


def some_networks(config: DeepCFRConfig, count: int = 2) -> list[Network]:
    generator = torch.Generator().manual_seed(1)
    return [build_network(config, generator) for _ in range(count)]


def some_features(config: DeepCFRConfig, rows: int) -> np.ndarray:
    size = encoding_size(build_rules(config.rules))
    return np.random.default_rng(rows).integers(0, 9, (rows, size), np.uint8)


def weights_of(networks: list[Network]) -> list[dict[str, torch.Tensor]]:
    return [network.state_dict() for network in networks]


def assert_same_bits(
    server: InferenceServer, config: DeepCFRConfig, networks: list[Network]
) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for rows in (1, 7, 64, 1024, 4112):  # the last is more than one request may hold
            features_BE = some_features(config, rows)
            for index, network in enumerate(networks):
                for client in server.clients:
                    answer_BA = client.forward(index, features_BE)
                    assert answer_BA.dtype == np.float32
                    np.testing.assert_array_equal(answer_BA, pack_network(network)(features_BE))
    finally:
        torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def server() -> Iterator[InferenceServer]:
    server = InferenceServer(config_of(), 6)
    yield server
    server.close()
    assert not os.path.exists(f"/proc/{server.pid}")


def test_answers_have_the_bits_of_a_local_forward(server):
    networks = some_networks(config_of())
    server.push_weights(weights_of(networks))
    assert_same_bits(server, config_of(), networks)


@pytest.mark.slow
def test_answers_have_the_bits_of_a_local_forward_with_attention():
    config = config_of("network.kind=color_shared", "network.color_attention_layers=1")
    networks = some_networks(config)
    server = InferenceServer(config, 1)
    try:
        assert server.push_weights(weights_of(networks)) == 1
        assert_same_bits(server, config, networks)
    finally:
        server.close()


def test_a_push_is_seen_by_the_next_request_and_copies(server):
    networks = some_networks(config_of(), 3)
    client = server.clients[0]
    features_BE = some_features(config_of(), 5)
    expected = [pack_network(network)(features_BE) for network in networks]
    version = server.push_weights(weights_of(networks[:1]))
    np.testing.assert_array_equal(client.forward(0, features_BE), expected[0])
    assert server.push_weights(weights_of(networks[1:])) == version + 1
    for network in networks:
        network.reset_parameters(torch.Generator().manual_seed(9))
    np.testing.assert_array_equal(client.forward(0, features_BE), expected[1])
    np.testing.assert_array_equal(client.forward(1, features_BE), expected[2])
    assert client.version == version + 1


def test_bad_requests_and_pushes_are_answered_and_change_nothing(server):
    networks = some_networks(config_of())
    client = server.clients[0]
    features_BE = some_features(config_of(), 5)
    version = server.push_weights(weights_of(networks))
    prefixed = [
        {f"_orig_mod.{key}": value for key, value in state_dict.items()}
        for state_dict in weights_of(networks)
    ]
    with pytest.raises(InferenceServerError, match=r"_orig_mod\.layers\.0\.weight"):
        server.push_weights(prefixed)
    with pytest.raises(InferenceServerError, match="IndexError"):
        client.forward(2, features_BE)
    with pytest.raises(InferenceServerError, match="network 0 takes 445 features, got 444 a row"):
        client.forward(0, features_BE[:, :-1])
    with pytest.raises(InferenceServerError, match="a request has float32 features"):
        client.forward(0, features_BE.astype(np.float32))
    np.testing.assert_array_equal(
        client.forward(1, features_BE), pack_network(networks[1])(features_BE)
    )
    assert server.push_weights(weights_of(networks)) == version + 1


def test_a_silent_or_killed_server_is_noticed_by_everybody():
    config = config_of()
    features_BE = some_features(config, 5)
    networks = some_networks(config)
    server = InferenceServer(config, 3)
    leaving, silent, lost = server.clients
    try:
        server.push_weights(weights_of(networks))
        leaving.close()
        np.testing.assert_array_equal(
            silent.forward(1, features_BE), pack_network(networks[1])(features_BE)
        )
        assert server.pid is not None
        os.kill(server.pid, signal.SIGSTOP)
        silent._timeout_s = 0.2
        with pytest.raises(InferenceServerError, match=r"has not answered for 0\.2 s; raise infer"):
            silent.forward(0, features_BE)
        with pytest.raises(InferenceServerGone):  # no late answer is taken
            silent.forward(0, features_BE)
        os.kill(server.pid, signal.SIGKILL)
        with pytest.raises(InferenceServerGone, match="the inference server has ended, often"):
            lost.forward(0, features_BE)
        with pytest.raises(InferenceServerGone, match="the inference server was killed by SIGKILL"):
            server.push_weights(weights_of(networks))
    finally:
        server.close()


def test_those_who_wait_together_are_answered_by_one_forward_with_the_bits_of_their_own(server):
    networks = some_networks(config_of())
    requests = [(0, 2048), (0, 2032), (1, 16), (0, 48), (0, 5), (1, 16)]
    features = [some_features(config_of(), rows) for _, rows in requests]
    server.push_weights(weights_of(networks))
    server.take_counts()
    os.kill(server.pid, signal.SIGSTOP)  # until all are waiting
    with ThreadPoolExecutor(len(requests)) as pool:
        answers = []
        for client, (network, _), rows_BE in zip(server.clients, requests, features, strict=True):
            answers.append(pool.submit(client.forward, network, rows_BE))
            time.sleep(0.05)  # so that they wait in this order
        os.kill(server.pid, signal.SIGCONT)
        for answer, (network, _), rows_BE in zip(answers, requests, features, strict=True):
            wanted_BA = pack_network(networks[network])(rows_BE)
            np.testing.assert_array_equal(answer.result(), wanted_BA)
    counts = server.take_counts()
    assert (counts.requests, counts.rows) == (6, 4165)
    # The fourth has no room in the first forward, and five rows are no block.
    assert counts.batches == {rows: BatchCount(1) for rows in (5, 32, 48, 4080)}
    assert counts.policy_network_seconds > 0
    assert server.take_counts().requests == 0


@pytest.mark.parametrize(
    ("numbers", "rows", "chosen"),
    [
        ([1], [64], [0]),
        ([0, 0, 0], [16, 32, 16], [0, 1, 2]),
        ([0, 1, 0], [16, 16, 16], [0, 2]),
        ([0, 0, 0], [48, 32, 16], [0, 2]),  # the second does not fit, the third does
        ([0, 0], [20, 16], [0]),  # no whole blocks: alone
        ([0, 0], [16, 20], [0]),
        ([0, 0], [80, 16], [0]),  # the oldest is answered whatever its size
    ],
)
def test_requests_that_are_answered_together(numbers, rows, chosen):
    assert joined_requests(numbers, rows, 64) == chosen


@pytest.mark.parametrize(
    ("rows", "padded"), [(1, 16), (16, 16), (17, 32), (64, 64), (1000, 1024), (1025, 2048)]
)
def test_batches_are_padded_to_powers_of_two(rows, padded):
    features_BE = some_features(config_of(), rows)
    padded_BE = padded_to_power_of_two(features_BE)
    assert padded_BE.shape == (padded, features_BE.shape[1])
    np.testing.assert_array_equal(padded_BE[:rows], features_BE)
    assert not padded_BE[rows:].any()


@pytest.mark.slow
def test_the_server_does_not_outlive_a_killed_owner(tmp_path):
    program = """
        import sys, time
        from pathlib import Path
        from coolrl_lost_cities.games.classic.deep_cfr.config import load_config
        from coolrl_lost_cities.games.classic.deep_cfr.inference_server import InferenceServer
        from coolrl_lost_cities.games.classic.deep_cfr.networks import build_network
        if __name__ == "__main__":
            config = load_config(None, ["network.hidden_size=8"])
            server = InferenceServer(config, 1)
            server.push_weights([build_network(config).state_dict()])
            print(server.pid, flush=True)
            time.sleep(600)
    """
    script = tmp_path / "owner.py"
    script.write_text(textwrap.dedent(program))
    owner = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    assert os.path.exists(f"/proc/{pid}")
    owner.kill()
    owner.wait()
    owner.stdout.close()
    assert is_gone(pid)


def is_gone(pid: int) -> bool:
    """Wait up to ten seconds; a process nobody reaps counts as gone once it is a zombie."""
    for _ in range(200):
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False
