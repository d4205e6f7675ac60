from pathlib import Path

import pytest

from coolrl_lost_cities.games.classic.deep_cfr.metrics import (
    MetricsError,
    PhaseTimes,
    append_metrics,
    read_metrics,
    truncate_metrics,
    without_times,
)


def test_what_is_appended_is_read(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    lines = [{"iteration": i, "loss": i / 3, "nested": {"a": [1, 2]}} for i in (1, 2, 3)]
    for line in lines:
        append_metrics(path, line)
    assert read_metrics(path) == lines


def test_no_number_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        append_metrics(tmp_path / "metrics.jsonl", {"iteration": 1, "loss": float("nan")})


def test_a_torn_last_line_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"iteration": 1}\n{"iteration": 2, "lo')
    assert read_metrics(path) == [{"iteration": 1}]


@pytest.mark.parametrize("line", ["{", "[1]", '{"loss": 1}', ""])
def test_a_broken_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"iteration": 1}\n' + line + "\n")
    with pytest.raises(MetricsError, match=r"metrics\.jsonl:2: expected a JSON object") as caught:
        read_metrics(path)
    assert (caught.value.path, caught.value.number) == (path, 2)


def test_truncation_drops_what_is_past_an_iteration(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    truncate_metrics(path, 3)
    assert not path.exists()
    path.write_text("".join(f'{{"iteration": {i}}}\n' for i in range(1, 7)) + '{"iter')
    truncate_metrics(path, 4)
    assert [line["iteration"] for line in read_metrics(path)] == [1, 2, 3, 4]
    assert path.read_text().endswith("4}\n")
    assert [entry.name for entry in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_times_add_up_by_phase_even_when_it_fails() -> None:
    times = PhaseTimes()
    for _ in range(2):
        with times.measure("outer"), times.measure("inner"):
            pass
    with pytest.raises(KeyError), times.measure("failed"):
        raise KeyError
    assert set(times.seconds) == {"outer", "inner", "failed"}
    assert times.seconds["outer"] >= times.seconds["inner"] > 0


def test_without_times_keeps_all_but_times_and_rates() -> None:
    metrics = {
        "iteration": 1,
        "seconds": {"traversal": 2.0},
        "nodes_per_s": 3.0,
        "evaluation": {"average": {"wins": 1, "wall_s": 2.0}},
    }
    assert without_times(metrics) == {"iteration": 1, "evaluation": {"average": {"wins": 1}}}
