"""Benches of many configurations, one after the other, as one table and as the steps of a plan."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coolrl_lost_cities.games.classic.deep_cfr.bench import (
    Bench,
    Say,
    check_iterations,
    side_config,
    time_both_sides,
)
from coolrl_lost_cities.games.classic.deep_cfr.bench_arm import ArmEnded, running_arm
from coolrl_lost_cities.games.classic.deep_cfr.bench_report import (
    BAR,
    contents,
    verdict,
    what,
    write_bench,
)
from coolrl_lost_cities.games.classic.deep_cfr.compute_lock import compute_lock
from coolrl_lost_cities.games.classic.deep_cfr.config import (
    DeepCFRConfig,
    config_from_mapping,
    config_to_mapping,
)
from coolrl_lost_cities.games.classic.deep_cfr.sequencing import (
    COMPILED,
    DENSE,
    DENSE_EVERY,
    DENSE_GAMES,
    LARGER,
    SMALL,
    Measured,
    Step,
    sequence,
    sequence_table,
)
from coolrl_lost_cities.games.classic.deep_cfr.sweep_axes import Axis, Point, points

RESULT, TABLE = "sweep.json", "sweep.md"
FILES = (TABLE, RESULT)
_EVALUATIONS = 2


@dataclass(frozen=True)
class Row:
    """What became of a point: a bench, or why there is none."""

    point: Point
    config: DeepCFRConfig
    bench: Bench | None
    why_not: str = ""


@dataclass(frozen=True)
class Sweep:
    """All points in the order in which they were run, and the plan's steps that they are."""

    rows: tuple[Row, ...]
    steps: tuple[Step, ...]

    @property
    def failed(self) -> bool:
        """Whether the times of a bench count for nothing, or a side ended by itself."""
        return any(row.bench.failed if row.bench else _ended(row) for row in self.rows)


def run_sweep(
    config: DeepCFRConfig,
    axes: Sequence[Axis],
    out: Path,
    say: Say,
    *,
    iterations: int,
    most_compilations: int,
) -> Sweep:
    """Bench every point, each in a folder of its own, with the machine's lock held throughout.

    Every configuration is checked before the first is run: raises ConfigError.
    """
    check_iterations(iterations)
    planned = [(point, _config_at(config, point)) for point in points(axes)]
    with compute_lock():
        found = _rows(planned, out, say, (iterations, most_compilations))
        return Sweep(found, sequence(_measured_steps(found, out, say)))


def _rows(
    planned: Sequence[tuple[Point, DeepCFRConfig]], out: Path, say: Say, limits: tuple[int, int]
) -> tuple[Row, ...]:
    iterations, most_compilations = limits
    rows: dict[Point, Row] = {}
    for number, (point, its_config) in enumerate(planned, 1):
        why_not = skip_reason(point, its_config, rows.get(point.base))
        skipped = f": skipped, {why_not}" if why_not else ""
        say(f"{number} of {len(planned)}, {point.name}{skipped}")
        bench = None
        if not why_not:
            try:
                bench = time_both_sides(
                    its_config,
                    out / point.name,
                    say,
                    iterations=iterations,
                    most_compilations=most_compilations,
                )
            except ArmEnded as error:
                why_not = str(error)
                say(why_not)
            else:
                write_bench(bench, out / point.name)
        rows[point] = Row(point, its_config, bench, why_not)
    return tuple(rows.values())


def skip_reason(point: Point, config: DeepCFRConfig, default: Row | None) -> str:
    """Return why a point is not run, or "". `default` is the row of its default mode."""
    mode = config.compile.trainer.mode
    if point.base == point:
        return ""
    if mode == "reduce-overhead" and config.run.device == "cpu":
        return "mode reduce-overhead records CUDA graphs, and run.device is cpu"
    if default is None or default.bench is None:
        return "mode default was not measured"
    if default.bench.failed or not default.bench.saving.claims(BAR):
        return f"mode default was not shown to be {BAR:.0%} faster"
    return ""


