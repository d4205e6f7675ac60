"""The scripts that run under the project's Python, with the real torch."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo
import torch._dynamo.utils as dynamo

PROBES = Path(__file__).parents[2] / "porttool" / "verifying" / "probes"


def count(
    tmp_path: Path, program: str, *arguments: str, module: bool = False
) -> tuple[int, dict[str, Any], str]:
    """Run a program under count_frames; return its exit status, the counts and its output."""
    (tmp_path / "package").mkdir(exist_ok=True)
    (tmp_path / "package" / "program.py").write_text(program)
    out = tmp_path / "counts.json"
    target = ["-m", "package.program"] if module else [str(tmp_path / "package" / "program.py")]
    done = subprocess.run(
        [sys.executable, str(PROBES / "count_frames.py"), str(out), *target, *arguments],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, json.loads(out.read_text()), done.stdout + done.stderr


def test_a_program_without_torch_compiled_nothing_and_sees_itself(tmp_path: Path) -> None:
    program = "import sys; print(sys.argv, __name__, sys.path[0], 'torch' in sys.modules)"
    code, counts, output = count(tmp_path, program, "--a", "b", module=True)
    path = str(tmp_path / "package" / "program.py")
    assert output.strip() == f"{[path, '--a', 'b']} __main__ {tmp_path} False"
    assert code == 0
    assert (counts["frames_ok"], counts["graphs"], counts["finished"]) == (0, 0, True)
    assert counts["origin"] == path


def test_a_script_sees_its_own_folder_first(tmp_path: Path) -> None:
    code, counts, output = count(tmp_path, "import sys; print(sys.argv, sys.path[0])", "x")
    path = str(tmp_path / "package" / "program.py")
    assert output.strip() == f"{[path, 'x']} {tmp_path / 'package'}"
    assert (code, counts["origin"]) == (0, path)


@pytest.mark.parametrize(
    ("program", "code", "finished"),
    [
        ("import sys; sys.exit(3)", 3, False),
        ("import sys; sys.exit()", 0, True),
        ("raise ValueError('no')", 1, False),
    ],
)
def test_the_exit_status_is_passed_on(
    tmp_path: Path, program: str, code: int, finished: bool
) -> None:
    seen, counts, _ = count(tmp_path, program)
    assert (seen, counts["finished"]) == (code, finished)


def test_workers_started_by_spawn_find_the_program(tmp_path: Path) -> None:
    program = """
import multiprocessing

def work(queue):
    queue.put(__name__)

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    worker = context.Process(target=work, args=(queue,))
    worker.start()
    print(queue.get(timeout=60))
    worker.join()
"""
    _, _, output = count(tmp_path, program, module=True)
    assert output.strip() == "__mp_main__"


def test_frames_recompiles_and_the_recompile_limit_are_counted() -> None:
    torch._dynamo.reset()
    dynamo.clear_compilation_metrics()
    dynamo.counters.clear()
    counted = runpy.run_path(str(PROBES / "count_frames.py"))["compiled"]

    plain = torch.nn.Linear(3, 2)
    net = torch.compile(plain, backend="eager", dynamic=False)
    plain(torch.zeros(1, 3))
    unused = counted()
    assert (unused["frames_ok"], unused["graphs"], unused["compilations"]) == (0, 0, 0)

    net(torch.zeros(1, 3))
    net(torch.zeros(1, 3))
    once = counted()
    assert (once["frames_ok"], once["graphs"], once["compilations"]) == (1, 1, 1)
    assert (once["recompiles"], once["failures"]) == ([], [])

    assert torch._dynamo.config.recompile_limit == 8
    for rows in range(2, 9):
        net(torch.zeros(rows, 3))
    often = counted()
    assert (often["frames_ok"], often["graphs"], often["compilations"]) == (8, 8, 8)
    assert len(often["recompiles"]) == 7
    assert "size mismatch" in often["recompiles"][0]
    assert (often["limit_hits"], often["frames_failed"]) == (0, 0)

    net(torch.zeros(9, 3))
    past = counted()
    assert (past["frames_ok"], past["graphs"]) == (8, 8)
    assert (past["limit_hits"], past["frames_failed"], len(past["failures"])) == (1, 1, 1)


def test_a_compiled_backward_is_no_frame_of_its_own() -> None:
    torch._dynamo.reset()
    dynamo.clear_compilation_metrics()
    dynamo.counters.clear()
    net = torch.compile(torch.nn.Linear(3, 2), backend="aot_eager")
    net(torch.zeros(4, 3)).sum().backward()
    counts = runpy.run_path(str(PROBES / "count_frames.py"))["compiled"]()
    assert (counts["frames_ok"], counts["graphs"], counts["compilations"]) == (1, 1, 1)
    assert (counts["frames_failed"], counts["limit_hits"], counts["failures"]) == (0, 0, [])


def write_run(folder: Path, checkpoint: object, lines: str) -> None:
    folder.mkdir()
    torch.save(checkpoint, folder / "latest.pt")
    (folder / "metrics.jsonl").write_text(lines)


def arguments_for(tmp_path: Path, ignore: tuple[str, ...]) -> list[str]:
    return [
        *(str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "found.json")),
        *("--prefix", "_orig_mod."),
        *("--checkpoint", "latest.pt", "--metrics", "metrics.jsonl"),
        *(word for name in ignore for word in ("--ignore", name)),
    ]


def compare(
    tmp_path: Path,
    a: object,
    b: object,
    *ignore: str,
    records: tuple[str, str] = ("", ""),
    more: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Save two runs and return what compare_runs finds, here to start torch once."""
    write_run(tmp_path / "a", a, records[0])
    write_run(tmp_path / "b", b, records[1])
    arguments = [*arguments_for(tmp_path, ignore), *more]
    runpy.run_path(str(PROBES / "compare_runs.py"))["main"](arguments)
    found: dict[str, Any] = json.loads((tmp_path / "found.json").read_text())
    return found


