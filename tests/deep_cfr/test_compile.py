"""torch.compile at run time only: nothing of it in what a run stores or sends elsewhere."""

import itertools
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters

from coolrl_lost_cities.games.classic.deep_cfr.checkpoints import load_checkpoint
from coolrl_lost_cities.games.classic.deep_cfr.config import DeepCFRConfig
from coolrl_lost_cities.games.classic.deep_cfr.inference_server import InferenceServer
from coolrl_lost_cities.games.classic.deep_cfr.networks import build_network, forward_rows
from coolrl_lost_cities.games.classic.deep_cfr.recompiles import counts_of_metrics
from coolrl_lost_cities.games.classic.deep_cfr.trainer import DeepCFRTrainer, _clean_state_dict

ON = "compile.trainer.enabled=true"
STEP = "compile.trainer.scope=step"
SETTINGS = {"off": [], "networks": [ON], "step": [ON, STEP]}
ROUND = ("off", "networks", "step", "off", "step", "networks", "off")  # each after each other once
Made = Callable[..., DeepCFRConfig]
KINDS = {
    "mlp": [],
    "color_shared": [
        "network.kind=color_shared",
        "network.color_attention_layers=1",
        "network.color_attention_heads=2",
    ],
}


@pytest.fixture(autouse=True)
def _one_thread_and_nothing_compiled() -> None:
    torch.set_num_threads(1)  # bits repeat on one thread only
    torch._dynamo.reset()


@pytest.fixture
def config_in(tiny_config: Made, tmp_path: Path) -> Made:
    """Return what makes the configuration of a run in a folder of that name."""

    def made(name: str, *overrides: str) -> DeepCFRConfig:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        return tiny_config(f"run.out={folder}", *overrides)

    return made


def names(state: Any) -> list[str]:
    """Return every key of nested containers."""
    if isinstance(state, dict):
        return [*map(str, state), *(name for part in state.values() for name in names(part))]
    return [name for part in state for name in names(part)] if isinstance(state, list) else []


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert list(one) == list(other)
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("kind", KINDS)
def test_a_compiled_networks_state_loads_into_a_plain_one(tiny_config: Made, kind: str) -> None:
    config = tiny_config(*KINDS[kind])
    compiled = torch.compile(build_network(config, torch.Generator().manual_seed(1)))
    assert all(name.startswith("_orig_mod.") for name in compiled.state_dict())
    clean = _clean_state_dict(compiled.state_dict())
    plain = build_network(config, torch.Generator().manual_seed(2))
    plain.load_state_dict(clean)
    assert_same(plain.state_dict(), clean)


@pytest.mark.parametrize("kind", KINDS)
def test_a_plain_networks_state_loads_into_a_compiled_one(tiny_config: Made, kind: str) -> None:
    config = tiny_config(*KINDS[kind])
    plain = build_network(config, torch.Generator().manual_seed(1))
    compiled = torch.compile(build_network(config, torch.Generator().manual_seed(2)))
    getattr(compiled, "_orig_mod", compiled).load_state_dict(plain.state_dict())
    assert_same(_clean_state_dict(compiled.state_dict()), plain.state_dict())


def test_cleaning_takes_the_prefix_off_the_front_only() -> None:
    tensor = torch.zeros(1)
    state_dict = {"_orig_mod.a": tensor, "b._orig_mod.c": tensor, "d": tensor}
    assert list(_clean_state_dict(state_dict)) == ["a", "b._orig_mod.c", "d"]


def test_a_round_has_every_pair_of_settings() -> None:
    assert sorted(pairwise(ROUND)) == sorted(itertools.permutations(SETTINGS, 2))


# In bf16 every setting writes one checkpoint and goes on from one.
@pytest.mark.parametrize(("precision", "settings"), [("fp32", ROUND), ("bf16", ROUND[:4])])
def test_a_run_resumes_with_any_other_setting(
    config_in: Made, tmp_path: Path, precision: str, settings: tuple[str, ...]
) -> None:
    latest = tmp_path / "run" / "latest.pt"
    stored: dict[str, Any] = {}
    for iteration, name in enumerate(settings, start=1):
        before = counters["stats"]["unique_graphs"]
        config = config_in(
            "run", *SETTINGS[name], f"run.precision={precision}", "network.shared_seats=true"
        )
        with DeepCFRTrainer(config, resume_from=latest if stored else None) as trainer:
            if stored:
                networks = [*trainer._advantage_networks, trainer._strategy_network]
                wanted = [*stored["advantage_networks"], stored["strategy_network"]]
                for network, state_dict in zip(networks, wanted, strict=True):
                    assert_same(_clean_state_dict(network.state_dict()), state_dict)
            metrics = trainer.run_iteration()
            assert trainer.iteration == iteration
        compiled = counts_of_metrics(metrics)
        assert (compiled is None) is (name == "off")
        assert compiled is None or compiled.graphs > 0
        assert (counters["stats"]["unique_graphs"] > before) is (name != "off")
        stored = load_checkpoint(latest)
        assert not [key for key in names(stored) if "_orig_mod" in key]
        torch._dynamo.reset()  # so that the next one compiles as a process of its own would


