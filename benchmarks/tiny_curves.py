"""Exploitability of Deep CFR on a tiny game as it trains, for several variants of the config.

    python -m benchmarks.tiny_curves --variants NAME:KEY=VALUE,KEY=VALUE ... [--set A.B=C ...]
        [--iterations N] [--seeds N] [--every N] [--out FILE.png]

A variant is a name and overrides of the config (none after `NAME:` is the default). `--set` goes
for all of them; `rules.*` makes another game. Draws exploitability of the average and the current
policy over iterations and over nodes, a line through the mean of the seeds in a band from the
lowest to the highest, and prints the last points as a table. For example::

    python -m benchmarks.tiny_curves --variants linear: uniform:training_weighting.kind=uniform
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch

from benchmarks.measuring import load
from benchmarks.tiny import Point, tiny_config, train
from coolrl_lost_cities.games.classic.deep_cfr.config import DeepCFRConfig, build_rules
from coolrl_lost_cities.games.classic.deep_cfr.exact import (
    build_tree,
    exploitability,
    uniform_policy,
)

Runs = list[list[Point]]  # one a seed
FOLDER = Path(__file__).resolve().parent.parent / "docs" / "performance"


def parse_variant(text: str) -> tuple[str, list[str]]:
    """Split `name:key=value,key=value`; a comma inside of a value does not start a key.

    Raises ValueError for a text without a name or with an override that sets nothing.
    """
    name, colon, rest = text.partition(":")
    overrides = re.split(r",(?=\w+\.)", rest) if rest else []
    if not name or not colon or not all("=" in override for override in overrides):
        raise ValueError(
            f"--variants {text}: expected NAME:KEY=VALUE,KEY=VALUE, as in "
            "uniform:training_weighting.kind=uniform"
        )
    return name, overrides


def run(config: DeepCFRConfig, iterations: int, every: int) -> list[Point]:
    """Train so many iterations; the last point is that of the last multiple of `every`."""
    return list(islice(train(config, every), iterations // every))


def draw(variants: Mapping[str, Runs], uniform: float, path: Path) -> None:
    """Write the plot: policies side by side, iterations above, nodes below."""
    mpl.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415 -- picks its backend when it is imported

    figure, axes = pyplot.subplots(2, 2, figsize=(10, 7), sharey=True, layout="constrained")
    for column, policy in enumerate(("average", "current")):
        for row, unit in enumerate(("iteration", "nodes")):
            axis = axes[row, column]
            for name, runs in variants.items():
                at_P = np.mean([[getattr(point, unit) for point in one] for one in runs], axis=0)
                found_SP = np.array([[getattr(point, policy) for point in one] for one in runs])
                (line,) = axis.plot(at_P, found_SP.mean(axis=0), label=name)
                low_P, high_P = found_SP.min(axis=0), found_SP.max(axis=0)
                axis.fill_between(at_P, low_P, high_P, color=line.get_color(), alpha=0.2, lw=0)
            axis.axhline(uniform, color="grey", lw=0.8, ls=":", label="uniform play")
            axis.set(xlabel=unit if unit == "nodes" else "iterations")
            axis.set_yscale("symlog", linthresh=1e-3)  # pure play may reach zero
            axis.set_ylim(bottom=0.0)
            axis.grid(alpha=0.3)
        axes[0, column].set_title(f"{policy} policy")
    axes[0, 0].legend()
    figure.supylabel("exploitability, share of the value range")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=80)
    pyplot.close(figure)


def table(variants: Mapping[str, Runs]) -> str:
    lines = [
        "| variant | iterations | nodes | CPU s | average policy | current policy |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, runs in variants.items():
        last = [one[-1] for one in runs]
        nodes = np.mean([point.nodes for point in last])
        seconds = np.median([point.cpu_s for point in last])
        lines.append(
            f"| {name} | {last[0].iteration} | {nodes:.0f} | {seconds:.1f} "
            f"| {_spread([point.average for point in last])} "
            f"| {_spread([point.current for point in last])} |"
        )
    return "\n".join(lines)


def _spread(values: Sequence[float]) -> str:
    values = np.maximum(values, 0.0)  # rounding may leave a little less than nothing
    return f"{values.mean():.4f} ({values.min():.4f} to {values.max():.4f})"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tiny_curves")
    parser.add_argument("--variants", nargs="+", default=["default:"], metavar="NAME:KEY=VALUE,...")
    parser.add_argument("--set", action="append", default=[], metavar="A.B=C", dest="overrides")
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--out", type=Path, default=FOLDER / "tiny_curves.png", metavar="FILE.png")
    arguments = parser.parse_args()
    try:
        chosen = dict(map(parse_variant, arguments.variants))
    except ValueError as error:
        parser.error(str(error))
    torch.set_num_threads(1)
    found: dict[str, Runs] = {}
    with tempfile.TemporaryDirectory() as scratch:
        # All of them are read before the first one trains.
        configs = {
            (name, seed): tiny_config(
                Path(scratch) / f"{number}-{seed}", seed, [*arguments.overrides, *overrides]
            )
            for number, (name, overrides) in enumerate(chosen.items())
            for seed in range(arguments.seeds)
        }
        for (name, seed), config in configs.items():
            points = run(config, arguments.iterations, arguments.every)
            found.setdefault(name, []).append(points)
            print(f"{name}, seed {seed}: {points[-1]}", file=sys.stderr, flush=True)
    tree = build_tree(build_rules(next(iter(configs.values())).rules))
    uniform = exploitability(tree, uniform_policy(tree)) / tree.value_range
    draw(found, uniform, arguments.out)
    print(table(found))
    print(f"\nuniform play: {uniform:.4f}; load of the machine: {load()}; plot: {arguments.out}")


if __name__ == "__main__":
    main()
