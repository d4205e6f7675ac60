"""What each choice in cpu_hour.yaml is worth: short runs that differ from a base in one choice.

    python -m benchmarks.ablations [--variants NAME | NAME:KEY=VALUE,KEY=VALUE ...] [--seeds N ...]
        [--set A.B=C ...] [--iterations N] [--out FILE.jsonl]

The base is cpu_hour.yaml without its clock and its strategy network, in one process on one thread,
for a number of iterations over which the learning rate falls as it does there. Without `--variants`
all of `VARIANTS` are run, the base first. After its last iteration the current policy plays against
bots, and a line is appended to the file; a run whose line is there already is not run again. Prints
the file's lines as a table; the base with several seeds gives the spread to read the others by.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.measuring import load
from benchmarks.tiny_curves import parse_variant
from coolrl_lost_cities.games.classic.deep_cfr.config import DeepCFRConfig, load_config
from coolrl_lost_cities.games.classic.deep_cfr.trainer import DeepCFRTrainer

Line = dict[str, Any]
ROOT = Path(__file__).resolve().parent.parent
CPU_HOUR = ROOT / "configs" / "deep_cfr" / "cpu_hour.yaml"
LINES = ROOT / "docs" / "performance" / "ablations.jsonl"
BASE = (
    "run.minutes=null",
    "run.num_threads=1",
    "traversal.num_workers=0",
    "optimization.concurrent=false",
    "optimization.strategy_steps=1",
    "memory.advantage_capacity=400000",
    "memory.strategy_capacity=1000",
    "checkpoint.save_latest=false",
    "evaluation.games=1000",
    "evaluation.policies=current",
    "evaluation.opponents=[discard_only, safe_heuristic]",
)
# Those that were expected to say most stand first: a run of them all may be cut short.
VARIANTS = (
    "base:",
    "outcome, learned baseline:estimator.kind=outcome,estimator.baseline=learned",
    "mlp 256 x 2:network.kind=mlp,network.hidden_size=256,value.hidden_size=256",
    "half the steps:optimization.advantage_steps=30,value.steps=30",
    "twice the steps:optimization.advantage_steps=120,value.steps=120",
    "64 x 2:network.hidden_size=64,value.hidden_size=64",
    "256 x 2:network.hidden_size=256,value.hidden_size=256",
    "trace decay 0:value.trace_decay=0.0",
    "trace decay 1:value.trace_decay=1.0",
    "exploration 0.01:traversal.exploration=0.01",
    "exploration 0.3:traversal.exploration=0.3",
    "a uniform reservoir:memory.keep=uniform",
    "from scratch each iteration:optimization.reinitialize_advantage=true",
    "weights linear:training_weighting.kind=linear",
    "weights uniform:training_weighting.kind=uniform",
    "no summaries:encoding.without=[summaries]",
    "no known cards:encoding.without=[known]",
    "no piles:encoding.without=[piles]",
    "no unseen cards:encoding.without=[unseen]",
    "mlp 256 x 2, colors permuted:network.kind=mlp,network.hidden_size=256,value.hidden_size=256,"
    "encoding.permute_colors=true",
)


def chosen(names: Sequence[str]) -> dict[str, list[str]]:
    """Return overrides by name: of the variants above, or of texts that bring their own.

    Raises ValueError for a name that is not among them.
    """
    known = dict(map(parse_variant, VARIANTS))
    if missing := [name for name in names if ":" not in name and name not in known]:
        raise ValueError(f"--variants {missing[0]}: expected NAME:KEY=VALUE or one of {[*known]}")
    return dict(
        parse_variant(name) if ":" in name else (name, known[name]) for name in names or known
    )


def settings_of(
    seed: int, iterations: int, overrides: Sequence[str], common: Sequence[str]
) -> list[str]:
    """Return all that a run sets on top of cpu_hour.yaml; by these its line is found again."""
    fixed = [
        f"run.seed={seed}",
        f"run.iterations={iterations}",
        f"evaluation.eval_every={iterations}",
    ]
    return [*BASE, *common, *overrides, *fixed]


def trained(config: DeepCFRConfig) -> Line:
    """Train to the end; processor time is that of training and of the matches after it."""
    begun, wall = time.process_time(), time.perf_counter()
    infostates = 0
    with DeepCFRTrainer(config) as trainer:
        for _ in range(config.run.iterations):
            metrics = trainer.run_iteration()
            infostates += metrics["infostates"]
    return {
        "cpu_minutes": round((time.process_time() - begun) / 60, 3),
        "minutes": round((time.perf_counter() - wall) / 60, 3),
        "infostates": infostates,
        "matches": metrics["evaluation"]["current"],
    }


def stored(path: Path) -> list[Line]:
    return [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []


def append(path: Path, line: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")


def table(lines: Sequence[Line]) -> str:
    rows = [
        "| variant | seed | iterations | CPU minutes | information states "
        "| against `safe_heuristic` | 95% interval | points over `discard_only` |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for line in lines:
        heuristic, floor = line["matches"]["safe_heuristic"], line["matches"]["discard_only"]
        interval = f"{heuristic['interval_low']:.1%} to {heuristic['interval_high']:.1%}"
        rows.append(
            f"| {line['variant']} | {line['seed']} | {line['iterations']} "
            f"| {line['cpu_minutes']:.2f} | {line['infostates']:,} "
            f"| {heuristic['win_rate']:.1%} | {interval} "
            f"| {floor['mean_score']:+.1f} ± {1.96 * floor['score_se']:.1f} |"
        )
    return "\n".join(rows)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ablations")
    parser.add_argument("--variants", nargs="+", default=[], metavar="NAME[:KEY=VALUE,...]")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--set", action="append", default=[], metavar="A.B=C", dest="overrides")
    parser.add_argument("--iterations", type=int, default=24)
    parser.add_argument("--out", type=Path, default=LINES, metavar="FILE.jsonl")
    options = parser.parse_args(arguments)
    try:
        variants = chosen(options.variants)
    except ValueError as error:
        parser.error(str(error))
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        # All of them are read before the first one trains.
        runs = []
        for number, (name, overrides) in enumerate(variants.items()):
            for seed in options.seeds:
                settings = settings_of(seed, options.iterations, overrides, options.overrides)
                folder = Path(scratch) / f"{number}-{seed}"
                config = load_config(CPU_HOUR, [*settings, f"run.out={json.dumps(str(folder))}"])
                runs.append((name, seed, settings, config))
        for name, seed, settings, config in runs:
            if any(line["settings"] == settings for line in stored(options.out)):
                continue
            Path(config.run.out).mkdir()
            line = {"variant": name, "seed": seed, "iterations": options.iterations}
            line |= trained(config) | {"settings": settings, "load": load()}
            append(options.out, line)
            print(f"{name}, seed {seed}: {line['cpu_minutes']} min", file=sys.stderr, flush=True)
    print(table(stored(options.out)))


if __name__ == "__main__":
    main()
