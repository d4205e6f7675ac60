"""How near the trainer comes to the least that its work can cost, and to the plain way of doing it.

    python -m benchmarks.trainer [PART ...] [--rounds N] [--set A.B=C ...]

Parts: engine, traversal, workers, replay, step, evaluation, server; all of them without a name.
Prints JSON lines. Times are medians of rounds in which both sides take turns: `wall_us` is
microseconds a unit on the clock, `cpu_us` those of processor time with that of processes started
for the work. `ratio_*` is our time over that of what the line is `against`, so a floor is reached
at 1, and a naive way is beaten below it. `load` is what the machine was asked for meanwhile: on a
busy one believe `ratio_cpu`. What each part compares with what is said beside its function.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence

import torch

from benchmarks.learning import evaluation_part, replay_part, step_part
from benchmarks.measuring import load
from benchmarks.sampling import engine_part, server_part, traversal_part, workers_part
from benchmarks.workload import MAX_STEPS, Line, Sizes
from coolrl_lost_cities.games.classic.deep_cfr.config import DeepCFRConfig, load_config

Part = Callable[[DeepCFRConfig, Sizes, int], Iterator[Line]]

PARTS: dict[str, Part] = {
    "engine": engine_part,
    "traversal": traversal_part,
    "workers": workers_part,
    "replay": replay_part,
    "step": step_part,
    "evaluation": evaluation_part,
    "server": server_part,
}


def benchmark(
    config: DeepCFRConfig, sizes: Sizes, rounds: int, parts: Sequence[str]
) -> Iterator[Line]:
    for part in parts:
        for line in PARTS[part](config, sizes, rounds):
            yield {**line, "device": config.run.device, "rounds": rounds, "load": load()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trainer", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--set", action="append", default=[], metavar="A.B=C", dest="overrides")
    arguments = parser.parse_args()
    for part in arguments.parts:
        if part not in PARTS:
            parser.error(f"PART is {part}; expected one of {', '.join(PARTS)}")
    torch.set_num_threads(1)
    config = load_config(None, [MAX_STEPS, *arguments.overrides])
    for line in benchmark(config, Sizes(), arguments.rounds, arguments.parts or list(PARTS)):
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
