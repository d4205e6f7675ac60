import json
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from PIL import Image
from typer.testing import CliRunner, Result

from coolrl_lost_cities.games.classic.deep_cfr.checkpoints import load_checkpoint
from coolrl_lost_cities.games.classic.deep_cfr.cli import COMPILING, app
from coolrl_lost_cities.games.classic.deep_cfr.metrics import read_metrics, without_times

PROGRAM = Path(sys.executable).with_name("lost-cities-deep-cfr")
CONFIGS = Path(__file__).parents[2] / "configs" / "deep_cfr"
SMALL = """
rules: {num_colors: 3, num_ranks: 4, hand_size: 3, max_steps: 60}
network: {hidden_size: 16, num_layers: 2}
traversal: {traversals_per_iteration: 24, lanes: 8}
optimization: {advantage_steps: 5, strategy_steps: 5, advantage_batch_size: 32}
memory: {advantage_capacity: 3000, strategy_capacity: 3000}
evaluation: {eval_every: 2, games: 8, opponents: [random]}
"""


@pytest.fixture
def small(tmp_path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


@pytest.fixture(autouse=True)
def _torch_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)  # which the command sets for its process, here ours


def cli(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def train(config: Path, out: Path, *overrides: str) -> Result:
    options = [option for text in (f"run.out={out}", *overrides) for option in ("--set", text)]
    return cli("train", "--config", config, *options)


def assert_one_line_error(result: Result, message: str) -> None:
    assert result.exit_code == 2
    assert re.fullmatch(r"lost-cities-deep-cfr: error: [^\n]+\n", result.stderr)
    assert message in result.stderr


def tree(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def assert_equal_contents(left: object, right: object, where: str = "") -> None:
    if isinstance(left, torch.Tensor):
        assert isinstance(right, torch.Tensor), where
        assert torch.equal(left, right), where
    elif isinstance(left, dict):
        assert isinstance(right, dict), where
        assert left.keys() == right.keys(), where
        for key in left:
            assert_equal_contents(left[key], right[key], f"{where}.{key}")
    elif isinstance(left, list):
        assert isinstance(right, list), where
        assert len(left) == len(right), where
        for number, pair in enumerate(zip(left, right, strict=True)):
            assert_equal_contents(*pair, f"{where}[{number}]")
    else:
        assert left == right, where


def assert_same_run(left: Path, right: Path) -> None:
    """Everything learnt and measured is equal, to the bit; only times and settings may differ."""
    contents = [load_checkpoint(folder / "latest.pt") for folder in (left, right)]
    for content in contents:
        del content["config"]
    assert_equal_contents(*contents)
    lines = [read_metrics(folder / "metrics.jsonl") for folder in (left, right)]
    assert [without_times(line) for line in lines[0]] == [without_times(line) for line in lines[1]]


@pytest.mark.parametrize("command", [[], ["train"], ["eval"], ["analyze"]])
def test_help_does_not_import_torch(command):
    done = subprocess.run(
        [PROGRAM, *command, "--help"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPROFILEIMPORTTIME": "1"},
    )
    assert "Usage: lost-cities-deep-cfr" in done.stdout
    imported = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines()}
    assert "typer" in imported
    assert not imported & {"torch", "numba", "numpy", "matplotlib", "rich"}


def test_a_run_writes_its_folder(small, tmp_path):
    out = tmp_path / "deep" / "run"
    result = train(small, out, "run.iterations=2", "checkpoint.save_every=1")
    assert result.exit_code == 0, result.output
    assert sorted(tree(out)) == [
        "config.yaml",
        "iteration_000001.pt",
        "iteration_000002.pt",
        "latest.pt",
        "metrics.jsonl",
        "networks.pt",
        "train.log",
    ]
    assert [line["iteration"] for line in read_metrics(out / "metrics.jsonl")] == [1, 2]
    assert load_checkpoint(out / "latest.pt")["iteration"] == 2
    log = (out / "train.log").read_text().splitlines()
    assert re.fullmatch(
        r"[-0-9]{10} [:0-9]{8} iteration 1/2  advantage loss \S+ \S+  strategy loss \S+  "
        r"\d+ traversals/s",
        log[1],
    )
    assert "average against random: " in log[3]
    assert log[-1].endswith("finished iteration 2 of 2")
    stored = (out / "config.yaml").read_text()
    assert "\n  iterations: 2\n" in stored
    assert f"\n  out: {out}\n" in stored


def test_no_iteration_begins_after_the_minutes_of_a_run(small, tmp_path):
    out = tmp_path / "run"
    result = train(small, out, "run.iterations=1000", "run.minutes=1e-6", "run.overwrite=true")
    assert result.exit_code == 0, result.output
    stopped = re.search(r"stopped after iteration (\d+): run.minutes have passed", result.output)
    assert stopped
    assert load_checkpoint(out / "latest.pt")["iteration"] == int(stopped[1]) <= 1
    # What was stopped goes on, for as long again.
    again = cli(
        "train",
        "--resume",
        out / "latest.pt",
        "--set",
        "run.minutes=null",
        "--set",
        "run.iterations=2",
    )
    assert again.exit_code == 0, again.output
    assert "finished iteration 2 of 2" in again.output


def test_checkpoints_and_payloads_hold_plain_keys(small, tmp_path):
    out = tmp_path / "run"
    result = train(small, out, "run.iterations=1", "traversal.opponent=frozen")
    assert result.exit_code == 0, result.output
    contents = load_checkpoint(out / "latest.pt")
    weights = [
        *contents["advantage_networks"],
        contents["strategy_network"],
        *contents["opponent_snapshot"],
    ]
    assert len(weights) == 5
    expected = [f"layers.{i}.{kind}" for i in (0, 2, 4) for kind in ("weight", "bias")]
    assert [list(state) for state in weights] == [expected] * 5
    assert b"_orig_mod" not in (out / "latest.pt").read_bytes()


def test_resuming_continues_the_metrics_where_the_checkpoint_ends(small, tmp_path):
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    assert train(small, whole, "run.iterations=4").exit_code == 0
    result = train(small, resumed, "run.iterations=3", "checkpoint.save_every=2")
    assert result.exit_code == 0, result.output
    # Line 3 is past this checkpoint, and is written again.
    checkpoint = resumed / "iteration_000002.pt"
    result = cli("train", "--resume", checkpoint, "--set", "run.iterations=4")
    assert result.exit_code == 0, result.output
    assert_same_run(whole, resumed)
    assert "2 of 4 iterations done" in (resumed / "train.log").read_text()


def test_a_moved_run_resumes_where_it_lies(small, tmp_path):
    assert train(small, tmp_path / "before", "run.iterations=1").exit_code == 0
    after = tmp_path / "it's: 2"
    (tmp_path / "before").rename(after)
    for iterations in (2, 2):  # the second time there is nothing left to do
        more = ["--set", f"run.iterations={iterations}"]
        result = cli("train", "--resume", after / "latest.pt", *more)
        assert result.exit_code == 0, result.output
        assert load_checkpoint(after / "latest.pt")["iteration"] == 2
        assert len(read_metrics(after / "metrics.jsonl")) == 2
    assert not (tmp_path / "before").exists()


def test_a_run_may_go_on_in_another_folder_but_not_over_another_run(small, tmp_path):
    for name in ("a", "b"):
        assert train(small, tmp_path / name, "run.iterations=1").exit_code == 0
    before = tree(tmp_path / "a"), tree(tmp_path / "b")
    options = ["--resume", tmp_path / "a" / "latest.pt", "--set", "run.iterations=2"]
    result = cli("train", *options, "--set", f"run.out={tmp_path}/b")
    assert_one_line_error(result, f"{tmp_path}/b: already holds a run")
    result = cli("train", *options, "--set", f"run.out={tmp_path}/c")
    assert result.exit_code == 0, result.output
    assert [line["iteration"] for line in read_metrics(tmp_path / "c/metrics.jsonl")] == [2]
    assert (tree(tmp_path / "a"), tree(tmp_path / "b")) == before


def test_a_folder_with_a_run_is_not_written_over_unasked(small, tmp_path):
    out = tmp_path / "run"
    assert train(small, out, "run.iterations=1", "checkpoint.save_every=1").exit_code == 0
    before = tree(out)
    result = train(small, out, "run.iterations=2", "run.seed=1")
    assert_one_line_error(result, f"{out}: already holds a run; resume it with --resume {out}/lat")
    assert tree(out) == before
    result = train(small, out, "run.iterations=2", "run.seed=1", "run.overwrite=true")
    assert result.exit_code == 0, result.output
    assert sorted(tree(out)) == [
        "config.yaml",
        "latest.pt",
        "metrics.jsonl",
        "networks.pt",
        "train.log",
    ]
    assert [line["iteration"] for line in read_metrics(out / "metrics.jsonl")] == [1, 2]


@pytest.mark.parametrize(
    ("text", "override", "message"),
    [
        ("netwrk: {}\n", "run.seed=1", "netwrk: unknown key; did you mean network?"),
        ("{}\n", "run.sed=1", "--set run.sed=1: run.sed: unknown key; did you mean seed?"),
        ("run: {seed: -1}\n", "run.name=x", "run.seed: got -1, expected greater than or equal"),
        ("rules: {hand_size: 40}\n", "run.name=x", "rules.hand_size is 40"),
    ],
)
def test_a_wrong_config_is_one_line_and_writes_nothing(tmp_path, text, override, message):
    path = tmp_path / "a.yaml"
    path.write_text(text)
    assert_one_line_error(train(path, tmp_path / "run", override), message)
    assert os.listdir(tmp_path) == ["a.yaml"]


def test_a_missing_or_torn_checkpoint_is_one_line_and_changes_nothing(small, tmp_path):
    out = tmp_path / "run"
    assert train(small, out, "run.iterations=1").exit_code == 0
    (out / "torn.pt").write_bytes((out / "latest.pt").read_bytes()[:-100])
    before = tree(out)
    for command in ("train", "eval"):
        missing = cli(command, "--resume", out / "none.pt")
        assert_one_line_error(missing, "none.pt: there is no such checkpoint; try ")
        torn = cli(command, "--resume", out / "torn.pt")
        assert_one_line_error(torn, "torn.pt: is torn or damaged (")
    warm = train(small, tmp_path / "warm", f"run.warm_start={out}/torn.pt")
    assert_one_line_error(warm, "torn.pt: is torn or damaged (")
    assert not (tmp_path / "warm").exists()
    assert tree(out) == before


def test_a_checkpoint_of_other_networks_is_one_line(small, tmp_path):
    out = tmp_path / "run"
    assert train(small, out, "run.iterations=1").exit_code == 0
    for command in ("train", "eval"):
        result = cli(command, "--resume", out / "latest.pt", "--set", "network.hidden_size=8")
        assert_one_line_error(result, "latest.pt: ")


def test_eval_plays_what_the_checkpoint_was_trained_for(small, tmp_path):
    out = tmp_path / "run"
    assert train(small, out, "run.iterations=1").exit_code == 0
    before = tree(out)
    options = ["--set", "evaluation.opponents=[random, discard_only]"]
    result = cli("eval", "--resume", out / "latest.pt", *options)
    assert result.exit_code == 0, result.output
    rows = [line.split("│") for line in result.stdout.splitlines() if line.startswith("│")]
    assert [(row[1].strip(), row[2].strip()) for row in rows] == [
        (policy, bot) for policy in ("average", "current") for bot in ("random", "discard_only")
    ]
    assert re.fullmatch(r" +\d+\.\d% ", rows[0][3])
    options = ["--set", "evaluation.policies=current"]
    result = cli("eval", "--resume", out / "latest.pt", *options)
    assert "average" not in result.stdout
    assert tree(out) == before


def test_eval_plays_every_bot_with_networks_alone_and_by_short_options(small, tmp_path):
    """The run itself was evaluated against random only; its networks are all that is left."""
    out = tmp_path / "run"
    assert train(small, out, "run.iterations=1").exit_code == 0
    networks = tmp_path / "moved.pt"
    (out / "networks.pt").rename(networks)
    short = ["--policy", "average", "--games", "6", "--seed", "3"]
    result = cli("eval", "--resume", networks, *short)
    assert result.exit_code == 0, result.output
    assert "iteration 1, 6 games each, seed 3" in result.stdout
    rows = [line.split("│") for line in result.stdout.splitlines() if line.startswith("│")]
    assert [(row[1].strip(), row[2].strip()) for row in rows] == [
        ("average", bot) for bot in ("random", "discard_only", "safe_heuristic")
    ]
    heading = next(line for line in result.stdout.splitlines() if "win rate" in line)
    assert [cell.strip() for cell in re.split("[┃│]", heading)[1:-1]] == [
        "policy",
        "opponent",
        "win rate",
        "95% interval",
        "points ahead",
        "colors opened",
        "points each",
        "steps",
        "games cut",
    ]
    settings = ["evaluation.policies=average", "evaluation.games=6", "run.seed=3"]
    long = cli("eval", "--resume", networks, *(o for text in settings for o in ("--set", text)))
    assert long.stdout == result.stdout
    assert_one_line_error(cli("eval", "--resume", networks, "--games", "7"), "evaluation.games")
    resumed = cli("train", "--resume", networks, "--config", small, "--set", f"run.out={out}/b")
    assert_one_line_error(resumed, "moved.pt: holds networks alone")


def test_analyze_draws_the_plots_of_runs(small, tmp_path):
    out = tmp_path / "run"
    assert train(small, out, "run.iterations=2").exit_code == 0
    result = cli("analyze", out)
    assert result.exit_code == 0, result.output
    paths = [Path(line) for line in result.stdout.splitlines()]
    assert [path.relative_to(out) for path in paths] == [
        Path("plots/runs.png"),
        Path("plots/phase_times.png"),
        Path("plots/runs.md"),
        Path("plots/runs.csv"),
    ]
    for path in paths[:2]:
        with Image.open(path) as image:
            image.load()
            assert image.format == "PNG"
    assert_one_line_error(cli("analyze", tmp_path), "metrics.jsonl: cannot be read")


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_keeps_the_last_checkpoint(small, tmp_path):
    out = tmp_path / "run"
    assert train(small, out, "run.iterations=1").exit_code == 0
    checkpoint = (out / "latest.pt").read_bytes()
    # The kernel refuses to let a file grow past this, as it would on a full disk.
    size = len(checkpoint) // 2
    done = subprocess.run(
        [PROGRAM, "train", "--resume", out / "latest.pt", "--set", "run.iterations=2"],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
    )
    assert done.returncode == 2
    assert done.stderr == (
        f"lost-cities-deep-cfr: error: {out}/latest.pt: could not be written (File too large); "
        "the checkpoint before it is intact; free some space or write elsewhere\n"
    )
    assert (out / "latest.pt").read_bytes() == checkpoint
    assert sorted(tree(out)) == [
        "config.yaml",
        "latest.pt",
        "metrics.jsonl",
        "networks.pt",
        "train.log",
    ]
    assert "CheckpointError" in (out / "train.log").read_text()
    result = cli("train", "--resume", out / "latest.pt", "--set", "run.iterations=2")
    assert result.exit_code == 0, result.output
    assert [line["iteration"] for line in read_metrics(out / "metrics.jsonl")] == [1, 2]


def test_a_cold_start_says_once_that_it_compiles(small, tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    first, second = (train(small, tmp_path / name, "run.iterations=1") for name in "ab")
    assert (first.exit_code, second.exit_code) == (0, 0), first.output
    assert first.stderr == COMPILING + "\n"
    assert second.stderr == ""
    # What was rehearsed is not part of the run.
    assert_same_run(tmp_path / "a", tmp_path / "b")


@pytest.mark.slow
def test_a_rehearsal_leaves_nothing_to_compile(small, tmp_path):
    code = (
        "import sys; from pathlib import Path\n"
        "from coolrl_lost_cities.games.classic.deep_cfr.cli import app\n"
        "from coolrl_lost_cities.games.classic.deep_cfr.config import load_config\n"
        "from coolrl_lost_cities.games.classic.deep_cfr.rehearsal import rehearse\n"
        "def compiled(): return len(list(Path(sys.argv[1]).rglob('*.nbc')))\n"
        "rehearse(load_config(Path(sys.argv[2])))\n"
        "before = compiled()\n"
        "app(['train', '--config', sys.argv[2], '--set', 'run.iterations=2', '--set',"
        " 'run.out=' + sys.argv[3]], standalone_mode=False)\n"
        "print('compiled', before, compiled())\n"
    )
    cache = tmp_path / "cache"
    done = subprocess.run(
        [sys.executable, "-c", code, cache, small, tmp_path / "run"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"NUMBA_CACHE_DIR": str(cache)},
    )
    _, before, after = done.stdout.splitlines()[-1].split()
    assert int(before) == int(after) > 20
    # Each for one list of types: of two lists, two processes could mix up the files.
    assert {path.suffixes[-2] for path in cache.rglob("*.nbc")} == {".1"}


@pytest.mark.slow
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM], ids=["ctrl_c", "sigterm"])
def test_a_signal_writes_a_checkpoint_from_which_the_run_ends_the_same(small, tmp_path, stop):
    whole, broken = tmp_path / "whole", tmp_path / "broken run"
    # The broken run has a worker, which the terminal sends Ctrl-C as well.
    options = ["run.iterations=100000", f"run.out={broken}", "traversal.num_workers=1"]
    command = [PROGRAM, "train", "--config", small]
    command += [part for option in options for part in ("--set", option)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    said = ""
    while "iteration 1/100000" not in said:
        said += process.stdout.readline()
    os.killpg(process.pid, stop)  # as a terminal and a batch system do
    rest, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + stop, errors
    assert "finishing this iteration, then stopping" in rest
    assert errors in {"", COMPILING + "\n"}
    stopped = re.search(
        r"stopped after iteration (\d+) of 100000; resume with: (.+)\n", said + rest
    )
    assert stopped is not None
    iteration = int(stopped[1])
    assert load_checkpoint(broken / "latest.pt")["iteration"] == iteration
    assert len(read_metrics(broken / "metrics.jsonl")) == iteration

    program, *arguments = shlex.split(stopped[2])
    assert program == PROGRAM.name
    last = f"run.iterations={iteration + 2}"
    result = cli(*arguments, "--set", last, "--set", "traversal.num_workers=0")
    assert result.exit_code == 0, result.output
    assert train(small, whole, last).exit_code == 0
    assert_same_run(whole, broken)


def test_the_smoke_config_runs_everything_once(tmp_path):
    out = tmp_path / "run"
    result = train(CONFIGS / "smoke.yaml", out)
    assert result.exit_code == 0, result.output
    (line,) = (out / "metrics.jsonl").read_text().splitlines()
    metrics = json.loads(line)
    assert metrics["traversals"] == 64
    assert set(metrics["evaluation"]) == {"average", "current"}
    assert set(metrics["evaluation"]["average"]) == {"random", "discard_only", "safe_heuristic"}
