"""What a bench of served forwards found, as a table, a plot and a file that others can read.

The keys of the file that speak to a reader who knows nothing of games stand first, as in
`bench_report`; its effect is that of the way which the configuration names.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from coolrl_lost_cities.games.classic.deep_cfr.bench_report import write_files
from coolrl_lost_cities.games.classic.deep_cfr.inference_bench import (
    EAGER,
    InferenceBench,
)
from coolrl_lost_cities.games.classic.deep_cfr.paired_times import claim

RESULT, TABLE, PLOT = "inference.json", "inference.md", "inference.png"
FILES = (TABLE, PLOT, RESULT)
BAR = 0.20  # what compile has to save of the forwards' time to be worth its cost


def table(bench: InferenceBench) -> str:
    """Return the ways, the sizes of the forwards, and the machine."""
    replayed, sizes = bench.recording.replayed, bench.recording.sizes
    lines = [
        "| served model | `policy_network_seconds` | saved | 95% interval | compiling | graphs "
        "| says |",
        "|---|---:|---:|---:|---:|---:|---|",
        *(_row(bench, name) for name in bench.served),
        "",
        f"Seconds are the mean of {_replays(bench)} replays of {sum(replayed.values())} forwards, "
        "which stand for those of a run, in proportion:",
        "",
        "| rows of a forward | in the run | replayed |",
        "|---:|---:|---:|",
        *(f"| {rows} | {count} | {replayed.get(rows, 0)} |" for rows, count in sizes.items()),
        "",
        f"{what(bench)}. Measured on {bench.fingerprint.machine}, {bench.load_after:.1f} after; "
        f"{bench.fingerprint.sources}, config {bench.fingerprint.config}.",
    ]
    return "\n".join(lines)


def verdict(bench: InferenceBench, name: str) -> str:
    """Say what may be claimed of a way to serve, and no more."""
    if failed := bench.served[name].failed:
        return f"Failed: {failed}."
    found = bench.saving(name)
    return claim(found, BAR) if found else "Nothing to compare it with."


def what(bench: InferenceBench) -> str:
    """Say in one line what was served, and which way the effect is of."""
    network, run = bench.config.network, bench.config.run
    return (
        f"{network.kind} {network.hidden_size} x {network.num_layers} in {run.precision}, served "
        f"compiled: {bench.configured}"
    )


def contents(bench: InferenceBench) -> dict[str, Any]:
    """Return the file's contents."""
    found = bench.saving(bench.configured)
    return {
        "measured": bench.fingerprint.measured,
        "machine": bench.fingerprint.machine,
        "what": what(bench),
        "effect": found.effect if found else None,
        "interval": [found.low, found.high] if found else None,
        "failed": bench.failed or None,
        "table": table(bench),
        "verdict": verdict(bench, bench.configured),
        "fingerprint": asdict(bench.fingerprint) | {"load_after": bench.load_after},
        "forwards_in_the_run": bench.recording.sizes,
        "forwards_replayed": bench.recording.replayed,
        "served": {name: _served(bench, name) for name in bench.served},
    }


def figure(bench: InferenceBench) -> Figure:
    """Return the plot of every measured replay, all ways over each other."""
    drawn = Figure(figsize=(7, 4), layout="constrained")
    axes = drawn.add_subplot()
    for name, served in bench.served.items():
        if served.seconds:
            numbers = range(1, len(served.seconds) + 1)
            axes.plot(numbers, served.seconds, marker="o", label=name)
    axes.set_xlabel("measured replay")
    axes.set_ylabel("seconds in forwards")
    axes.set_ylim(bottom=0)
    axes.set_title(f"{what(bench)}\n{verdict(bench, bench.configured)}", fontsize=9)
    axes.legend()
    return drawn


def write_inference_bench(bench: InferenceBench, out: Path) -> list[Path]:
    """Write table, plot and file to the folder; return their paths."""
    return write_files([out / name for name in FILES], table(bench), figure(bench), contents(bench))


def _row(bench: InferenceBench, name: str) -> str:
    served, found = bench.served[name], bench.saving(name)
    cells = [name if name == EAGER else f"compiled, {name}"]
    cells.append(f"{served.mean:.3g} s" if served.seconds else "")
    if name == EAGER:
        cells += ["", "", "", "", verdict(bench, name) if served.failed else ""]
        return f"| {' | '.join(cells)} |"
    cells.append(f"{found.effect:+.1%}" if found else "")
    cells.append(f"{found.low:+.1%} to {found.high:+.1%}" if found else "")
    cells += [f"{served.compiling_s:.1f} s", str(served.graphs)] if served.seconds else ["", ""]
    cells.append(verdict(bench, name))
    return f"| {' | '.join(cells)} |"


def _replays(bench: InferenceBench) -> int:
    return max(len(served.seconds) for served in bench.served.values())


def _served(bench: InferenceBench, name: str) -> dict[str, Any]:
    served, found = bench.served[name], bench.saving(name)
    return {
        "seconds": served.seconds,
        "cpu_seconds": served.cpu_seconds,
        "compiling_s": served.compiling_s,
        "graphs": {rows: one.graphs for rows, one in served.batches.items() if one.graphs},
        "failed": served.failed or None,
        "saved": asdict(found) if found else None,
        "verdict": verdict(bench, name),
    }