def sweep_table(sweep: Sweep) -> str:
    """Return all points, then the plan's steps, in Markdown."""
    lines = [
        "| configuration | off, iter mean | on | time saved | 95% interval | compiling | says |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for row in sweep.rows:
        bench = row.bench
        cells = ["", "", "", "", f"skipped: {row.why_not}"]
        if bench is not None:
            cells = [
                f"{bench.off.mean:.3g} s",
                f"{bench.on.mean:.3g} s",
                f"{bench.saving.effect:+.1%}",
                f"{bench.saving.low:+.1%} to {bench.saving.high:+.1%}",
                f"{bench.on.compiled.seconds:.1f} s",
                verdict(bench),
            ]
        elif _ended(row):
            cells[-1] = f"failed: {row.why_not}"
        lines.append(f"| {' | '.join([row.point.name, *cells])} |")
    benches = [row.bench for row in sweep.rows if row.bench]
    machine = [f"Measured on {benches[0].fingerprint.machine}.", ""] if benches else []
    return "\n".join([*lines, "", *machine, sequence_table(sweep.steps)])


def write_sweep(sweep: Sweep, out: Path) -> list[Path]:
    """Write table and file to the folder; return their paths."""
    out.mkdir(parents=True, exist_ok=True)
    (out / TABLE).write_text(f"{sweep_table(sweep)}\n", encoding="utf-8")
    found = {
        "points": {row.point.name: _contents(row) for row in sweep.rows},
        "steps": {
            step.name: {
                "seconds": step.measured.seconds if step.measured else None,
                "what": step.measured.what if step.measured else "",
                "done": step.done,
                "waits_for": step.waits_for,
            }
            for step in sweep.steps
        },
        "table": sweep_table(sweep),
    }
    (out / RESULT).write_text(f"{json.dumps(found, indent=1)}\n", encoding="utf-8")
    return [out / name for name in FILES]


def _config_at(config: DeepCFRConfig, point: Point) -> DeepCFRConfig:
    mapping = config_to_mapping(config)
    return config_from_mapping(mapping, f"sweep {point.name}", point.overrides)


def _ended(row: Row) -> bool:
    return row.bench is None and row.point.base == row.point


def _measured_steps(rows: Sequence[Row], out: Path, say: Say) -> dict[str, Measured]:
    """Return the steps of the plan among the rows; evaluations are played for the last but one."""
    benches = [row.bench for row in rows if row.bench and row.point.base == row.point]
    small = [one for one in benches if not one.config.network.worth_compiling]
    precisions = {one.config.run.precision for one in small[:1] or benches}
    larger = [
        one
        for one in benches
        if one.config.network.worth_compiling and one.config.run.precision in precisions
    ]
    found: dict[str, Measured] = {}
    if small:
        found[SMALL] = Measured(small[0].off.mean, _size(small[0]))
    if larger:
        biggest = max(larger, key=lambda one: one.off.mean)
        found[LARGER] = Measured(biggest.off.mean, _size(biggest))
        if small:
            say(f"evaluation of {what(biggest)}")
            share = evaluation_seconds(biggest.config, out / "evaluation") / DENSE_EVERY
            found[DENSE] = Measured(biggest.off.mean + share, _size(biggest))
            if not biggest.failed:
                found[COMPILED] = Measured(biggest.on.mean + share, _size(biggest))
    return found


def evaluation_seconds(config: DeepCFRConfig, out: Path) -> float:
    """Return what one evaluation with many games takes, a first one not counted."""
    mapping = config_to_mapping(side_config(config, out, enabled=False))
    often = ["evaluation.eval_every=1", f"evaluation.games={DENSE_GAMES}"]
    with running_arm("evaluation", config_from_mapping(mapping, "evaluation", often)) as arm:
        arm.iterate()
        times = [arm.iterate().phases["evaluation"] for _ in range(_EVALUATIONS)]
    return sum(times) / len(times)


def _size(bench: Bench) -> str:
    network = bench.config.network
    return f"{network.hidden_size} x {network.num_layers}, {bench.config.run.precision}"


def _contents(row: Row) -> dict[str, Any]:
    return {"skipped": row.why_not} if row.bench is None else contents(row.bench)
