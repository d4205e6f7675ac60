"""The bench: real trainers in turn, what they compiled, one at a time, and what is claimed."""

import dataclasses
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from coolrl_lost_cities.games.classic.deep_cfr.bench import (
    Bench,
    Side,
    TooFewIterations,
    num_networks,
    run_bench,
    side_config,
)
from coolrl_lost_cities.games.classic.deep_cfr.bench_arm import ArmEnded, Iteration, running_arm
from coolrl_lost_cities.games.classic.deep_cfr.bench_report import contents, table, verdict
from coolrl_lost_cities.games.classic.deep_cfr.cli import app
from coolrl_lost_cities.games.classic.deep_cfr.compute_lock import ComputeLocked, compute_lock
from coolrl_lost_cities.games.classic.deep_cfr.config import load_config
from coolrl_lost_cities.games.classic.deep_cfr.fingerprint import config_hash, take_fingerprint
from coolrl_lost_cities.games.classic.deep_cfr.paired_times import saving
from coolrl_lost_cities.games.classic.deep_cfr.recompiles import CompileCounts, objection

SMALL = [
    "rules.num_colors=2",
    "rules.num_ranks=3",
    "rules.num_wagers=1",
    "rules.hand_size=2",
    "rules.max_steps=20",
    "network.hidden_size=16",
    "network.num_layers=2",
    "traversal.traversals_per_iteration=16",
    "traversal.lanes=8",
    "optimization.advantage_batch_size=32",
    "optimization.strategy_batch_size=32",
    "optimization.advantage_steps=2",
    "optimization.strategy_steps=2",
    "memory.advantage_capacity=200",
    "memory.strategy_capacity=200",
]
# Shapes that a compiled function has never seen, more of them than torch compiles for.
STORM = """
import json, torch
from coolrl_lost_cities.games.classic.deep_cfr import recompiles

def grown(rows):
    return (rows * 2).sum()

compiled = torch.compile(grown, backend="eager", dynamic=False)
found = {}
for calls in (1, 3, 12):
    for size in range(2, 2 + calls):
        compiled(torch.ones(size))
    found[calls] = recompiles.objection(recompiles.compile_counts(), 1, 2)
print(json.dumps(found))
"""


@pytest.fixture(autouse=True)
def _own_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tests that measure run side by side: the lock is the machine's elsewhere."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path.parent))


def side(*seconds: float, compiled: CompileCounts | None = None) -> Side:
    counts = CompileCounts(graphs=1, compilations=1, seconds=2.0) if compiled is None else compiled
    phases, parts = {"traversal": 0.5}, {"forward": 0.25}
    rest = tuple(Iteration(one, phases, parts, counts) for one in seconds)
    return Side(Iteration(3.0, phases, parts, counts), rest)


def bench_of(off: Side, on: Side, failed: str = "") -> Bench:
    config = load_config(None, SMALL)
    return Bench(
        config, off, on, saving(off.seconds, on.seconds), failed, take_fingerprint(config), 0.0
    )


@pytest.mark.slow
def test_a_bench_times_both_sides_and_leaves_its_files(tmp_path: Path) -> None:
    sets = [word for text in SMALL for word in ("--set", text)]
    words = ["bench", *sets, "--out", str(tmp_path / "out"), "--iterations", "8"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "| Baseline (no compile) |" in done.output
    found = json.loads((tmp_path / "out" / "bench.json").read_text())
    assert found["failed"] is None
    assert found["interval"][0] <= found["effect"] <= found["interval"][1]
    off, on = found["sides"]["off"], found["sides"]["on"]
    assert len(off["seconds"]) == len(on["seconds"]) == 8
    assert off["compiled"]["graphs"] == 0 < on["compiled"]["graphs"]
    assert on["compiled"]["seconds"] > 0.0
    assert set(off["parts_s"]) == {"forward", "batches"}
    assert (tmp_path / "out" / "bench.png").read_bytes().startswith(b"\x89PNG")
    assert found["table"] in (tmp_path / "out" / "bench.md").read_text()
    order = re.findall(r"^(on|off): iteration (\d)", done.output, re.MULTILINE)
    assert order[:4] == [("off", "1"), ("on", "1"), ("on", "2"), ("off", "2")]
    assert not list((tmp_path / "out").rglob("*.pt"))


@pytest.mark.slow
def test_a_bench_that_compiled_too_often_fails_and_says_what(tmp_path: Path) -> None:
    found = run_bench(
        load_config(None, SMALL), tmp_path, lambda text: None, iterations=8, most_compilations=0
    )
    assert "compilations for 3 networks, at most 0 each expected" in found.failed
    assert verdict(found).startswith("The bench failed: ")
    assert contents(found)["failed"] == found.failed


def test_a_recompile_storm_is_seen_and_the_guard_is_named() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STORM], capture_output=True, text=True, check=True, timeout=120
    )
    found = json.loads(done.stdout)
    assert found["1"] == ""
    assert found["3"].startswith("3 compilations for 1 networks, at most 2 each expected")
    assert found["12"].startswith("the recompile limit was met, and the rest ran eager")
    for text in (found["3"], found["12"]):
        assert "grown: " in text
        assert "size mismatch at index 0" in text


