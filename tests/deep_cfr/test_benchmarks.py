"""The benchmarks measure what they say, at sizes that take no time. No timing is asserted."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks import ablations, variance
from benchmarks.measuring import Spent, compared, in_turn, repeated, spent
from benchmarks.products import forward_products, layer_shapes, training_products
from benchmarks.table import table as markdown
from benchmarks.tiny import Point, rules_overrides, share_of_range, tiny_config
from benchmarks.tiny_curves import draw, parse_variant, run, table
from benchmarks.trainer import PARTS, benchmark
from benchmarks.workload import Sizes, sized, some_networks
from coolrl_lost_cities.games.classic.deep_cfr.checkpoints import load_checkpoint
from coolrl_lost_cities.games.classic.deep_cfr.config import build_rules, load_config
from coolrl_lost_cities.games.classic.deep_cfr.exact import build_tree
from coolrl_lost_cities.games.classic.deep_cfr.networks import load_networks
from coolrl_lost_cities.games.classic.deep_cfr.policies import average_policy
from coolrl_lost_cities.games.classic.rules import TINY, TINY_ONE_COLOR

ROOT = Path(__file__).resolve().parent.parent.parent
SMALL = Sizes(
    networks=((16, 2),),
    games=8,
    steps=5,
    lanes=16,
    traversals=8,
    batches=2,
    samples=400,
    batch_size=16,
    gathers=2,
    training_steps=2,
    matches=4,
    matches_one_by_one=2,
    requests=2,
    request_rows=16,
)
CONFIG = load_config(
    None,
    [
        "rules.num_colors=3",
        "rules.num_ranks=4",
        "rules.hand_size=3",
        "rules.max_steps=40",
        "traversal.lanes=16",
    ],
)
LINES = {
    "engine": ["engine, step and encode", "engine, step alone", "engine, shuffle and deal"],
    "traversal": ["traversal, 16 x 2, fp32", "traversal, 16 x 2, bf16"],
    "workers": ["workers, 2, 16 x 2"],
    "replay": [
        "replay, append",
        "replay, append to a full memory",
        "replay, batches of 16, dense",
    ],
    "step": ["step of 16 rows, 16 x 2, fp32", "step of 16 rows, 16 x 2, bf16"],
    "evaluation": ["evaluation, 4 games, 16 x 2"],
    "server": ["server, 16 rows a request, 16 x 2"],
}


@pytest.mark.slow
@pytest.mark.parametrize("part", LINES)
def test_each_part_gives_its_lines(part: str) -> None:
    torch.set_num_threads(1)
    lines = list(benchmark(CONFIG, SMALL, 1, [part]))
    assert [line["benchmark"] for line in lines] == LINES[part]
    for line in lines:
        assert line["count"] > 0
        assert line["against"]
        assert (line["rounds"], line["device"], len(line["load"])) == (1, "cpu", 3)
        assert json.loads(json.dumps(line, allow_nan=False)) == line
        # A step is a difference of two runs, which at this size may come out as anything.
        if part != "step":
            assert min(line["wall_us"], line["ratio_wall"], line["ratio_cpu"]) > 0


def test_every_part_is_tested() -> None:
    assert list(LINES) == list(PARTS)


def test_an_unknown_part_is_refused() -> None:
    command = [sys.executable, "-m", "benchmarks.trainer", "trees"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.endswith(f"PART is trees; expected one of {', '.join(PARTS)}\n")


def test_ratios_are_of_one_unit() -> None:
    line = compared(
        "x",
        unit="rows",
        count=200,
        ours=Spent(wall_s=4.0, cpu_s=2.0),
        against="y",
        theirs=Spent(wall_s=1.0, cpu_s=1.0),
        their_count=100,
    )
    assert (line["wall_us"], line["cpu_us"], line["per_s"], line["per_cpu_s"]) == (
        2e4,
        1e4,
        50,
        100,
    )
    assert (line["ratio_wall"], line["ratio_cpu"]) == (2.0, 1.0)


def test_rounds_take_turns_and_the_first_is_not_counted() -> None:
    calls: list[str] = []
    waits = iter([0.2, 0.0, 0.0])

    def first() -> None:
        calls.append("a")
        time.sleep(next(waits))

    found = in_turn({"a": first, "b": repeated(lambda: calls.append("b"), 2)}, rounds=2)
    assert calls == ["a", "b", "b"] * 3
    assert 0 < found["a"].wall_s < 0.1  # the mean with the first round would be above


def test_time_of_other_processes_counts() -> None:
    code = "import sys\nsys.stdin.read(1)\nsum(range(10**7))\nprint(flush=True)\nsys.stdin.read()"
    command = [sys.executable, "-c", code]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:

        def work() -> None:
            process.stdin.write("x")
            process.stdin.flush()
            process.stdout.readline()

        with_it = spent(work, [process.pid])
        process.stdin.close()
        process.wait()
    assert with_it.cpu_s > 0.01  # adding ten million numbers up; this process only waits


class Products(TorchDispatchMode):
    """Notes the sizes of every matrix product: rows, inner size, columns."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[tuple[int, int, int]] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket is torch.ops.aten.mm:
            self.sizes.append((args[0].shape[0], args[0].shape[1], args[1].shape[1]))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_products_have_the_shapes_of_the_network(precision: str) -> None:
    config = sized(CONFIG, 24, 2, precision)
    network = some_networks(config)[0]
    width, actions = len(network.feature_scale), build_rules(config.rules).num_actions
    shapes = layer_shapes(network)
    assert shapes == [(24, width), (24, 24), (actions, 24)]
    with Products() as forward:
        forward_products(shapes, 32, precision, "cpu")()
    assert forward.sizes == [(32, width, 24), (32, 24, 24), (32, 24, actions)]
    with Products() as training:
        training_products(shapes, 32, precision, "cpu")()
    assert training.sizes == [
        *forward.sizes,
        (actions, 32, 24),  # the gradient of the last weights, then of their inputs
        (32, actions, 24),
        (24, 32, 24),
        (32, 24, 24),
        (24, 32, width),  # the features want none
    ]


