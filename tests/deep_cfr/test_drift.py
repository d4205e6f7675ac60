"""The command `drift` with real runs: what it refuses, writes, skips and goes on with."""

import fcntl
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from coolrl_lost_cities.games.classic.deep_cfr import compute_lock
from coolrl_lost_cities.games.classic.deep_cfr import drift as drift_module
from coolrl_lost_cities.games.classic.deep_cfr.cli import app
from coolrl_lost_cities.games.classic.deep_cfr.config import DeepCFRConfig, load_config
from coolrl_lost_cities.games.classic.deep_cfr.drift import (
    FellBack,
    NothingCompiled,
    check_compiled,
    measure_drift,
)
from coolrl_lost_cities.games.classic.deep_cfr.metrics import append_metrics
from coolrl_lost_cities.games.classic.deep_cfr.paired_runs import (
    PairedRunError,
    check_continues,
    finish,
    is_complete,
    locked,
    paired_runs,
)

# The command in a process of its own, with a lock of its own in place of the machine's.
PROGRAM = """
import pathlib, sys
from coolrl_lost_cities.games.classic.deep_cfr import cli, compute_lock
lock = pathlib.Path(sys.argv.pop())
compute_lock.lock_path = lambda: lock
cli.main()
"""
SMALL = """
rules: {num_colors: 2, num_ranks: 3, num_wagers: 1, hand_size: 2, max_steps: 20}
network: {hidden_size: 16, num_layers: 2, shared_seats: true}
traversal: {traversals_per_iteration: 64, lanes: 16}
optimization:
  {advantage_steps: 4, strategy_steps: 4, advantage_batch_size: 32, strategy_batch_size: 32}
memory: {advantage_capacity: 3000, strategy_capacity: 3000}
evaluation: {policies: average}
drift: {seeds: 2, iterations: 40, eval_every: 20, games: 40}
"""


pytestmark = pytest.mark.usefixtures("_own_lock")


@pytest.fixture(autouse=True)
def _torch_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)  # which the command sets for its process, here ours


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


def config(path: Path, *overrides: str) -> DeepCFRConfig:
    return load_config(path, overrides)


def started(small: Path, out: Path) -> subprocess.Popen[str]:
    words = ["drift", "--config", small, "--out", out, out.with_name("lock")]
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def heard(stream: IO[str] | None, text: str) -> list[str]:
    """Read lines until one holds a text."""
    assert stream is not None
    lines: list[str] = []
    for line in stream:
        lines.append(line)
        if text in line:
            return lines
    raise AssertionError(f"{text!r} was not said in {''.join(lines)}")


