"""Call times: of which networks, at which batch, and what a reader of the file finds."""

import json
import tempfile
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from coolrl_lost_cities.games.classic.deep_cfr.call_time import (
    RESULT,
    NoDevice,
    contents,
    measure_call_times,
    table,
)
from coolrl_lost_cities.games.classic.deep_cfr.cli import app
from coolrl_lost_cities.games.classic.deep_cfr.compute_lock import compute_lock
from coolrl_lost_cities.games.classic.deep_cfr.config import load_config

SMALL = [
    "network.hidden_size=8",
    "network.num_layers=2",
    "value.hidden_size=8",
    "optimization.advantage_batch_size=32",
    "optimization.strategy_batch_size=64",
    "value.batch_size=16",
]


@pytest.fixture(autouse=True)
def _own_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_each_network_is_called_with_its_own_batch() -> None:
    found = measure_call_times(load_config(None, [*SMALL, "estimator.kind=escher"]))
    assert {name: one.batch for name, one in found.networks.items()} == {
        "advantage": 32,
        "strategy": 64,
        "value": 16,
    }
    for one in found.networks.values():
        assert 0 < one.low_us <= one.median_us <= one.high_us
        assert one.calls >= 9


def test_the_threshold_goes_by_the_networks_of_the_section_network() -> None:
    found = measure_call_times(load_config(None, SMALL))
    assert set(found.networks) == {"advantage", "strategy"}
    assert found.call_us == min(one.median_us for one in found.networks.values())
    said = contents(found)
    assert (said["call_us"], said["device"]) == (found.call_us, "cpu")
    assert said["what"] == "mlp 8 x 2 in fp32, one forward at the training batch"
    assert said["table"] == table(found)
    assert "| strategy | 64 | " in table(found)


def test_the_command_leaves_a_file_that_says_when_and_where(tmp_path: Path) -> None:
    options = [word for pair in SMALL for word in ("--set", pair)]
    done = CliRunner().invoke(app, ["call-time", *options, "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    said = json.loads((tmp_path / "out" / RESULT).read_text())
    assert said["measured"][:2] == "20"
    assert "torch" in said["machine"]
    assert done.output.startswith(said["table"])


def test_nothing_is_measured_beside_another_measurement() -> None:
    with compute_lock():
        done = CliRunner().invoke(app, ["call-time", "--set", "network.hidden_size=8"])
    assert done.exit_code == 2
    assert "two measurements would be of each other" in done.output


def test_a_device_that_is_not_there_is_named() -> None:
    config = load_config(None, [*SMALL, "run.device=cuda"])
    if torch.cuda.is_available():
        assert contents(measure_call_times(config))["device"] == "cuda"
        return
    with pytest.raises(NoDevice, match=r"run\.device is cuda.*--set run\.device=cpu"):
        measure_call_times(config)
