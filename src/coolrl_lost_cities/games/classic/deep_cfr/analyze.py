"""Plots of one or several runs from their metrics files: losses, win rates, phase times."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from coolrl_lost_cities.games.classic.deep_cfr.errors import DeepCFRError
from coolrl_lost_cities.games.classic.deep_cfr.metrics import Metrics, read_metrics

_LOSSES = {
    "advantage_loss_0": "advantage loss, player 0",
    "advantage_loss_1": "advantage loss, player 1",
    "strategy_loss": "strategy loss",
}
_STYLES = {"average": "-", "current": "--"}


class AnalysisError(DeepCFRError):
    """A run that cannot be plotted, and why."""


def draw_plots(runs: Sequence[Path], out: Path) -> list[Path]:
    """Write `losses.png`, `phase_times.png` and, if anything was evaluated, `win_rates.png`.

    Returns what was written. Raises AnalysisError for a folder without usable metrics, before
    anything is written.
    """
    records = {label: _read(run) for label, run in _labels(runs).items()}
    figures = {"losses.png": losses_figure(records), "phase_times.png": times_figure(records)}
    opponents = _opponents(records)
    if opponents:
        figures["win_rates.png"] = win_rates_figure(records, opponents)
    out.mkdir(parents=True, exist_ok=True)
    for name, figure in figures.items():
        FigureCanvasAgg(figure).print_png(out / name)
    return [out / name for name in figures]


def losses_figure(records: Mapping[str, Sequence[Metrics]]) -> Figure:
    """Draw one panel a loss, one line a run."""
    figure = Figure(figsize=(5 * len(_LOSSES), 4), layout="constrained")
    for axes, (key, title) in zip(_panels(figure, len(_LOSSES)), _LOSSES.items(), strict=True):
        for label, lines in records.items():
            axes.plot(
                [line["iteration"] for line in lines],
                [line[key] for line in lines],
                label=label,
                marker=_marker(len(lines)),
            )
        _finish(axes, title, "mean over the iteration's steps")
    return figure


def win_rates_figure(records: Mapping[str, Sequence[Metrics]], opponents: Sequence[str]) -> Figure:
    """Draw one panel an opponent: win rates with 95% intervals, one line a run and policy."""
    figure = Figure(figsize=(5 * len(opponents), 4), layout="constrained")
    for axes, opponent in zip(_panels(figure, len(opponents)), opponents, strict=True):
        for number, (label, lines) in enumerate(records.items()):
            for place, (policy, style) in enumerate(_STYLES.items()):
                results = [
                    (line["iteration"], line["evaluation"][policy][opponent])
                    for line in lines
                    if opponent in line.get("evaluation", {}).get(policy, {})
                ]
                if not results:
                    continue
                iterations = [iteration for iteration, _ in results]
                color = f"C{len(_STYLES) * number + place}"
                axes.plot(
                    iterations,
                    [result["win_rate"] for _, result in results],
                    style,
                    color=color,
                    label=f"{label}, {policy}",
                    marker=_marker(len(results)),
                )
                axes.fill_between(
                    iterations,
                    [result["interval_low"] for _, result in results],
                    [result["interval_high"] for _, result in results],
                    color=color,
                    alpha=0.15,
                )
        axes.set_ylim(0, 1)
        axes.axhline(0.5, color="gray", linewidth=0.5)
        _finish(axes, f"against {opponent}", "win rate, 95% interval")
    return figure


def times_figure(records: Mapping[str, Sequence[Metrics]]) -> Figure:
    """Draw one panel a run: the seconds of each phase, stacked."""
    figure = Figure(figsize=(5 * len(records), 4), layout="constrained")
    every_line = [line for lines in records.values() for line in lines]
    phases = sorted({phase for line in every_line for phase in line["seconds"]})
    for axes, (label, lines) in zip(_panels(figure, len(records)), records.items(), strict=True):
        base = [0.0] * len(lines)
        for phase in phases:
            seconds = [line["seconds"].get(phase, 0.0) for line in lines]
            axes.bar([line["iteration"] for line in lines], seconds, 1.0, base, label=phase)
            base = [below + more for below, more in zip(base, seconds, strict=True)]
        _finish(axes, label, "seconds an iteration")
        axes.legend(fontsize="small", reverse=True, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


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


def _opponents(records: Mapping[str, Sequence[Metrics]]) -> list[str]:
    """Return every opponent that some run met, in the order of their first matches."""
    met: dict[str, None] = {}
    for lines in records.values():
        for line in lines:
            for results in line.get("evaluation", {}).values():
                met |= dict.fromkeys(results)
    return list(met)


def _panels(figure: Figure, count: int) -> list[Axes]:
    return [figure.add_subplot(1, count, number + 1) for number in range(count)]


def _marker(points: int) -> str:
    return "o" if points == 1 else ""  # a line through one point cannot be seen


def _finish(axes: Axes, title: str, unit: str) -> None:
    axes.set_title(title)
    axes.set_xlabel("iteration")
    axes.set_ylabel(unit)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(fontsize="small")
