"""OpenSpiel's Deep CFR on PyTorch beside ours: same game, encoding, networks and traversals.

    python -m benchmarks.against_openspiel [--traversals N] [--iterations N] [--seeds N]

Needs the extra `openspiel`. The game is Lost Cities on tiny rules, for OpenSpiel by way of
`benchmarks.spiel_game`; exploitability is computed by `exact.py` for both, as a share of the value
range. Both are used by what they offer to everybody: one call of `solve()` or `run_iteration()` an
iteration, each with the same number of traversals a player and of training steps a network.
OpenSpiel's traversals take every action of the traverser (external sampling), ours one (outcome
sampling), so an iteration shows OpenSpiel more. Ours therefore has three rows: at as many
iterations, at as many seconds, and at as many seconds with 1,000 traversals an iteration, which is
what traversals in lockstep are for.

Another row is OpenSpiel on its own Leduc poker, a game in C++: what it costs where no game in
Python is in the way. Seconds are processor time of training alone, on one thread.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path

import numpy as np
import pyspiel
import torch
from open_spiel.python.pytorch.deep_cfr import DeepCFRSolver

from benchmarks import spiel_game
from benchmarks.measuring import load
from benchmarks.tiny import share_of_range, tiny_config, train
from coolrl_lost_cities.games.classic.deep_cfr.config import DeepCFRConfig
from coolrl_lost_cities.games.classic.deep_cfr.encoding import encoding_scale
from coolrl_lost_cities.games.classic.deep_cfr.exact import (
    Policy,
    build_tree,
    exploitability,
    uniform_policy,
)

MANY = ("traversal.traversals_per_iteration=1000", "traversal.lanes=512")


@dataclass(frozen=True)
class Reached:
    """Where a run stands: seconds and moves made since its start, and a share of the range."""

    iteration: int
    cpu_s: float
    moves: int
    exploitability: float | None


@dataclass(frozen=True)
class Row:
    name: str
    runs: tuple[Reached, ...]  # one a seed, at its end


def openspiel(game: pyspiel.Game, config: DeepCFRConfig, solvable: bool) -> Iterator[Reached]:
    """Train without end by OpenSpiel, with the sizes of our config."""
    torch.manual_seed(config.run.seed)
    layers = (config.network.hidden_size,) * config.network.num_layers
    settings = config.optimization
    solver = DeepCFRSolver(
        game,
        policy_network_layers=layers,
        advantage_network_layers=layers,
        num_iterations=1,  # one call of solve() is one more iteration
        num_traversals=config.traversal.traversals_per_iteration,
        learning_rate=settings.learning_rate,
        batch_size_advantage=settings.advantage_batch_size,
        batch_size_strategy=settings.strategy_batch_size,
        memory_capacity=config.memory.advantage_capacity,
        policy_network_train_steps=settings.strategy_steps,
        advantage_network_train_steps=settings.advantage_steps,
        device=config.run.device,
        seed=config.run.seed,
    )
    cpu_s, iteration = 0.0, 0
    while True:
        iteration += 1
        begun = time.process_time()
        network, _, _ = solver.solve()
        cpu_s += time.process_time() - begun
        buffers = [*solver.advantage_buffers, solver.strategy_buffer]
        yield Reached(
            iteration,
            cpu_s,
            sum(int(buffer.add_calls) for buffer in buffers if buffer is not None),
            _share(network) if solvable else None,
        )


def _share(network: torch.nn.Module) -> float:
    return share_of_range(build_tree(spiel_game.RULES), network_policy(network))


def network_policy(network: torch.nn.Module) -> Policy:
    """Return what OpenSpiel's strategy network plays; `policy_table` drops what is illegal."""
    scale_E = encoding_scale(spiel_game.RULES)

    def policy(_player: int, features_BE: np.ndarray, _legal_BA: np.ndarray) -> np.ndarray:
        device = next(network.parameters()).device
        with torch.inference_mode():
            rows = torch.from_numpy((features_BE * scale_E).astype(np.float32)).to(device)
            policy_BA: np.ndarray = network(rows).cpu().numpy()
        return policy_BA

    return policy


