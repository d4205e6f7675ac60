"""The bench: real trainers in turn, what they compiled, one at a time, and what is claimed."""

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch._dynamo.utils import clear_compilation_metrics, counters
from typer.testing import CliRunner, Result

from coolrl_lost_cities.games.classic.deep_cfr import compute_lock
from coolrl_lost_cities.games.classic.deep_cfr.bench import (
    MOST_COMPILATIONS,
    Bench,
    Side,
    TooFewIterations,
    num_networks,
    run_bench,
    side_config,
)
from coolrl_lost_cities.games.classic.deep_cfr.bench_arm import ArmEnded, Iteration, running_arm
from coolrl_lost_cities.games.classic.deep_cfr.bench_report import table, verdict
from coolrl_lost_cities.games.classic.deep_cfr.cli import app
from coolrl_lost_cities.games.classic.deep_cfr.compute_lock import ComputeLocked
from coolrl_lost_cities.games.classic.deep_cfr.config import DeepCFRConfig
from coolrl_lost_cities.games.classic.deep_cfr.fingerprint import config_hash, take_fingerprint
from coolrl_lost_cities.games.classic.deep_cfr.paired_times import saving
from coolrl_lost_cities.games.classic.deep_cfr.recompiles import (
    CompileCounts,
    compile_counts,
    compile_metrics,
    counts_of_metrics,
    fallback,
    objection,
)

pytestmark = pytest.mark.usefixtures("_own_lock")


def side(*seconds: float, compiled: CompileCounts | None = None) -> Side:
    counts = CompileCounts(graphs=1, compilations=1, seconds=2.0) if compiled is None else compiled
    phases, parts = {"traversal": 0.5}, {"forward": 0.25}
    rest = tuple(Iteration(one, phases, parts, counts) for one in seconds)
    return Side(Iteration(3.0, phases, parts, counts), rest)


@pytest.fixture
def bench_of(tiny_config: Callable[..., DeepCFRConfig]) -> Callable[..., Bench]:
    def made(off: Side, on: Side, failed: str = "") -> Bench:
        config = tiny_config()
        found = saving(off.seconds, on.seconds)
        return Bench(config, off, on, found, failed, take_fingerprint(config), 0.0)

    return made


@pytest.fixture(scope="module")
def swept(
    tiny_run: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Result, Path]:
    """Return what a sweep said whose one bench allows no compilation at all, and its folder."""
    out = tmp_path_factory.mktemp("swept") / "out"
    sets = [word for text in tiny_run for word in ("--set", text)]
    limits = ["--iterations", "8", "--max-recompiles", "0"]
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(compute_lock, "lock_path", lambda: out.with_name("lock"))
        words = ["bench", *sets, "--out", str(out), *limits, "--sweep", "mode=reduce-overhead"]
        return CliRunner().invoke(app, words), out


@pytest.mark.slow
def test_a_bench_times_both_sides_and_leaves_its_files(swept: tuple[Result, Path]) -> None:
    done, out = swept
    folder = out / "mode=default"
    found = json.loads((folder / "bench.json").read_text())
    assert found["interval"][0] <= found["effect"] <= found["interval"][1]
    off, on = found["sides"]["off"], found["sides"]["on"]
    assert len(off["seconds"]) == len(on["seconds"]) == 8
    assert off["compiled"]["graphs"] == 0 < on["compiled"]["graphs"]
    assert on["compiled"]["seconds"] > 0.0
    assert set(off["parts_s"]) == {"forward", "batches"}
    assert (folder / "bench.png").read_bytes().startswith(b"\x89PNG")
    assert found["table"] in (folder / "bench.md").read_text()
    order = re.findall(r"^(on|off): iteration (\d)", done.output, re.MULTILINE)
    assert order[:4] == [("off", "1"), ("on", "1"), ("on", "2"), ("off", "2")]
    assert not list(out.rglob("*.pt"))


@pytest.mark.slow
def test_a_bench_that_compiled_more_often_than_it_may_fails(swept: tuple[Result, Path]) -> None:
    done, out = swept
    assert done.exit_code == 4, done.output
    found = json.loads((out / "mode=default" / "bench.json").read_text())
    assert "compilations for 3 networks, at most 0 each expected" in found["failed"]
    assert f"The bench failed: {found['failed']}." in done.output
    counts = CompileCounts(**found["sides"]["on"]["compiled"])
    assert objection(counts, 3, MOST_COMPILATIONS) == ""  # as many as usual are no failure