def wait_until_free(out: Path) -> None:
    """Wait until nobody holds the folder, however the one before was ended."""
    with (out / ".lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)


@pytest.mark.slow
def test_a_drift_check_goes_on_where_it_was_ended(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "drift"
    first = out / "seed_0000_off"

    process = started(small, out)
    lines = heard(process.stderr, "seed 1, compile off: iteration 2/40")
    process.kill()
    process.communicate()
    assert "seed 0, compile on: finished iteration 40 of 40\n" in lines
    wait_until_free(out)  # the run that is left has nobody to speak to, and stops by itself
    assert not is_complete(paired_runs(config(small), out)[2])
    assert not (out / "drift.json").exists()
    kept = (first / "metrics.jsonl").read_bytes()

    done = CliRunner().invoke(app, ["drift", "--config", str(small), "--out", str(out)])
    shown, said = done.stdout, done.stderr.splitlines()
    assert done.exit_code == 3, done.output
    assert "gradients against float64: measured already" in said
    assert "parameters with GELU: measured already" in said
    assert "seed 0, compile off: complete, not run again" in said
    assert "seed 0, compile on: complete, not run again" in said
    assert "seed 1, compile off: goes on from its latest checkpoint" in said
    assert "seed 1, compile on: finished iteration 40 of 40" in said
    assert (first / "metrics.jsonl").read_bytes() == kept
    assert "not enough games: 40 iterations a run, at least 100" in shown
    result = json.loads((out / "drift.json").read_text())
    assert result["verdict"] == "not enough"
    assert [len(rates["on"]) for rates in result["win_rates"]] == [2, 2]
    assert result["gradient_error"]["graphs"] > 0
    assert shown.startswith(result["table"])
    with Image.open(out / "drift.png") as image:
        image.load()
        assert image.format == "PNG"
    assert not list(out.glob("*/latest.pt"))


def test_pairs_differ_in_compile_alone(small: Path, tmp_path: Path) -> None:
    wanted = config(small, "run.seed=7", "compile.trainer.mode=max-autotune", "run.minutes=5")
    found = paired_runs(wanted, tmp_path)
    assert [run.folder.name for run in found] == [
        "seed_0007_off",
        "seed_0007_on",
        "seed_0008_off",
        "seed_0008_on",
    ]
    for run in found:
        made = run.config
        assert (made.run.seed, made.compile.trainer.enabled) == (run.seed, run.compiled)
        assert (made.run.iterations, made.run.minutes, made.run.out) == (40, None, str(run.folder))
        assert (made.evaluation.eval_every, made.evaluation.games) == (20, 40)
        assert made.evaluation.opponents == ["random", "safe_heuristic"]
        assert made.evaluation.policies == "average"
        assert made.compile.trainer.mode == "max-autotune"


def test_runs_with_other_settings_are_refused_before_anything_changes(
    small: Path, tmp_path: Path
) -> None:
    out = tmp_path / "drift"
    run = paired_runs(config(small), out)[0]
    run.folder.mkdir(parents=True)
    check_continues(run)  # an empty folder is none of another run
    from coolrl_lost_cities.games.classic.deep_cfr import runs

    runs.write_config(run.config)
    # More seeds and another margin are judged afterwards, of the same runs.
    for same in ("drift.seeds=9", "drift.margin=0.1", "run.out=elsewhere", "run.overwrite=true"):
        check_continues(paired_runs(config(small, same), out)[0])
    for other in ("drift.games=50", "network.hidden_size=8", "compile.trainer.fullgraph=true"):
        with pytest.raises(PairedRunError, match=r"seed_0000_off: was run with "):
            measure_drift(config(small, other), out, lambda _: None)
    options = ["--config", str(small), "--set", "drift.games=50", "--out", str(out)]
    shown = CliRunner().invoke(app, ["drift", *options])
    assert shown.exit_code == 2
    assert re.fullmatch(
        r"lost-cities-deep-cfr: error: \S+seed_0000_off: was run with evaluation.games: 40, now it "
        r"is 50; set it back, or measure afresh with another --out\n",
        shown.stderr,
    )
    assert sorted(path.name for path in out.rglob("*")) == ["config.yaml", "seed_0000_off"]


def test_a_run_that_fails_is_one_line(small: Path, tmp_path: Path) -> None:
    wanted = config(small, "run.warm_start=none.pt")
    run = paired_runs(wanted, tmp_path / "drift")[0]
    said: list[str] = []
    with locked(tmp_path) as lock, pytest.raises(PairedRunError) as caught:
        finish(run, said.append, lock)
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"{run.folder}: the run failed (lost-cities-deep-cfr: error: none.pt")
    assert said[0] == "seed 0, compile off: starts"


def test_a_run_that_fell_back_to_eager_proves_nothing(small: Path, tmp_path: Path) -> None:
    off, on = paired_runs(config(small), tmp_path / "drift")[:2]
    reason = "net.py:3 forward: size mismatch at index 0"
    well = {"graphs": 4, "limit_hits": 0, "failures": [], "reasons": [reason]}
    for run in (off, on):
        run.folder.mkdir(parents=True)
        append_metrics(run.folder / "metrics.jsonl", {"iteration": 1})  # by an older version
        append_metrics(run.folder / "metrics.jsonl", {"iteration": 2, "compiled": well})
        check_compiled(run)
        fell = {"iteration": 3, "compiled": well | {"limit_hits": 1}}
        append_metrics(run.folder / "metrics.jsonl", fell)
    check_compiled(off)
    with pytest.raises(FellBack) as caught:
        check_compiled(on)
    (line,) = str(caught.value).splitlines()
    assert line.startswith(
        f"{on.folder}, iteration 3: the recompile limit was met, and the rest ran"
    )
    assert reason in line


def test_a_drift_check_measures_beside_nobody(small: Path, tmp_path: Path) -> None:
    with compute_lock.compute_lock(), pytest.raises(compute_lock.ComputeLocked, match="process "):
        measure_drift(config(small), tmp_path / "drift", lambda _: None)
    assert [path.name for path in (tmp_path / "drift").iterdir()] == [".lock"]


def test_two_drift_checks_never_write_to_one_folder(tmp_path: Path) -> None:
    with locked(tmp_path) as lock:
        with pytest.raises(PairedRunError, match="another drift check is at work here"):
            locked(tmp_path).__enter__()
        # A run keeps the lock that it was handed for as long as it lives.
        run = subprocess.Popen(
            [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(lock,)
        )
    try:
        with pytest.raises(PairedRunError, match="or a run that one left behind"):
            locked(tmp_path).__enter__()
    finally:
        run.communicate(b"\n")
    with locked(tmp_path):
        pass


def test_where_nothing_is_compiled_nothing_is_said(small: Path, tmp_path: Path) -> None:
    """Otherwise two eager runs would be called free of drift."""
    out = tmp_path / "drift"
    with torch._dynamo.config.patch(disable=True):  # what TORCHDYNAMO_DISABLE=1 sets at the start
        done = CliRunner().invoke(app, ["drift", "--config", str(small), "--out", str(out)])
    assert done.exit_code == 2
    *_, line = done.stderr.splitlines()
    assert line == f"lost-cities-deep-cfr: error: {NothingCompiled()}"
    assert sorted(path.name for path in out.iterdir()) == [".lock"]


def test_a_failed_claim_spares_the_runs(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steps with GELU are few here; what fails is a compiled network with a planted fault."""
    from coolrl_lost_cities.games.classic.deep_cfr.fixed_batches import Arm

    def faulty(network: torch.nn.Module) -> torch.nn.Module:
        return torch.compile(torch.nn.Sequential(network, torch.nn.Hardtanh(-0.1, 0.1)))

    monkeypatch.setattr(drift_module, "compiled_arm", lambda config: Arm(faulty))
    out = tmp_path / "drift"
    said: list[str] = []
    found = measure_drift(config(small), out, said.append, num_steps=5)
    assert found.verdict.judgement == "drift"
    assert "times as far from float64 as eager ones" in found.verdict.detail
    assert said[-1] == "the paired runs are left out: a claim has failed"
    result = json.loads((out / "drift.json").read_text())
    assert (result["verdict"], result["win_rates"], result["looks"]) == ("drift", [], [])
    assert sorted(path.name for path in out.iterdir() if path.suffix) == [
        "claims.json",
        "drift.json",
        "drift.md",
    ]
