import csv
import json
from pathlib import Path

import pytest
from PIL import Image

from coolrl_lost_cities.games.classic.deep_cfr.analyze import (
    AnalysisError,
    runs_figure,
    summary,
    times_figure,
    write_analysis,
)
from coolrl_lost_cities.games.classic.deep_cfr.metrics import read_metrics


def line(iteration: int, evaluated: bool) -> dict:
    metrics: dict = {
        "iteration": iteration,
        "seconds": {"traversal": 2.0 + iteration, "advantage_training": 1.0},
        "advantage_loss_0": 1.0 / iteration,
        "advantage_loss_1": 0.9 / iteration,
        "strategy_loss": 2.0,
        "explained": 0.1 * iteration,
        "advantage_samples": [10, 20],
    }
    if evaluated:
        metrics["seconds"]["evaluation"] = 0.5
        metrics["evaluation"] = {
            policy: {
                "random": {
                    "win_rate": rate,
                    "interval_low": rate - 0.1,
                    "interval_high": rate + 0.1,
                    "opened_colors": 4.5,
                }
            }
            for policy, rate in (("average", 0.6), ("current", 0.4 + 0.01 * iteration))
        }
    return metrics


def written_run(folder: Path, iterations: int, eval_every: int) -> Path:
    folder.mkdir(parents=True)
    lines = [line(i, bool(eval_every) and i % eval_every == 0) for i in range(1, iterations + 1)]
    text = "".join(json.dumps(entry) + "\n" for entry in lines)
    (folder / "metrics.jsonl").write_text(text)
    return folder


def test_plots_are_png_files(tmp_path):
    runs = [written_run(tmp_path / "a", 9, 3), written_run(tmp_path / "b", 1, 1)]
    paths = write_analysis(runs, tmp_path / "plots")
    assert [path.name for path in paths] == ["runs.png", "phase_times.png", "runs.md", "runs.csv"]
    for path in paths[:2]:
        with Image.open(path) as image:
            image.load()
            assert image.format == "PNG"
            colors = image.convert("RGB").getcolors(maxcolors=1 << 24)
            assert colors is not None
            assert image.width > 400
            assert len(colors) > 20  # lines and text, not an empty page


def panels_of(figure):
    return {(axes.get_title(), axes.get_ylabel()): axes for axes in figure.axes}


def test_panels_are_what_some_run_measured(tmp_path):
    plain, played = written_run(tmp_path / "a", 3, 0), written_run(tmp_path / "b", 3, 1)
    records = {run.name: read_metrics(run / "metrics.jsonl") for run in (plain, played)}
    learning = [
        ("advantage loss, first network", "mean over the steps"),
        ("advantage loss, second network", "mean over the steps"),
        ("strategy loss", "mean over the steps"),
        ("targets explained by the network", "R2 on new samples"),
    ]
    assert list(panels_of(runs_figure({"a": records["a"]}))) == learning
    assert list(panels_of(runs_figure(records))) == [
        *learning,
        ("against random", "win rate, 95% interval"),
        ("against random", "colors opened"),
    ]


def test_lines_show_the_numbers_of_the_metrics(tmp_path):
    run = written_run(tmp_path / "a", 9, 3)
    figure = runs_figure({"a": read_metrics(run / "metrics.jsonl")})
    panels = panels_of(figure)
    loss = panels["advantage loss, first network", "mean over the steps"].lines[0]
    assert list(loss.get_xdata()) == list(range(1, 10))
    assert list(loss.get_ydata()) == [1.0 / i for i in range(1, 10)]

    panel = panels["against random", "win rate, 95% interval"]
    average, current = panel.lines[:2]
    assert (average.get_label(), current.get_label()) == ("a, average", "a, current")
    assert (average.get_linestyle(), current.get_linestyle()) == ("-", "--")
    assert list(current.get_xdata()) == [3, 6, 9]
    assert list(current.get_ydata()) == pytest.approx([0.43, 0.46, 0.49])
    band = panel.collections[1].get_datalim(panel.transData)
    assert (band.y0, band.y1) == pytest.approx((0.33, 0.59))
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "a, average", "a, current"]


def test_two_runs_are_overlaid_by_color(tmp_path):
    runs = [written_run(tmp_path / name, 4, 2) for name in ("a", "b")]
    panels = panels_of(runs_figure({r.name: read_metrics(r / "metrics.jsonl") for r in runs}))
    lines = panels["against random", "win rate, 95% interval"].lines[:4]
    assert [line.get_color() for line in lines] == ["C0", "C0", "C1", "C1"]
    assert [line.get_label() for line in panels["strategy loss", "mean over the steps"].lines] == [
        "a",
        "b",
    ]


def test_tables_hold_the_last_numbers_and_all_of_them(tmp_path):
    runs = [written_run(tmp_path / "a", 9, 3), written_run(tmp_path / "b", 2, 0)]
    write_analysis(runs, tmp_path / "plots")
    text = (tmp_path / "plots" / "runs.md").read_text()
    assert text == summary({run.name: read_metrics(run / "metrics.jsonl") for run in runs})
    lines = text.splitlines()
    assert lines[0] == "| at the last iteration | a | b |"
    assert "| iterations | 9 | 2 |" in lines
    assert "| targets explained by the network (R2 on new samples) | 0.9 | 0.2 |" in lines
    assert "| a | current | random | 9 | 0.49 |  | 4.5 |  |  |  |" in lines
    assert not any(line.startswith("| b | ") for line in lines)

    with (tmp_path / "plots" / "runs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["run"], row["iteration"]) for row in rows] == [
        *(("a", str(i)) for i in range(1, 10)),
        ("b", "1"),
        ("b", "2"),
    ]
    assert float(rows[8]["evaluation.current.random.win_rate"]) == pytest.approx(0.49)
    assert rows[9]["evaluation.current.random.win_rate"] == ""
    assert float(rows[0]["seconds.traversal"]) == 3.0


def test_phase_times_are_stacked(tmp_path):
    run = written_run(tmp_path / "a", 2, 2)
    (panel,) = times_figure({"a": read_metrics(run / "metrics.jsonl")}).axes
    tops = {
        container.get_label(): [bar.get_y() + bar.get_height() for bar in container]
        for container in panel.containers
    }
    assert tops == {
        "advantage_training": [1.0, 1.0],
        "evaluation": [1.0, 1.5],
        "traversal": [4.0, 5.5],
    }


def test_runs_of_the_same_name_are_told_apart(tmp_path):
    runs = [written_run(tmp_path / side / "x", 2, 0) for side in ("left", "right")]
    write_analysis(runs, tmp_path / "plots")
    heading = (tmp_path / "plots" / "runs.md").read_text().splitlines()[0]
    assert heading == f"| at the last iteration | {runs[0]} | {runs[1]} |"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"metrics\.jsonl: cannot be read \(No such file or directory\); expected the fold"),
        ("", r"metrics\.jsonl: holds no iteration yet"),
        ("oops\n", r"metrics\.jsonl:1: expected a JSON object"),
    ],
)
def test_a_run_that_cannot_be_plotted_leaves_nothing(tmp_path, text, message):
    good, bad = written_run(tmp_path / "good", 2, 0), tmp_path / "bad"
    bad.mkdir()
    if text is not None:
        (bad / "metrics.jsonl").write_text(text)
    with pytest.raises(AnalysisError, match=message):
        write_analysis([good, bad], tmp_path / "plots")
    assert not (tmp_path / "plots").exists()
