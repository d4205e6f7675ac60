"""The bench of served forwards: what is replayed, real servers in turn, and what is claimed."""

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from coolrl_lost_cities.games.classic.deep_cfr.bench_command import (
    ToBench,
    WrongBench,
    what_to_bench,
)
from coolrl_lost_cities.games.classic.deep_cfr.cli import app
from coolrl_lost_cities.games.classic.deep_cfr.config import DeepCFRConfig, build_rules
from coolrl_lost_cities.games.classic.deep_cfr.encoding import encoding_size
from coolrl_lost_cities.games.classic.deep_cfr.fingerprint import take_fingerprint
from coolrl_lost_cities.games.classic.deep_cfr.inference_bench import (
    BUCKETS,
    DYNAMIC,
    EAGER,
    STATIC,
    WAYS,
    InferenceBench,
    Served,
    way_config,
)
from coolrl_lost_cities.games.classic.deep_cfr.inference_report import contents, table, verdict
from coolrl_lost_cities.games.classic.deep_cfr.recorded_requests import (
    Recording,
    Request,
    cut_anew,
    record_requests,
)
from coolrl_lost_cities.games.classic.deep_cfr.served_networks import BatchCount, ServedNetworks
from coolrl_lost_cities.games.classic.deep_cfr.sweep_axes import Axis

Made = Callable[..., DeepCFRConfig]


@pytest.mark.slow
@pytest.mark.usefixtures("_own_lock")
def test_four_servers_are_asked_the_same_in_turn(tiny_run: tuple[str, ...], tmp_path: Path) -> None:
    sets = [word for text in tiny_run for word in ("--set", text)]
    words = ["bench", *sets, "--out", str(tmp_path), "--target", "inference"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "inference.json").read_text())
    assert found["failed"] is None
    assert found["what"].endswith("served compiled: dynamic")
    assert found["interval"][0] <= found["effect"] <= found["interval"][1]
    assert list(found["served"]) == [EAGER, DYNAMIC, STATIC, BUCKETS]
    for name, served in found["served"].items():
        assert len(served["seconds"]) == 8
        assert served["graphs"] == ({} if name == EAGER else {"16": 1})
    assert found["served"][DYNAMIC]["compiling_s"] > found["served"][EAGER]["compiling_s"]
    assert found["forwards_replayed"].keys() == found["forwards_in_the_run"].keys() == {"16"}
    assert found["table"] in done.output
    assert found["table"] in (tmp_path / "inference.md").read_text()
    assert (tmp_path / "inference.png").read_bytes().startswith(b"\x89PNG")
    order = re.findall(r"^([a-z ]+): replay (\d)", done.output, re.MULTILINE)
    assert [name for name, _ in order[:8]] == [*WAYS, *reversed(WAYS)]
    assert not list(tmp_path.rglob("*.pt"))


def test_rows_are_those_of_games_and_sizes_those_of_the_server(
    tiny_config: Made, tmp_path: Path
) -> None:
    config = tiny_config("traversal.lanes=64", "traversal.traversals_per_iteration=200")
    found = record_requests(config, tmp_path / "recorded")
    assert sum(found.sizes.values()) > 64
    assert len(found.requests) == 64
    assert set(found.replayed) <= set(found.sizes)
    assert max(found.sizes) == 64  # as many as there are lanes
    assert len(found.weights) == 2
    width = encoding_size(build_rules(config.rules))
    assert {request.network for request in found.requests} == {0, 1}
    assert all(request.features_BE.shape[1] == width for request in found.requests)
    assert sum(int(request.features_BE.any()) for request in found.requests) == 64
    networks = ServedNetworks(config)
    networks.load(1, found.weights)
    for request in found.requests[:4]:
        assert networks.forward(request.network, request.features_BE).any()
    assert sorted(path.name for path in (tmp_path / "recorded").iterdir()) == [
        "config.yaml",
        "metrics.jsonl",
    ]


def test_sizes_are_replayed_in_proportion_and_rows_in_the_order_of_the_games() -> None:
    rows_BE = np.arange(400, dtype=np.uint16).view(np.uint8).reshape(400, 2)
    asked = [Request(0, rows_BE[start : start + 100]) for start in range(0, 400, 100)]
    found = cut_anew(asked, {16: 300, 32: 100})
    sizes = [len(one.features_BE) for one in found]
    assert (sizes.count(16), sizes.count(32)) == (48, 16)
    for request in found:
        numbers = np.ascontiguousarray(request.features_BE).view(np.uint16).ravel().astype(int)
        assert set(np.diff(numbers)) <= {1, -399}
    assert {len(one.features_BE) for one in cut_anew(asked, {16: 2, 64: 1})} == {16, 64}


