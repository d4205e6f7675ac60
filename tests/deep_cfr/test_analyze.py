import json
from pathlib import Path

import pytest
from PIL import Image

from coolrl_lost_cities.games.classic.deep_cfr.analyze import (
    AnalysisError,
    draw_plots,
    losses_figure,
    times_figure,
    win_rates_figure,
)
from coolrl_lost_cities.games.classic.deep_cfr.metrics import read_metrics


def line(iteration: int, evaluated: bool) -> dict:
    metrics: dict = {
        "iteration": iteration,
        "seconds": {"traversal": 2.0 + iteration, "advantage_training": 1.0},
        "advantage_loss_0": 1.0 / iteration,
        "advantage_loss_1": 0.9 / iteration,
        "strategy_loss": 2.0,
    }
    if evaluated:
        metrics["seconds"]["evaluation"] = 0.5
        metrics["evaluation"] = {
            policy: {
                "random": {
                    "win_rate": rate,
                    "interval_low": rate - 0.1,
                    "interval_high": rate + 0.1,
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
    paths = draw_plots(runs, tmp_path / "plots")
    assert [path.name for path in paths] == ["losses.png", "phase_times.png", "win_rates.png"]
    for path in paths:
        with Image.open(path) as image:
            image.load()
            assert image.format == "PNG"
            colors = image.convert("RGB").getcolors(maxcolors=1 << 24)
            assert colors is not None
            assert image.width > 400
            assert len(colors) > 20  # lines and text, not an empty page


def test_a_run_without_evaluation_has_no_win_rates(tmp_path):
    run = written_run(tmp_path / "a", 3, 0)
    paths = draw_plots([run], run / "plots")
    assert [path.name for path in paths] == ["losses.png", "phase_times.png"]


def test_lines_show_the_numbers_of_the_metrics(tmp_path):
    run = written_run(tmp_path / "a", 9, 3)
    records = {"a": read_metrics(run / "metrics.jsonl")}
    first, _, last = losses_figure(records).axes
    assert list(first.lines[0].get_xdata()) == list(range(1, 10))
    assert list(first.lines[0].get_ydata()) == [1.0 / i for i in range(1, 10)]
    assert last.get_title() == "strategy loss"

    (panel,) = win_rates_figure(records, ["random"]).axes
    average, current = panel.lines[:2]
    assert panel.get_title() == "against random"
    assert (average.get_label(), current.get_label()) == ("a, average", "a, current")
    assert list(current.get_xdata()) == [3, 6, 9]
    assert list(current.get_ydata()) == pytest.approx([0.43, 0.46, 0.49])
    band = panel.collections[1].get_datalim(panel.transData)
    assert (band.y0, band.y1) == pytest.approx((0.33, 0.59))


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
    records = {str(run): read_metrics(run / "metrics.jsonl") for run in runs}
    labels = [drawn.get_label() for drawn in losses_figure(records).axes[0].lines]
    assert labels == [str(run) for run in runs]
    assert len(draw_plots(runs, tmp_path / "plots")) == 2


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
        draw_plots([good, bad], tmp_path / "plots")
    assert not (tmp_path / "plots").exists()