def test_a_run_on_a_tiny_game_is_followed(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    small = [
        *rules_overrides(TINY_ONE_COLOR),
        "network.hidden_size=8",
        "traversal.traversals_per_iteration=20",
        "traversal.lanes=16",
        "optimization.advantage_steps=2",
        "optimization.strategy_steps=2",
    ]
    config = tiny_config(tmp_path, 3, small)
    assert build_rules(config.rules) == TINY_ONE_COLOR
    assert (config.run.seed, config.run.out) == (3, str(tmp_path))
    points = run(config, iterations=5, every=2)
    assert [point.iteration for point in points] == [2, 4]
    assert 0 < points[0].cpu_s < points[1].cpu_s
    assert 0 < points[0].infostates < points[0].nodes < points[1].nodes
    # The last save is of the last point: its policies are those that were judged.
    stored = load_checkpoint(tmp_path / "now.pt")
    network = load_networks(config, [stored["strategy_network"]])[0]
    assert stored["iteration"] == 4
    tree = build_tree(TINY_ONE_COLOR)
    assert share_of_range(tree, average_policy(network)) == points[1].average
    assert 0 < points[1].average < 1


def test_the_default_tiny_game_is_tiny(tmp_path: Path) -> None:
    assert build_rules(tiny_config(tmp_path, 0).rules) == TINY


@pytest.mark.parametrize(
    ("text", "name", "overrides"),
    [
        ("linear:", "linear", []),
        ("a:b.c=1", "a", ["b.c=1"]),
        ("a:b.c=1,d.e=x", "a", ["b.c=1", "d.e=x"]),
        ("a:b.c=[x, y],d.e=[1,2]", "a", ["b.c=[x, y]", "d.e=[1,2]"]),
    ],
)
def test_variants_are_overrides(text: str, name: str, overrides: list[str]) -> None:
    assert parse_variant(text) == (name, overrides)


@pytest.mark.parametrize("text", ["linear", ":b.c=1", "a:b.c"])
def test_a_variant_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=rf"^--variants {text}: expected NAME:KEY=VALUE"):
        parse_variant(text)


def some_points(height: float) -> list[Point]:
    return [
        Point(number, number / 2, 90 * number, 100 * number, height / number, height)
        for number in (1, 2, 4)
    ]