@pytest.fixture
def bench_of(tiny_config: Made) -> Callable[..., InferenceBench]:
    def made(compiled: Served, *overrides: str) -> InferenceBench:
        config = tiny_config(*overrides)
        rows_BE = np.zeros((16, 4), np.uint8)
        recording = Recording({16: 9}, (Request(0, rows_BE),), [{"weight": torch.zeros(1)}])
        ways = {EAGER: Served(seconds=(1.0,) * 8)} | dict.fromkeys(
            (DYNAMIC, STATIC, BUCKETS), compiled
        )
        return InferenceBench(config, recording, ways, take_fingerprint(config), 0.0)

    return made


@pytest.mark.parametrize(
    ("each", "said"),
    [
        (0.7, "At least 20% faster."),
        (0.85, "Less than 20% faster."),
        (1.3, "Slower."),
    ],
)
def test_no_more_is_claimed_than_the_interval_shows(
    bench_of: Callable[..., InferenceBench], each: float, said: str
) -> None:
    found = bench_of(Served(seconds=tuple(each + 0.001 * k for k in range(8))))
    assert verdict(found, DYNAMIC) == said
    assert said in table(found)
    wide = bench_of(Served(seconds=(0.5, 1.1, 0.6, 1.0, 0.5, 1.1, 0.6, 1.0)))
    assert verdict(wide, DYNAMIC) == "Whether it is 20% is not shown."


def test_the_effect_is_of_the_way_that_the_configuration_names(
    bench_of: Callable[..., InferenceBench],
) -> None:
    good, bad = Served(seconds=(0.5,) * 8), Served(failed="it fell back")
    for overrides, name in (
        ([], DYNAMIC),
        (["compile.inference_server.dynamic=false"], STATIC),
        (["compile.inference_server.buckets=powers_of_two"], BUCKETS),
    ):
        found = bench_of(good, *overrides)
        others = {way: bad for way in found.served if way not in {EAGER, name}}
        found = dataclasses.replace(found, served={**found.served, **others})
        assert (found.failed, found.configured) == ("", name)
        assert contents(found)["effect"] == 0.5
        assert table(found).count("Failed: it fell back.") == 2
    failed = bench_of(bad)
    assert failed.failed == "it fell back"
    assert contents(failed)["failed"] == "it fell back"
    assert contents(failed)["effect"] is None


def test_graphs_are_counted_by_the_rows_that_they_were_made_for() -> None:
    served = Served(batches={16: BatchCount(5, 2), 32: BatchCount(3, 1), 64: BatchCount(9, 0)})
    assert served.graphs == 3


def test_each_way_is_a_setting_of_the_server(tiny_config: Made) -> None:
    config = tiny_config("compile.inference_server.fullgraph=true")
    found = {name: way_config(config, name).compile.inference_server for name in WAYS}
    assert [one.enabled for one in found.values()] == [False, True, True, True]
    assert [one.dynamic for one in found.values()][1:] == [True, False, False]
    assert [one.buckets for one in found.values()] == ["none", "none", "none", "powers_of_two"]
    assert all(one.fullgraph for one in found.values())


def test_a_command_line_says_what_is_benched() -> None:
    assert what_to_bench("inference", [], []) == ToBench(served=True)
    axes = (Axis("network.hidden_size", ("512", "1024")), Axis("network.num_layers", ("3", "6")))
    words = ["network.hidden_size=512,1024", "network.num_layers=3,6"]
    for sweep, more in ((words, []), (words[:1], words[1:]), ([" ".join(words)], [])):
        assert what_to_bench("trainer", sweep, more) == ToBench(axes=axes)
    with pytest.raises(WrongBench, match=r"^network.num_layers=3,6: stands by itself, expected"):
        what_to_bench("trainer", [], words[1:])
    with pytest.raises(WrongBench, match="call it once for each"):
        what_to_bench("inference", words, [])


def test_the_keys_of_a_sweep_need_no_quotes() -> None:
    words = ["bench", "--sweep", "network.hidden_size=512,1024", "network.num_layers=3,6"]
    done = CliRunner().invoke(app, [*words, "--target", "inference"])
    assert done.exit_code == 2
    assert "--sweep is of iterations" in done.stderr
    done = CliRunner().invoke(app, ["bench", *words[3:]])
    assert done.exit_code == 2
    assert "error: network.num_layers=3,6: stands by itself" in done.stderr
