"""A run on every device that this machine has: the CPU always, a GPU where there is one."""

from pathlib import Path

import numpy as np
import pytest
import torch

from coolrl_lost_cities.games.classic.deep_cfr.checkpoints import load_checkpoint
from coolrl_lost_cities.games.classic.deep_cfr.config import (
    DeepCFRConfig,
    Precision,
    build_rules,
    load_config,
)
from coolrl_lost_cities.games.classic.deep_cfr.encoding import encoding_size
from coolrl_lost_cities.games.classic.deep_cfr.inference import pack_network
from coolrl_lost_cities.games.classic.deep_cfr.networks import build_network, forward_rows
from coolrl_lost_cities.games.classic.deep_cfr.trainer import DeepCFRTrainer

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
SMALL = [
    "rules.num_colors=3",
    "rules.num_ranks=4",
    "rules.hand_size=3",
    "rules.max_steps=40",
    "network.hidden_size=16",
    "network.num_layers=2",
    "traversal.traversals_per_iteration=16",
    "traversal.lanes=16",
    "optimization.advantage_batch_size=32",
    "optimization.strategy_batch_size=32",
    "optimization.advantage_steps=3",
    "optimization.strategy_steps=3",
    "memory.advantage_capacity=500",
    "memory.strategy_capacity=500",
    "evaluation.eval_every=1",
    "evaluation.games=4",
    "evaluation.opponents=[random]",
    "checkpoint.save_latest=false",
]


def config_on(device: str, folder: Path, *overrides: str) -> DeepCFRConfig:
    folder.mkdir(exist_ok=True)
    return load_config(None, [*SMALL, f"run.device={device}", f"run.out={folder}", *overrides])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("backend", ["local", "server"])
def test_a_run_trains_evaluates_and_goes_on(device: str, backend: str, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    config = config_on(device, tmp_path / "run", f"traversal.inference_backend={backend}")
    with DeepCFRTrainer(config) as trainer:
        first = trainer.run_iteration()
        trainer.save(tmp_path / "first.pt")
    assert first["advantage_loss_0"] > 0
    assert first["strategy_loss"] > 0
    games = [result["random"]["games"] for result in first["evaluation"].values()]
    assert games == [4, 4]
    with DeepCFRTrainer(config, resume_from=tmp_path / "first.pt") as resumed:
        second = resumed.run_iteration()
    assert second["iteration"] == 2
    assert np.isfinite([second["advantage_loss_1"], second["strategy_loss"]]).all()


@pytest.mark.parametrize("device", DEVICES)
def test_a_checkpoint_is_read_on_the_cpu(device: str, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    with DeepCFRTrainer(config_on(device, tmp_path / "run")) as trainer:
        trainer.run_iteration()
        trainer.save(tmp_path / "first.pt")
    on_cpu = config_on("cpu", tmp_path / "cpu")
    with DeepCFRTrainer(on_cpu) as trainer:
        trainer.warm_start(tmp_path / "first.pt")
        trainer.save(tmp_path / "warm.pt")
    stored, warm = (load_checkpoint(tmp_path / name) for name in ("first.pt", "warm.pt"))
    for name, tensor in stored["strategy_network"].items():
        assert torch.equal(tensor.cpu(), warm["strategy_network"][name]), name


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["mlp", "color_shared"])
@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-5), ("bf16", 3e-2)])
def test_a_packed_forward_is_that_of_the_network(
    device: str, kind: str, precision: Precision, tolerance: float
) -> None:
    config = load_config(None, [*SMALL, f"network.kind={kind}"])
    width = encoding_size(build_rules(config.rules))
    features_BE = np.random.default_rng(0).integers(0, 3, (48, width), np.uint8)
    packed = pack_network(build_network(config).to(device), precision)
    expected_BA = forward_rows(build_network(config), features_BE)
    assert np.abs(expected_BA).max() > 0.1
    np.testing.assert_allclose(packed(features_BE), expected_BA, atol=tolerance)