def test_times_without_compiled_code_are_no_times_of_it() -> None:
    assert objection(CompileCounts(), 3, 2) == "nothing was compiled"
    broken = CompileCounts(graphs=1, compilations=1, failures=("net.py:3 forward: Unsupported",))
    assert "net.py:3 forward" in objection(broken, 3, 2)
    assert objection(CompileCounts(graphs=6, compilations=6), 3, 2) == ""


def test_a_side_that_ends_is_said_with_its_last_words(tmp_path: Path) -> None:
    config = side_config(load_config(None, SMALL), tmp_path / "off", enabled=False)
    wrong = dataclasses.replace(
        config, run=dataclasses.replace(config.run, warm_start="nowhere.pt")
    )
    with running_arm("off", wrong) as arm, pytest.raises(ArmEnded, match=r"nowhere\.pt"):
        arm.iterate()


def test_two_measurements_keep_apart(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with compute_lock(path), pytest.raises(ComputeLocked, match=r"process [0-9]+ .* since"):  # noqa: SIM117
        with compute_lock(path):
            pass
    with compute_lock(path):
        pass


def test_too_few_iterations_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TooFewIterations, match="--iterations is 7"):
        run_bench(load_config(None, SMALL), tmp_path, lambda text: None, iterations=7)
    assert not list(tmp_path.iterdir())


def test_evaluation_and_checkpoints_are_off_on_both_sides(tmp_path: Path) -> None:
    config = load_config(None, [*SMALL, "run.seed=4", "evaluation.eval_every=1"])
    off, on = (side_config(config, tmp_path / "x", enabled=enabled) for enabled in (False, True))
    for one in (off, on):
        assert (one.evaluation.eval_every, one.checkpoint.save_latest) == (0, False)
        assert one.run.seed == 4
    assert off != on
    trainer = dataclasses.replace(on.compile.trainer, enabled=False)
    compiling = dataclasses.replace(on.compile, trainer=trainer)
    assert dataclasses.replace(on, compile=compiling) == off
    assert config_hash(off) != config_hash(on)


@pytest.mark.parametrize(
    ("on", "said"),
    [
        ((0.8, 0.81, 0.8, 0.79), "At least 5% faster."),
        ((0.96, 0.961, 0.96, 0.959), "Less than 5% faster."),
        ((1.1, 1.11, 1.1, 1.09), "Slower."),
        ((0.8, 1.1, 0.9, 1.0), "Whether it is 5% is not shown."),
    ],
)
def test_no_more_is_claimed_than_the_interval_shows(on: tuple[float, ...], said: str) -> None:
    found = bench_of(side(1.0, 1.0, 1.0, 1.0), side(*on))
    assert verdict(found) == said
    assert said in table(found)


def test_the_table_is_the_plans() -> None:
    found = bench_of(side(6.0, 6.0, 6.0), side(3.0, 3.0, 3.0))
    lines = table(found).splitlines()
    assert lines[:5] == [
        "|  | iter mean | 1000-iter projection |",
        "| --- | ---: | ---: |",
        "| Baseline (no compile) | 6 s | 1.7 h |",
        "| `torch.compile` trainer (mode=default) | 3 s | 50.0 min |",
        "| Effect | -50.0% | -50.0 min |",
    ]
    assert "| traversal | 0.5 s | 8% | 0.5 s | 17% |" in lines
    assert "| of these, forward | 0.25 s | 4% | 0.25 s | 8% |" in lines
    failed = bench_of(side(6.0, 6.0, 6.0), side(3.0, 3.0, 3.0), "it fell back")
    assert "The bench failed: it fell back." in table(failed)


def test_networks_are_counted_by_the_config() -> None:
    assert num_networks(load_config(None, SMALL)) == 3
    shared = [*SMALL, "network.shared_seats=true", "estimator.kind=escher"]
    assert num_networks(load_config(None, shared)) == 3