def test_a_warm_start_reaches_the_compiled_networks(config_in: Made, tmp_path: Path) -> None:
    with DeepCFRTrainer(config_in("first", "run.seed=5")) as trainer:
        trainer.save(tmp_path / "first" / "latest.pt")
        wanted = trainer._strategy_network.state_dict()
    start = f"run.warm_start={tmp_path / 'first' / 'latest.pt'}"
    with DeepCFRTrainer(config_in("second", start, ON)) as trainer:
        assert_same(_clean_state_dict(trainer._strategy_network.state_dict()), wanted)


@pytest.mark.parametrize("opponent", ["current", "frozen"])
@pytest.mark.parametrize("setting", ["networks", "step"])
def test_what_leaves_the_trainer_has_plain_keys(
    config_in: Made, setting: str, opponent: str
) -> None:
    config = config_in("run", *SETTINGS[setting], f"traversal.opponent={opponent}")
    plain = list(build_network(config).state_dict())
    with DeepCFRTrainer(config) as trainer:
        trainer._freeze_opponent()
        payload = trainer._worker_payload()["networks"]
        snapshot = trainer._evaluation_snapshot()
    assert len(payload) == (4 if opponent == "frozen" else 2)
    for state_dict in [*payload, snapshot["average"], *snapshot["current"]]:
        assert list(state_dict) == plain


@pytest.mark.parametrize("setting", ["networks", "step"])
def test_a_server_is_pushed_plain_weights(config_in: Made, setting: str) -> None:
    config = config_in("run", *SETTINGS[setting], "traversal.inference_backend=server")
    with DeepCFRTrainer(config) as trainer:
        pushed: list[Any] = []
        server = trainer._backend._server
        assert server is not None
        push = server.push_weights

        def push_and_note(state_dicts: Any) -> int:
            pushed.extend(state_dicts)
            return push(state_dicts)

        server.push_weights = push_and_note
        trainer.run_iteration()  # the server refuses keys that do not fit
    assert len(pushed) == 4
    assert all(list(one) == list(build_network(config).state_dict()) for one in pushed)


@pytest.mark.slow
def test_a_compiled_served_model_answers_like_a_plain_one_after_every_push(
    config_in: Made,
) -> None:
    config = config_in("run", "compile.inference_server.enabled=true")
    server = InferenceServer(config, 1)
    try:
        for seed in (1, 2):
            network = build_network(config, torch.Generator().manual_seed(seed))
            server.push_weights([network.state_dict()])
            for rows in (3, 8):
                features_BE = torch.randint(
                    0, 3, (rows, network.feature_scale.numel()), dtype=torch.uint8
                ).numpy()
                answered = torch.from_numpy(server.clients[0].forward(0, features_BE))
                wanted = torch.from_numpy(forward_rows(network, features_BE))
                torch.testing.assert_close(answered, wanted, rtol=1e-4, atol=1e-5)
    finally:
        server.close()


@pytest.mark.parametrize(
    ("overrides", "warns"),
    [
        ([], True),
        (["network.num_layers=5"], True),
        (["network.num_layers=6"], False),
        (["network.hidden_size=1024"], False),
        ([*KINDS["color_shared"]], True),
        ([*KINDS["color_shared"], "network.color_attention_layers=2"], False),
    ],
)
def test_below_the_threshold_a_run_is_warned(
    config_in: Made, caplog: pytest.LogCaptureFixture, overrides: list[str], warns: bool
) -> None:
    with caplog.at_level(logging.WARNING):
        DeepCFRTrainer(config_in("run", ON, *overrides)).close()
    found = [r for r in caplog.records if "compile.trainer.enabled" in r.getMessage()]
    assert bool(found) is warns


@pytest.mark.parametrize("switch", [ON, "compile.inference_server.enabled=true"])
def test_without_a_cpp_compiler_a_run_that_compiles_is_refused(
    tiny_run: tuple[str, ...], tmp_path: Path, switch: str
) -> None:
    program = "from coolrl_lost_cities.games.classic.deep_cfr.cli import main; main()"
    out = tmp_path / "run"
    settings = [part for item in (*tiny_run, f"run.out={out}", switch) for part in ("--set", item)]
    done = subprocess.run(
        [sys.executable, "-c", program, "train", *settings],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PATH": "/nowhere", "CXX": "/nowhere/g++"},
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "error: no working C++ compiler" in line
    assert "apt install g++" in line
    assert not out.exists()
