"""How long `porttool radar` takes over many unmerged branches, and how that grows.

    python -m benchmarks.radar [ROUNDS] [BRANCHES ...]

Prints one JSON line a number of branches (50, 100 and 200 by default), and one with the growth.
Every figure is a median of whole processes: `wall_s` is seconds on the clock, `cpu_s` seconds of
processor time with all that the process started. The sizes take turns, so that whatever else the
machine does meets all of them.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.branches import NUM_MAIN, write_branches

SIZES = (50, 100, 200)


def looked(folder: Path) -> tuple[float, float, dict[str, object]]:
    """Return the seconds on the clock and of the processor that one look takes, and the answer."""
    command = [sys.executable, "-m", "porttool", "radar", "--json", "--repo", str(folder)]
    begun, before = time.perf_counter(), os.times()
    done = subprocess.run(command, capture_output=True, check=True)
    wall, after = time.perf_counter() - begun, os.times()
    cpu = after.children_user + after.children_system
    return wall, cpu - before.children_user - before.children_system, json.loads(done.stdout)


def main(words: list[str]) -> None:
    rounds, *sizes = [int(word) for word in words] or [5]
    sizes = sizes or [*SIZES]
    with tempfile.TemporaryDirectory() as scratch:
        folders = {size: Path(scratch) / str(size) for size in sizes}
        for size, folder in folders.items():
            write_branches(folder, num_branches=size)
        found: dict[int, list[tuple[float, float]]] = {size: [] for size in sizes}
        for _ in range(rounds):
            for size, folder in folders.items():
                wall, cpu, answer = looked(folder)
                found[size].append((wall, cpu))
                if len(found[size]) == rounds:
                    print(json.dumps({**facts(size, answer), **medians(found[size])}), flush=True)
    least, most = min(sizes), max(sizes)
    if least < most:
        growth = medians(found[most])["cpu_s"] / medians(found[least])["cpu_s"]
        print(json.dumps({"growth_of_cpu": round(growth, 2), "of_branches": most / least}))


def facts(size: int, answer: dict[str, object]) -> dict[str, object]:
    branches = answer["branches"]
    assert isinstance(branches, list)
    commits = sum(len(branch["commits"]) for branch in branches)
    return {
        "branches": size,
        "commits": commits,
        "commits_of_main": NUM_MAIN,
        "states": answer["counts"],
    }


def medians(rounds: list[tuple[float, float]]) -> dict[str, float]:
    walls, processors = zip(*rounds, strict=True)
    return {
        "wall_s": round(statistics.median(walls), 2),
        "cpu_s": round(statistics.median(processors), 2),
    }


if __name__ == "__main__":
    main(sys.argv[1:])
