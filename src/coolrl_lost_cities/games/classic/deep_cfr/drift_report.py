"""What a drift check found, as a verdict, a table, a plot and a file."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from coolrl_lost_cities.games.classic.deep_cfr.equivalence import (
    LEVEL,
    MOST_PAIRS,
    Comparison,
    games_factor,
    pairs_needed,
    t_quantile,
)
from coolrl_lost_cities.games.classic.deep_cfr.fingerprint import Fingerprint
from coolrl_lost_cities.games.classic.deep_cfr.gelu_run import GeluRun
from coolrl_lost_cities.games.classic.deep_cfr.gradient_error import MOST_TIMES, GradientError
from coolrl_lost_cities.games.classic.deep_cfr.trajectories import WinRates

ENOUGH_ITERATIONS = 100  # of a run; before that curves have hardly begun to part
Judgement = Literal["no drift", "drift", "not enough games"]
# What a reader of the file, who may know nothing of games, is told.
_IN_THE_FILE = {"no drift": "no drift", "drift": "drift", "not enough games": "not enough"}
_FINDINGS = {"same": "within", "apart": "beyond", "open": "open"}


@dataclass(frozen=True)
class Verdict:
    """The answer, and one line that says why, or what it would take."""

    judgement: Judgement
    detail: str


@dataclass(frozen=True)
class Drift:
    """All that a drift check found. Without pairs the first two claims have decided.

    `looks` are the numbers of pairs that were judged in this folder, the last one now.
    """

    verdict: Verdict
    gradients: GradientError
    gelu: GeluRun
    win_rates: tuple[WinRates, ...]
    comparisons: tuple[Comparison, ...]
    looks: tuple[int, ...]
    fingerprint: Fingerprint
    what: str


def judge_claims(gradients: GradientError, gelu: GeluRun) -> Verdict | None:
    """Return the verdict where one of the first two claims fails, None where both hold."""
    failed = []
    if not gradients.holds:
        failed.append(
            f"compiled gradients are {gradients.times:.3g} times as far from float64 as eager "
            f"ones, at most {MOST_TIMES:g} expected"
        )
    if not gelu.holds:
        failed.append(
            f"after {gelu.steps} steps with GELU parameters are {gelu.apart[gelu.worst]:.2g} "
            f"apart, at most {gelu.limit(gelu.worst):.2g} expected"
        )
    return Verdict("drift", "; ".join(failed)) if failed else None


def judge_pairs(
    comparisons: Sequence[Comparison], *, margin: float, iterations: int, games: int
) -> Verdict:
    """Return what the paired runs say, each having played `games` games an evaluation."""
    pairs = len(comparisons[0].quantity.off)
    apart = [one for one in comparisons if one.finding == "apart"]
    if apart:
        worst = max(apart, key=lambda one: abs(one.difference) - one.bound)
        return Verdict(
            "drift",
            f"{worst.quantity.name}: {_points(worst.difference)} with compile, beyond "
            f"{_points(worst.bound, signed=False)} with {pairs} pairs",
        )
    if iterations < ENOUGH_ITERATIONS:
        return Verdict(
            "not enough games",
            f"{iterations} iterations a run, at least {ENOUGH_ITERATIONS} are asked for "
            "(drift.iterations)",
        )
    still_open = [one for one in comparisons if one.finding == "open"]
    if still_open:
        return Verdict("not enough games", _what_it_takes(comparisons, pairs, games))
    seeing = [one for one in comparisons if not _is_blind(one, margin)]
    if not seeing:
        return Verdict(
            "not enough games",
            f"without compile nothing is won more often than drift.margin ({margin:g}), so that no "
            "loss could show; train longer (drift.iterations)",
        )
    widest = max(comparisons, key=lambda one: max(-one.low, one.high))
    said = (
        f"{pairs} pairs; all {len(comparisons)} differences lie within their bounds, the widest "
        f"{_interval(widest)} ({widest.quantity.name})"
    )
    blind = [one.quantity.name for one in comparisons if _is_blind(one, margin)]
    if blind:
        said += f"; too seldom won for a loss to show: {', '.join(blind)}"
    return Verdict("no drift", said)


def _is_blind(comparison: Comparison, margin: float) -> bool:
    """Say whether so little is won without compile that a loss beyond the margin cannot show."""
    return fmean(comparison.quantity.off) < margin


def _what_it_takes(comparisons: Sequence[Comparison], pairs: int, games: int) -> str:
    open_ones = [one for one in comparisons if one.finding == "open"]
    needed = pairs_needed(comparisons)
    said = f"{pairs} pairs leave {len(open_ones)} of {len(comparisons)} differences open; "
    if math.isinf(needed):
        return said + (
            f"they stand so close to their bounds that even {MOST_PAIRS} pairs would not do"
        )
    said += f"{needed - pairs:.0f} more would do (drift.seeds={needed:.0f})"
    factor = games_factor(open_ones)
    if factor is not None and factor < 100:
        enough = 100 * math.ceil(games * factor / 100)
        said += f", or as many pairs run afresh with drift.games={enough}"
    return said


def table(drift: Drift) -> str:
    """Return the claims and the comparisons as Markdown."""
    gradients, gelu = drift.gradients, drift.gelu
    lines = [
        "| claim | found | asked | holds |",
        "|---|---:|---:|---|",
        f"| gradients: error against float64, compiled in eager's | {gradients.times:.2f} "
        f"| at most {MOST_TIMES:g} | {_yes(gradients.holds)} |",
        f"| {gelu.steps} steps with GELU: largest difference of a parameter "
        f"| {gelu.apart[gelu.worst]:.2g} | at most {gelu.limit(gelu.worst):.2g} "
        f"| {_yes(gelu.holds)} |",
    ]
    if not drift.comparisons:
        return "\n".join([*lines, "| win rates of paired runs | not run | | |", ""])
    pairs = len(drift.comparisons[0].quantity.off)
    lines.append(f"| win rates of {pairs} paired runs | see below | | {drift.verdict.judgement} |")
    lines += [
        "",
        "| win rate of the policy | off | on | difference | 90% interval | bound | seeds' spread "
        "| finding |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for one in drift.comparisons:
        off, on = fmean(one.quantity.off), fmean(one.quantity.on)
        lines.append(
            f"| {one.quantity.name} | {off:.1%} | {on:.1%} | {_points(one.difference)} "
            f"| {_interval(one)} | {_points(one.bound, signed=False)} "
            f"| {_points(one.spread, signed=False)} | {_FINDINGS[one.finding]} |"
        )
    if len(set(drift.looks)) > 1:
        before = ", ".join(str(look) for look in drift.looks[:-1])
        lines += [
            "",
            f"Judged before with {before} pairs; every further look adds to the 5% chance of a "
            "wrong verdict.",
        ]
    return "\n".join([*lines, ""])


def markdown(drift: Drift) -> str:
    """Return the whole result as a page."""
    return "\n".join(
        [
            f"# Drift check: {drift.verdict.judgement}",
            "",
            f"{drift.verdict.detail}.",
            "",
            f"{drift.what}. {drift.fingerprint.measured[:10]}, {drift.fingerprint.machine}.",
            "",
            table(drift),
        ]
    )


def contents(drift: Drift) -> dict[str, Any]:
    """Return the result as plain values: first what `docs/guides/evidence.md` asks for."""
    return {
        "measured": drift.fingerprint.measured,
        "machine": drift.fingerprint.machine,
        "what": drift.what,
        "verdict": _IN_THE_FILE[drift.verdict.judgement],
        "detail": drift.verdict.detail,
        "table": table(drift),
        "looks": list(drift.looks),
        "fingerprint": asdict(drift.fingerprint),
        "gradient_error": asdict(drift.gradients),
        "gelu_run": asdict(drift.gelu),
        "comparisons": [_finite(asdict(one)) for one in drift.comparisons],
        "win_rates": [asdict(one) for one in drift.win_rates],
    }


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    """Replace what JSON cannot hold: no number of pairs is none that helps."""
    return {
        name: None if isinstance(value, float) and math.isinf(value) else value
        for name, value in values.items()
    }


def figure(drift: Drift, margin: float) -> Figure:
    """Draw every policy and bot: win rates off and on, and below their paired differences.

    Thick lines are means, bands a standard deviation of the seeds; around a difference the band is
    its 90% interval, to be compared with the margin.
    """
    columns = len(drift.win_rates)
    drawn = Figure(figsize=(4 * columns, 6.5), layout="constrained")
    for column, rates in enumerate(drift.win_rates, start=1):
        axes = drawn.add_subplot(2, columns, column)
        for label, rows, color in (("off", rates.off, "C0"), ("on", rates.on, "C1")):
            _draw_seeds(axes, rates.iterations, rows, f"compile {label}", color)
        _finish(axes, rates.name, "win rate")
        below = drawn.add_subplot(2, columns, columns + column, sharex=axes)
        _draw_difference(below, rates, margin)
        _finish(below, "on less off, paired", "difference of win rates")
    drawn.suptitle(drift.verdict.judgement)
    return drawn


def write_figure(drift: Drift, margin: float, path: Path) -> None:
    """Write what `figure` draws as a PNG file."""
    FigureCanvasAgg(figure(drift, margin)).print_png(path)


def _draw_seeds(
    axes: Axes,
    iterations: Sequence[int],
    rows: Sequence[Sequence[float]],
    label: str,
    color: str,
) -> None:
    for row in rows:
        axes.plot(iterations, row, color=color, linewidth=0.6, alpha=0.4)
    columns = list(zip(*rows, strict=True))
    means = [fmean(column) for column in columns]
    spreads = [stdev(column) for column in columns]
    axes.plot(iterations, means, color=color, linewidth=2, marker="o", label=label)
    low = [mean - spread for mean, spread in zip(means, spreads, strict=True)]
    high = [mean + spread for mean, spread in zip(means, spreads, strict=True)]
    axes.fill_between(iterations, low, high, color=color, alpha=0.15)
    axes.legend(fontsize="small")


def _draw_difference(axes: Axes, rates: WinRates, margin: float) -> None:
    columns = [
        [after - before for before, after in zip(*pair, strict=True)]
        for pair in zip(zip(*rates.off, strict=True), zip(*rates.on, strict=True), strict=True)
    ]
    pairs = len(rates.off)
    means = [fmean(column) for column in columns]
    factor = t_quantile(1 - LEVEL, pairs - 1) / math.sqrt(pairs)
    halves = [factor * stdev(column) for column in columns]
    axes.plot(rates.iterations, means, color="C2", linewidth=2, marker="o")
    low = [mean - half for mean, half in zip(means, halves, strict=True)]
    high = [mean + half for mean, half in zip(means, halves, strict=True)]
    axes.fill_between(rates.iterations, low, high, color="C2", alpha=0.2)
    axes.axhline(0, color="gray", linewidth=0.5)
    for edge in (-margin, margin):
        axes.axhline(edge, color="gray", linestyle="--", linewidth=1)


def _finish(axes: Axes, title: str, unit: str) -> None:
    axes.set_title(title, fontsize="medium")
    axes.set_xlabel("iteration")
    axes.set_ylabel(unit)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _points(value: float, *, signed: bool = True) -> str:
    """Return a share as points of a hundred."""
    return f"{100 * value:+.2f}" if signed else f"{100 * value:.2f}"


def _interval(one: Comparison) -> str:
    return f"{_points(one.low)} to {_points(one.high)}"


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"