def state(**changes: object) -> dict[str, object]:
    base: dict[str, object] = {
        "net": {"0.weight": torch.tensor([1.0, float("nan"), 0.0])},
        "optimizer": {"state": {0: {"step": torch.tensor(3)}}, "names": ["0.weight"]},
        "iteration": 1,
        "config": {"out": "a"},
    }
    return {**base, **changes}


def test_equal_runs_are_equal_nan_and_empty_containers_included(tmp_path: Path) -> None:
    lines = '{"loss": NaN, "seconds": 1.5}\n'
    found = compare(tmp_path, state(x={}, y=[]), state(x={}, y=[]), records=(lines, lines))
    assert found["checkpoint"]["same"]
    assert found["metrics"]["same"]
    assert found["checkpoint"]["tensors"] == 2
    assert found["checkpoint"]["values"] == 7
    assert found["records"] == [1, 1]
    assert (found["prefixed_a"], found["prefixed_b"]) == ([], [])


def test_the_script_writes_its_finding_and_prints_nothing(tmp_path: Path) -> None:
    write_run(tmp_path / "a", state(), "")
    write_run(tmp_path / "b", state(iteration=2), "")
    done = subprocess.run(
        [sys.executable, str(PROBES / "compare_runs.py"), *arguments_for(tmp_path, ())],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("", "")
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["checkpoint"]["different"] == ["iteration: 1 against 2"]


def test_one_bit_in_one_tensor_is_seen(tmp_path: Path) -> None:
    other = {"0.weight": torch.tensor([1.0, float("nan"), -0.0])}
    found = compare(tmp_path, state(), state(net=other))
    assert found["checkpoint"]["different"] == [
        "net.0.weight: 1 of 3 elements differ, by at most nan"
    ]
    assert found["checkpoint"]["same_keys"]
    assert not found["checkpoint"]["same"]


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (
            {"0.weight": torch.zeros(3, dtype=torch.float64)},
            "torch.float32 [3] against torch.float64",
        ),
        ({"0.weight": torch.zeros(1, 3)}, "[3] against torch.float32 [1, 3]"),
        ({"0.weight": 3}, "a Tensor against a int"),
    ],
)
def test_type_and_shape_are_compared(tmp_path: Path, other: dict[str, object], what: str) -> None:
    found = compare(tmp_path, state(), state(net=other))
    assert what in found["checkpoint"]["different"][0]


def test_keys_are_compared_and_int_keys_are_not_text(tmp_path: Path) -> None:
    other = {"state": {"0": {"step": torch.tensor(3)}}, "names": ["0.weight"]}
    found = compare(tmp_path, state(), state(optimizer=other))
    assert found["checkpoint"]["only_a"] == ["optimizer.state[0].step"]
    assert found["checkpoint"]["only_b"] == ["optimizer.state.0.step"]
    assert not found["checkpoint"]["same_keys"]


def test_ignored_names_hide_values_but_not_the_prefix(tmp_path: Path) -> None:
    found = compare(
        tmp_path,
        state(),
        state(config={"out": "b", "_orig_mod.key": 1}),
        *("conf*", "seconds"),
        records=('{"t": {"seconds": 1}, "loss": 2}\n', '{"t": {"seconds": 9}, "loss": 2}\n'),
    )
    assert found["checkpoint"]["same"]
    assert found["metrics"]["same"]
    assert found["prefixed_b"] == ["config._orig_mod.key"]


def test_a_prefix_that_is_the_project_s_own_is_no_leak(tmp_path: Path) -> None:
    """A part that is called `module`, beside one that a wrapper called so."""
    own = {"net": {"module.0.weight": torch.ones(1)}, "names": ["module.0.weight"]}
    later = {"net": own["net"], "names": ["x", "module.0.weight"]}
    leaking = {"net": {"module.module.0.weight": torch.ones(1)}, "names": ["module.0.weight"]}
    write_run(tmp_path / "own", own, "")
    more = ("--prefix", "module.", "--own", str(tmp_path / "own"))
    cases = ((own, []), (later, []), (leaking, ["net.module.module.0.weight"]))
    for number, (b, leaks) in enumerate(cases):
        folder = tmp_path / str(number)
        folder.mkdir()
        found = compare(folder, own, b, more=more)
        assert (found["prefixed_a"], found["prefixed_b"]) == ([], leaks)


def test_metrics_differ_by_record_and_by_number(tmp_path: Path) -> None:
    records = ('{"loss": 1.0}\n{"loss": 0.1}\n', '{"loss": 1.0}\n{"loss": 0.2}\n{"loss": 3}\n')
    found = compare(tmp_path, state(), state(), records=records)
    assert found["metrics"]["different"] == ["[1].loss: 0.1 against 0.2"]
    assert found["metrics"]["only_b"] == ["[2].loss"]
    assert found["records"] == [2, 3]


def test_the_prefix_is_found_at_any_depth_in_keys_and_in_text(tmp_path: Path) -> None:
    leaking: Mapping[str, object] = {
        "nets": [{"_orig_mod.0.weight": torch.zeros(1)}],
        "owner": {"net._orig_mod.bias": torch.zeros(1)},
        "optimizer": {"param_groups": [{"param_names": ["_orig_mod.0.weight"]}]},
    }
    found = compare(tmp_path, state(), leaking)
    assert found["prefixed_b"] == [
        "nets[0]._orig_mod.0.weight",
        "owner.net._orig_mod.bias",
        "optimizer.param_groups[0].param_names[0] = '_orig_mod.0.weight'",
    ]
    assert found["prefixed_a"] == []