def ours(config: DeepCFRConfig) -> Iterator[Reached]:
    for point in train(config):
        yield Reached(point.iteration, point.cpu_s, point.nodes, point.average)


def compare(
    folder: Path, seeds: Sequence[int], iterations: int, overrides: Sequence[str]
) -> list[Row]:
    game, leduc = pyspiel.load_game(spiel_game.NAME), pyspiel.load_game("leduc_poker")
    theirs, at_iterations, at_seconds, with_many = [], [], [], []
    for seed in seeds:
        config = tiny_config(folder / f"{seed}", seed, overrides)
        run = openspiel(game, config, solvable=True)
        theirs.append(_last(run, iterations))
        _say(f"OpenSpiel, seed {seed}", theirs[-1])
        points = within(theirs[-1].cpu_s, ours(config))
        at_iterations.append(points[min(iterations, len(points)) - 1])
        _say(f"ours, as many iterations, seed {seed}", at_iterations[-1])
        at_seconds.append(points[-1])
        _say(f"ours, as many seconds, seed {seed}", at_seconds[-1])
        config = tiny_config(folder / f"{seed}-many", seed, [*overrides, *MANY])
        with_many.append(within(theirs[-1].cpu_s, ours(config))[-1])
        _say(f"ours, {MANY[0]}, as many seconds, seed {seed}", with_many[-1])
    config = tiny_config(folder / "leduc", seeds[0], overrides)
    poker = _last(openspiel(leduc, config, solvable=False), iterations)
    _say("OpenSpiel, Leduc poker", poker)
    return [
        Row("OpenSpiel, external sampling", tuple(theirs)),
        Row("ours, outcome sampling, as many iterations", tuple(at_iterations)),
        Row("ours, outcome sampling, as many seconds", tuple(at_seconds)),
        Row("ours, 1,000 traversals a player, as many seconds", tuple(with_many)),
        Row("OpenSpiel on Leduc poker in C++, one seed", (poker,)),
    ]


def within(cpu_s: float, run: Iterator[Reached]) -> list[Reached]:
    """Return what a run reaches in so many seconds, and its first iteration in any case."""
    first = next(run)
    return [first, *takewhile(lambda reached: reached.cpu_s <= cpu_s, run)]


def _last(run: Iterator[Reached], iterations: int) -> Reached:
    return list(islice(run, iterations))[-1]


def _say(name: str, reached: Reached) -> None:
    print(f"{name}: {reached}", file=sys.stderr, flush=True)


def table(rows: Sequence[Row]) -> str:
    lines = [
        "| | iterations | CPU s an iteration | moves an iteration | moves a CPU s "
        "| exploitability, share of the range |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        iterations = statistics.median(run.iteration for run in row.runs)
        seconds = statistics.median(run.cpu_s / run.iteration for run in row.runs)
        moves = statistics.median(run.moves / run.iteration for run in row.runs)
        found = [run.exploitability for run in row.runs if run.exploitability is not None]
        reached = spread(found) if found else "-"
        lines.append(
            f"| {row.name} | {iterations:g} | {seconds:.3g} | {moves:.0f} "
            f"| {moves / seconds:.0f} | {reached} |"
        )
    return "\n".join(lines)


def spread(values: Sequence[float]) -> str:
    return f"{statistics.mean(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.against_openspiel")
    parser.add_argument("--traversals", type=int, default=100)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], metavar="A.B=C", dest="overrides")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    overrides = [
        f"traversal.traversals_per_iteration={arguments.traversals}",
        f"traversal.lanes={arguments.traversals}",
        *arguments.overrides,
    ]
    spiel_game.check_against_reference(games=50, seed=1)
    with tempfile.TemporaryDirectory() as folder:
        rows = compare(Path(folder), range(arguments.seeds), arguments.iterations, overrides)
    tree = build_tree(spiel_game.RULES)
    uniform = exploitability(tree, uniform_policy(tree)) / tree.value_range
    print(table(rows))
    print(f"\nuniform play: {uniform:.3f}; load of the machine: {load()}")


if __name__ == "__main__":
    main()
