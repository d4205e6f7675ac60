"""What a bench found, as the plan's table, a plot and a file that others can read.

The keys of the file that speak to a reader who knows nothing of games stand first: when, where, the
share of time saved, its interval, and why that may count for nothing.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from coolrl_lost_cities.games.classic.deep_cfr.bench import Bench, Side
from coolrl_lost_cities.games.classic.deep_cfr.paired_times import claim

RESULT, TABLE, PLOT = "bench.json", "bench.md", "bench.png"
FILES = (TABLE, PLOT, RESULT)
BAR = 0.05  # what compile has to save to be worth its cost
_PROJECTED = 1000  # iterations


def table(bench: Bench) -> str:
    """Return the plan's table, then phases, compile time and the machine."""
    found, mode = bench.saving, bench.config.compile.trainer.mode
    rows = [
        ("", "iter mean", f"{_PROJECTED}-iter projection"),
        ("---", "---:", "---:"),
        ("Baseline (no compile)", *_times(bench.off)),
        (f"`torch.compile` trainer (mode={mode})", *_times(bench.on)),
        ("Effect", f"{-found.effect:+.1%}", f"{_duration(_projected(bench.on, bench.off))}"),
    ]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    lines += [
        "",
        f"Time saved: {found.effect:+.1%}, 95% interval {found.low:+.1%} to {found.high:+.1%}, "
        f"over {len(bench.off.measured)} pairs of iterations. {verdict(bench)}",
        "",
        *_phase_rows(bench),
        "",
        f"Compiling took {bench.on.compiled.seconds:.1f} s of the first iteration's "
        f"{bench.on.first.seconds:.1f} s: {bench.on.compiled.compilations} compilations, "
        f"{bench.on.compiled.graphs} graphs.",
        "",
        f"Measured on {bench.fingerprint.machine}, {bench.load_after:.1f} after; "
        f"{bench.fingerprint.sources}, config {bench.fingerprint.config}.",
    ]
    return "\n".join(lines)


def verdict(bench: Bench) -> str:
    """Say what may be claimed, and no more."""
    if bench.failed:
        return f"The bench failed: {bench.failed}."
    return claim(bench.saving, BAR)


def contents(bench: Bench) -> dict[str, Any]:
    """Return the file's contents."""
    found = bench.saving
    return {
        "measured": bench.fingerprint.measured,
        "machine": bench.fingerprint.machine,
        "what": what(bench),
        "effect": found.effect,
        "interval": [found.low, found.high],
        "failed": bench.failed or None,
        "table": table(bench),
        "verdict": verdict(bench),
        "fingerprint": asdict(bench.fingerprint) | {"load_after": bench.load_after},
        "sides": {name: _side(side) for name, side in (("off", bench.off), ("on", bench.on))},
    }


def what(bench: Bench) -> str:
    """Say in one line what was trained, and how the second side compiled."""
    network, trainer, run = bench.config.network, bench.config.compile.trainer, bench.config.run
    return (
        f"{network.kind} {network.hidden_size} x {network.num_layers} in {run.precision}, "
        f"compile.trainer mode {trainer.mode}, scope {trainer.scope}"
    )


def figure(bench: Bench) -> Figure:
    """Return the plot of every measured iteration, both sides over each other."""
    drawn = Figure(figsize=(7, 4), layout="constrained")
    axes = drawn.add_subplot()
    for name, side in (("off", bench.off), ("on", bench.on)):
        numbers = range(1, len(side.seconds) + 1)
        axes.plot(numbers, side.seconds, marker="o", label=f"compile {name}")
        axes.axhline(side.mean, linestyle=":", color=axes.lines[-1].get_color())
    axes.set_xlabel("measured iteration")
    axes.set_ylabel("seconds")
    axes.set_ylim(bottom=0)
    axes.set_title(f"{what(bench)}\n{verdict(bench)}", fontsize=9)
    axes.legend()
    return drawn


def write_bench(bench: Bench, out: Path) -> list[Path]:
    """Write table, plot and file to the folder; return their paths."""
    return write_files([out / name for name in FILES], table(bench), figure(bench), contents(bench))


def write_files(
    paths: Sequence[Path], table: str, figure: Figure, contents: Mapping[str, Any]
) -> list[Path]:
    """Write a table, a plot and a JSON file to the paths, in this order; return them."""
    text, plot, result = paths
    text.parent.mkdir(parents=True, exist_ok=True)
    text.write_text(f"{table}\n", encoding="utf-8")
    FigureCanvasAgg(figure).print_png(str(plot))
    result.write_text(f"{json.dumps(contents, indent=1)}\n", encoding="utf-8")
    return [*paths]


def _times(side: Side) -> tuple[str, str]:
    return f"{side.mean:.3g} s", _duration(side.mean * _PROJECTED)


def _projected(on: Side, off: Side) -> float:
    return (on.mean - off.mean) * _PROJECTED


def _duration(seconds: float) -> str:
    sign, minutes = "-" * (seconds < 0), abs(seconds) / 60
    if minutes < 1:
        return f"{sign}{abs(seconds):.0f} s"
    if minutes < 100:
        return f"{sign}{minutes:.1f} min"
    return f"{sign}{minutes / 60:.1f} h"


def _phase_rows(bench: Bench) -> list[str]:
    rows = ["| phase | off | share | on | share |", "|---|---:|---:|---:|---:|"]
    for inside, off, on in (
        ("", bench.off.phases(), bench.on.phases()),
        ("of these, ", bench.off.parts(), bench.on.parts()),
    ):
        for name in off:
            cells = [inside + name.replace("_", " ")]
            for seconds, side in ((off[name], bench.off), (on.get(name, 0.0), bench.on)):
                cells += [f"{seconds:.3g} s", f"{seconds / side.mean:.0%}"]
            rows.append(f"| {' | '.join(cells)} |")
    return rows


def _side(side: Side) -> dict[str, Any]:
    return {
        "first_s": side.first.seconds,
        "seconds": side.seconds,
        "mean_s": side.mean,
        "phases_s": side.phases(),
        "parts_s": side.parts(),
        "compiled": asdict(side.compiled),
    }