@pytest.mark.slow
def test_a_sweep_leaves_one_table_and_says_what_it_skipped(swept: tuple[Result, Path]) -> None:
    done, out = swept
    found = json.loads((out / "sweep.json").read_text())
    assert found["points"]["mode=reduce-overhead"] == {
        "skipped": "mode reduce-overhead records CUDA graphs, and run.device is cpu"
    }
    assert len(found["points"]["mode=default"]["sides"]["on"]["seconds"]) == 8
    assert found["steps"]["small"]["done"]
    assert found["steps"]["larger"] == {
        "seconds": None,
        "what": "",
        "done": False,
        "waits_for": "",
    }
    assert found["table"] in done.output


def test_a_recompile_storm_is_seen_and_the_guard_is_named() -> None:
    def grown(rows: torch.Tensor) -> torch.Tensor:
        return (rows * 2).sum()

    torch._dynamo.reset()
    counters.clear()
    clear_compilation_metrics()
    compiled = torch.compile(grown, backend="eager", dynamic=False)
    said = {}
    with torch._dynamo.config.patch(recompile_limit=8, fail_on_recompile_limit_hit=False):
        for sizes in (1, 3, 12):  # shapes it has never seen, at last more than torch compiles for
            for size in range(2, 2 + sizes):
                compiled(torch.ones(size))
            said[sizes] = objection(compile_counts(), 1, 2)
    stored = counts_of_metrics(json.loads(json.dumps(compile_metrics(True))))
    counters.clear()  # nobody else is to be told of this
    clear_compilation_metrics()
    assert said[1] == ""
    assert said[3].startswith("3 compilations for 1 networks, at most 2 each expected")
    assert said[12].startswith("the recompile limit was met, and the rest ran eager")
    for text in (said[3], said[12]):
        assert "grown: " in text
        assert "size mismatch at index 0" in text
    assert stored is not None
    assert fallback(stored) == said[12]  # so that a run's metrics tell as well


def test_times_without_compiled_code_are_no_times_of_it() -> None:
    assert objection(CompileCounts(), 3, 2) == "nothing was compiled"
    broken = CompileCounts(graphs=1, compilations=1, failures=("net.py:3 forward: Unsupported",))
    assert "net.py:3 forward" in objection(broken, 3, 2)
    assert objection(CompileCounts(graphs=6, compilations=6), 3, 2) == ""


def test_a_run_that_compiles_nothing_says_nothing_of_it() -> None:
    assert compile_metrics(False) == {}
    assert counts_of_metrics({"iteration": 1}) is None


def test_counts_are_of_what_came_after_others() -> None:
    before = CompileCounts(3, 3, 1.0, ("a",), ("x",), 2)
    after = CompileCounts(5, 4, 1.5, ("a", "b"), ("x",), 2)
    assert after.since(before) == CompileCounts(2, 1, 0.5, ("b",), (), 0)
    assert fallback(after.since(before)) == ""
    assert fallback(after).startswith("the recompile limit was met")


def test_a_side_that_ends_is_said_with_its_last_words(
    tiny_config: Callable[..., DeepCFRConfig], tmp_path: Path
) -> None:
    config = side_config(tiny_config(), tmp_path / "off", enabled=False)
    wrong = dataclasses.replace(
        config, run=dataclasses.replace(config.run, warm_start="nowhere.pt")
    )
    with running_arm("off", wrong) as arm, pytest.raises(ArmEnded, match=r"nowhere\.pt"):
        arm.iterate()


def test_two_measurements_keep_apart() -> None:
    locked = compute_lock.compute_lock
    with locked(), pytest.raises(ComputeLocked, match=r"process [0-9]+ .* since"), locked():
        pass
    with locked():
        pass


def test_too_few_iterations_are_refused(
    tiny_config: Callable[..., DeepCFRConfig], tmp_path: Path
) -> None:
    with pytest.raises(TooFewIterations, match="--iterations is 7"):
        run_bench(tiny_config(), tmp_path, lambda text: None, iterations=7)
    assert not list(tmp_path.iterdir())


def test_evaluation_and_checkpoints_are_off_on_both_sides(
    tiny_config: Callable[..., DeepCFRConfig], tmp_path: Path
) -> None:
    config = tiny_config("run.seed=4", "evaluation.eval_every=1")
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
def test_no_more_is_claimed_than_the_interval_shows(
    bench_of: Callable[..., Bench], on: tuple[float, ...], said: str
) -> None:
    found = bench_of(side(1.0, 1.0, 1.0, 1.0), side(*on))
    assert verdict(found) == said
    assert said in table(found)


def test_the_table_is_the_plans(bench_of: Callable[..., Bench]) -> None:
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


def test_networks_are_counted_by_the_config(tiny_config: Callable[..., DeepCFRConfig]) -> None:
    assert num_networks(tiny_config()) == 3
    assert num_networks(tiny_config("network.shared_seats=true", "estimator.kind=escher")) == 3
