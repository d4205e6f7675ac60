"""One or several runs, from their metrics files: a page of plots, phase times, and tables."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from coolrl_lost_cities.games.classic.deep_cfr.errors import DeepCFRError
from coolrl_lost_cities.games.classic.deep_cfr.metrics import Metrics, read_metrics

Runs = Mapping[str, Sequence[Metrics]]  # by name, the lines of each

# What is measured of the samples and of learning, by its path in a line: title and unit.
_LEARNING = {
    "advantage_loss_0": ("advantage loss, first network", "mean over the steps"),
    "advantage_loss_1": ("advantage loss, second network", "mean over the steps"),
    "value_loss": ("value loss", "mean over the steps"),
    "strategy_loss": ("strategy loss", "mean over the steps"),
    "explained": ("targets explained by the network", "R2 on new samples"),
    "target_variance": ("variance of the targets", "points squared"),
    "zero_targets": ("decisions with all targets zero", "share"),
    "policy_entropy": ("entropy of the played policies", "nats"),
    "colors_a_game": ("self-play: colors opened", "a player and game"),
    "expedition_score": ("self-play: score of an opened color", "points"),
    "game_steps": ("self-play: length of a game", "steps"),
    "cut_share": ("self-play: games cut", "share"),
    "infostates_per_s": ("traversal speed", "information states a second"),
}
# What is measured of matches, by its name in a result: title, and the fields of its band.
_MATCHES = {
    "win_rate": ("win rate, 95% interval", ("interval_low", "interval_high")),
    "mean_score": ("points ahead", None),
    "opened_colors": ("colors opened", None),
    "expedition_score": ("score of an opened color", None),
    "mean_steps": ("steps a game", None),
    "cut_games": ("games cut", None),
}
_STYLES = {"average": "-", "current": "--"}
_COLUMNS = len(_MATCHES)


class AnalysisError(DeepCFRError):
    """A run that cannot be analysed, and why."""


def write_analysis(runs: Sequence[Path], out: Path) -> list[Path]:
    """Write `runs.png`, `phase_times.png`, `runs.md` and `runs.csv`; return their paths.

    Raises AnalysisError for a folder without usable metrics, before anything is written.
    """
    records = {label: _read(run) for label, run in _labels(runs).items()}
    figures = {"runs.png": runs_figure(records), "phase_times.png": times_figure(records)}
    out.mkdir(parents=True, exist_ok=True)
    for name, figure in figures.items():
        FigureCanvasAgg(figure).print_png(out / name)
    (out / "runs.md").write_text(summary(records), encoding="utf-8")
    _write_csv(out / "runs.csv", records)
    return [out / name for name in (*figures, "runs.md", "runs.csv")]


def runs_figure(records: Runs) -> Figure:
    """Draw everything over the iterations, one panel a quantity, one color a run.

    Panels of matches stand last, one row of them an opponent: solid for the average policy, dashed
    for the current one. What no run measured has no panel.
    """
    learning = [key for key in _LEARNING if any(key in line for line in _lines(records))]
    opponents = _opponents(records)
    learning_rows = -(-len(learning) // _COLUMNS)
    rows = learning_rows + len(opponents)
    figure = Figure(figsize=(3.6 * _COLUMNS, 2.8 * rows + 0.6), layout="constrained")
    for place, key in enumerate(learning, start=1):
        _draw_learning(figure.add_subplot(rows, _COLUMNS, place), records, key)
    for row, opponent in enumerate(opponents, start=learning_rows):
        results = [result for _, _, result in _results(records, opponent)]
        for place, key in enumerate(_MATCHES, start=row * _COLUMNS + 1):
            if any(key in result for result in results):
                _draw_matches(figure.add_subplot(rows, _COLUMNS, place), records, opponent, key)
    handles = {
        label: handle
        for axes in figure.axes
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=_COLUMNS)
    return figure


def times_figure(records: Runs) -> Figure:
    """Draw one panel a run: the seconds of each phase, stacked."""
    figure = Figure(figsize=(5 * len(records), 4), layout="constrained")
    phases = sorted({phase for line in _lines(records) for phase in line["seconds"]})
    for place, (label, lines) in enumerate(records.items()):
        axes = figure.add_subplot(1, len(records), place + 1)
        base = [0.0] * len(lines)
        for phase in phases:
            seconds = [line["seconds"].get(phase, 0.0) for line in lines]
            axes.bar([line["iteration"] for line in lines], seconds, 1.0, base, label=phase)
            base = [below + more for below, more in zip(base, seconds, strict=True)]
        _finish(axes, label, "seconds an iteration")
        axes.legend(fontsize="small", reverse=True, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def summary(records: Runs) -> str:
    """Return, as Markdown, how each run stood at its last iteration and in its last matches."""
    text = ["| at the last iteration | " + " | ".join(records) + " |"]
    text.append("|---|" + "---:|" * len(records))
    last = {label: lines[-1] for label, lines in records.items()}
    hours = [sum(sum(line["seconds"].values()) for line in run) / 3600 for run in records.values()]
    rows = {
        "iterations": [str(line["iteration"]) for line in last.values()],
        "hours": [f"{number:.2f}" for number in hours],
    }
    for key, (title, unit) in _LEARNING.items():
        if any(key in line for line in last.values()):
            rows[f"{title} ({unit})"] = [_shown(line.get(key)) for line in last.values()]
    text += [f"| {' | '.join((name, *cells))} |" for name, cells in rows.items()]
    matches = [
        [label, policy, opponent, str(iteration), *(_shown(result.get(key)) for key in _MATCHES)]
        for opponent in _opponents(records)
        for (label, policy), (iteration, result) in _last_results(records, opponent).items()
    ]
    if matches:
        text += ["", "| run | policy | opponent | iteration | " + " | ".join(_MATCHES) + " |"]
        text.append("|---|---|---|" + "---:|" * (len(_MATCHES) + 1))
        text += ["| " + " | ".join(cells) + " |" for cells in matches]
    return "\n".join(text) + "\n"


def _write_csv(path: Path, records: Runs) -> None:
    """Write one row a run and iteration, one column a number, lists and missing ones left out."""
    rows = [{"run": label, **_flat(line)} for label, lines in records.items() for line in lines]
    names = dict.fromkeys(name for row in rows for name in row)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(names), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _flat(values: Mapping[str, object], prefix: str = "") -> dict[str, float]:
    """Return the numbers of nested mappings by dotted names."""
    flat: dict[str, float] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        elif isinstance(value, int | float):
            flat[f"{prefix}{name}"] = value
    return flat


def _draw_learning(axes: Axes, records: Runs, key: str) -> None:
    for number, (label, lines) in enumerate(records.items()):
        points = [(line["iteration"], line[key]) for line in lines if key in line]
        if points:
            _draw(axes, points, "-", f"C{number}", label)
    title, unit = _LEARNING[key]
    _finish(axes, title, unit)


def _draw_matches(axes: Axes, records: Runs, opponent: str, key: str) -> None:
    title, band = _MATCHES[key]
    for number, label in enumerate(records):
        for policy, style in _STYLES.items():
            results = [
                (iteration, result)
                for iteration, played, result in _results({label: records[label]}, opponent)
                if played == policy and key in result
            ]
            if not results:
                continue
            points = [(iteration, result[key]) for iteration, result in results]
            _draw(axes, points, style, f"C{number}", f"{label}, {policy}")
            if band is not None:
                low, high = ([result[name] for _, result in results] for name in band)
                iterations = [iteration for iteration, _ in results]
                axes.fill_between(iterations, low, high, color=f"C{number}", alpha=0.15)
    if key == "win_rate":
        axes.set_ylim(0, 1)
        axes.axhline(0.5, color="gray", linewidth=0.5)
    _finish(axes, f"against {opponent}", title)


def _draw(
    axes: Axes, points: Sequence[tuple[int, float]], style: str, color: str, label: str
) -> None:
    marker = "o" if len(points) == 1 else ""  # a line through one point cannot be seen
    axes.plot(*zip(*points, strict=True), style, color=color, label=label, marker=marker)


def _finish(axes: Axes, title: str, unit: str) -> None:
    axes.set_title(title, fontsize="medium")
    axes.set_xlabel("iteration")
    axes.set_ylabel(unit)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _read(run: Path) -> list[Metrics]:
    path = run / "metrics.jsonl"
    try:
        lines = read_metrics(path)
    except OSError as error:
        raise AnalysisError(
            f"{path}: cannot be read ({error.strerror}); expected the folder of a run"
        ) from error
    except ValueError as error:
        raise AnalysisError(str(error)) from error
    if not lines:
        raise AnalysisError(f"{path}: holds no iteration yet")
    return lines


def _labels(runs: Sequence[Path]) -> dict[str, Path]:
    """Name runs by their folders, or by whole paths where that would not tell them apart."""
    names = [run.resolve().name for run in runs]
    unique = len(set(names)) == len(names)
    return {(name if unique else str(run)): run for name, run in zip(names, runs, strict=True)}


def _lines(records: Runs) -> list[Metrics]:
    return [line for lines in records.values() for line in lines]


def _opponents(records: Runs) -> list[str]:
    """Return every opponent that some run met, in the order of their first matches."""
    return list(
        dict.fromkeys(
            opponent
            for line in _lines(records)
            for results in line.get("evaluation", {}).values()
            for opponent in results
        )
    )


def _results(records: Runs, opponent: str) -> list[tuple[int, str, Metrics]]:
    """Return iteration, policy and result of every match against an opponent."""
    return [
        (line["iteration"], policy, results[opponent])
        for line in _lines(records)
        for policy, results in line.get("evaluation", {}).items()
        if opponent in results
    ]


def _last_results(records: Runs, opponent: str) -> dict[tuple[str, str], tuple[int, Metrics]]:
    """Return the latest match of each run and policy against an opponent."""
    return {
        (label, policy): (iteration, result)
        for label, lines in records.items()
        for iteration, policy, result in _results({label: lines}, opponent)
    }


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
