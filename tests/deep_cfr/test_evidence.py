"""`make bench`: which benches it runs, what it leaves of their files, and where there is no GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks import evidence
from coolrl_lost_cities.games.classic.deep_cfr.config import load_config

ROOT = Path(evidence.__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"


def test_every_bench_has_settings_that_there_are() -> None:
    for part in ("networks", "step", "inference"):
        ((name, sets),) = evidence.settings(part, "cpu").items()
        config = load_config(None, sets)
        assert name == part
        assert (config.network.hidden_size, config.network.num_layers) == (512, 3)
        assert config.optimization.advantage_batch_size == 1024
    step = load_config(None, evidence.settings("step", "cpu")["step"])
    assert step.compile.trainer.scope == "step"


def test_a_gpu_gets_the_larger_network_and_bf16_as_well() -> None:
    found = evidence.settings("networks", "cuda")
    configs = {name: load_config(None, sets) for name, sets in found.items()}
    assert list(configs) == [
        "cuda_networks_512x3_fp32",
        "cuda_networks_512x3_bf16",
        "cuda_networks_1024x6_fp32",
        "cuda_networks_1024x6_bf16",
    ]
    assert all(config.run.device == "cuda" for config in configs.values())
    assert configs["cuda_networks_1024x6_bf16"].run.precision == "bf16"
    assert configs["cuda_networks_1024x6_bf16"].network.worth_compiling


def test_without_a_gpu_nothing_is_measured() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.evidence", "--device", "cuda"],
        cwd=ROOT,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert line == "bench: torch sees no GPU on this machine, nothing was measured"


def test_results_hold_no_place_on_this_machine() -> None:
    text = f"{ROOT}/src/net.py:3 forward, {sys.base_prefix}/lib/os.py:1"
    assert evidence.without_paths(text) == "src/net.py:3 forward, lib/os.py:1"
    for path in (*RESULTS.glob("*.json"), *RESULTS.glob("*.md")):
        kept = path.read_text("utf-8")
        assert evidence.without_paths(kept) == kept
        assert "/tmp/" not in kept


def test_kept_results_say_what_they_were_measured_on() -> None:
    kept = sorted(RESULTS.glob("*.json"))
    assert kept
    for path in kept:
        found = json.loads(path.read_text("utf-8"))
        assert found["fingerprint"]["torch"]
        assert found["machine"]


def test_a_table_of_lines_has_every_figure() -> None:
    lines = [{"benchmark": "apply", "apply": {"wall_s": 0.5, "cpu_s": 0.4}, "rounds": 3}]
    assert evidence.apply_table(lines).splitlines()[2:] == [
        "| apply | apply wall_s | 0.5 |",
        "| apply | apply cpu_s | 0.4 |",
        "| apply | rounds | 3 |",
    ]