def test_curves_become_a_table_and_a_plot(tmp_path: Path) -> None:
    variants = {"one": [some_points(0.2), some_points(0.4)], "two": [some_points(0.1)] * 2}
    draw(variants, 0.17, tmp_path / "plots" / "curves.png")
    assert (tmp_path / "plots" / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert table(variants).splitlines()[2:] == [
        "| one | 4 | 400 | 2.0 | 0.0750 (0.0500 to 0.1000) | 0.3000 (0.2000 to 0.4000) |",
        "| two | 4 | 400 | 2.0 | 0.0250 (0.0250 to 0.0250) | 0.1000 (0.1000 to 0.1000) |",
    ]
    solved = [Point(1, 1.0, 9, 10, -1e-18, 0.0)]
    assert table({"solved": [solved]}).endswith(
        "| solved | 1 | 10 | 1.0 | 0.0000 (0.0000 to 0.0000) | 0.0000 (0.0000 to 0.0000) |"
    )


def test_lines_become_a_table() -> None:
    line = compared(
        "traversal",
        unit="rows",
        count=2000,
        ours=Spent(wall_s=2.0, cpu_s=1.0),
        against="products",
        theirs=Spent(wall_s=1.0, cpu_s=0.8),
        forward_share=0.75,
    )
    said = {**line, "device": "cpu", "rounds": 5, "load": [0.0, 0.0, 0.0]}
    assert markdown([said]).splitlines()[2:] == [
        "| traversal | cpu | 1,000 rows | 2,000 | products | 2.0 | 1.25 | forward_share 0.75 |"
    ]


def test_an_ablation_runs_once_and_becomes_a_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = tmp_path / "lines.jsonl"
    sizes = [
        "rules.num_colors=3",
        "rules.num_ranks=4",
        "rules.hand_size=3",
        "rules.max_steps=40",
        "network.hidden_size=8",
        "value.hidden_size=8",
        "value.capacity=1000",
        "traversal.traversals_per_iteration=16",
        "traversal.lanes=16",
    ]
    arguments = ["--iterations", "2", "--out", str(lines)]
    arguments += [text for size in sizes for text in ("--set", size)]
    arguments += ["--variants", "base", "no steps:optimization.advantage_steps=1,value.steps=1"]
    ablations.main(arguments)
    first = ablations.stored(lines)
    assert [(line["variant"], line["seed"], line["iterations"]) for line in first] == [
        ("base", 0, 2),
        ("no steps", 0, 2),
    ]
    assert "optimization.advantage_steps=1" in first[1]["settings"]
    assert first[0]["matches"]["safe_heuristic"]["games"] == 1000
    assert capsys.readouterr().out.count("| base | 0 | 2 |") == 1
    ablations.main(arguments)
    assert ablations.stored(lines) == first
    ablations.main([*arguments, "--seeds", "1"])
    assert [line["seed"] for line in ablations.stored(lines)] == [0, 0, 1, 1]


def test_every_named_ablation_is_a_config_of_its_own(tmp_path: Path) -> None:
    named = ablations.chosen([])
    configs = [
        load_config(
            ablations.CPU_HOUR, ablations.settings_of(0, 5, overrides, [f"run.out={tmp_path}"])
        )
        for overrides in named.values()
    ]
    assert len(configs) == len(ablations.VARIANTS)
    assert all(one != other for i, one in enumerate(configs) for other in configs[:i])
    with pytest.raises(ValueError, match=r"^--variants bse: expected NAME:KEY=VALUE or one of"):
        ablations.chosen(["bse"])


def test_the_variance_of_estimators_is_told_from_their_bias(tmp_path: Path) -> None:
    config = tiny_config(
        tmp_path / "run",
        0,
        ["estimator.kind=escher", "optimization.advantage_steps=5", "value.steps=5"],
    )
    (tmp_path / "run").mkdir()
    networks = variance.trained(config, 1)
    rows = {name: variance.tiny_row(networks, name, 2000) for name in variance.VARIANTS}
    error, off, chance, exact = (float(text) for text in rows["outcome, score"][1:])
    assert 0 < error < exact
    assert off < 2 * chance  # unbiased
    error, off, chance, exact = (float(text) for text in rows["escher"][1:])
    assert off > 5 * chance  # a value network of five steps knows nothing
    assert all(float(row[4]) == exact for row in rows.values())
