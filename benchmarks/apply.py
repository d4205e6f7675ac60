"""How long `porttool apply` takes on the demo, beside a plain `git cherry-pick` in the same run.

    python -m benchmarks.apply [ROUNDS]

Prints one JSON line: medians in seconds of whole processes, run in turn, and their ratio. The pick
runs in a warm work tree and is undone each time; the port is made as a dry run.
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

from porttool.demo import write_demo


def seconds(command: list[str], folder: Path) -> float:
    begun = time.perf_counter()
    subprocess.run(command, cwd=folder, capture_output=True, check=False)
    return time.perf_counter() - begun


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    python = [sys.executable, "-m", "porttool"]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "demo"
        write_demo(folder)
        times: dict[str, list[float]] = {"apply": [], "cherry_pick": [], "help": []}
        for number in range(rounds + 1):
            found = {
                "apply": seconds([*python, "apply", "--onto", "main", "--dry-run"], folder),
                "cherry_pick": seconds(["git", "cherry-pick", "experiments/torch-compile"], folder),
                "help": seconds([*python, "--help"], folder),
            }
            subprocess.run(["git", "cherry-pick", "--abort"], cwd=folder, check=True)
            if number:  # the first round warms caches up
                for name, value in found.items():
                    times[name].append(value)
    medians = {name: round(statistics.median(values), 4) for name, values in times.items()}
    ratio = round(medians["apply"] / medians["cherry_pick"], 1)
    load = [round(value, 2) for value in os.getloadavg()]
    print(
        json.dumps(
            {"benchmark": "apply", "rounds": rounds, **medians, "ratio": ratio, "load": load}
        )
    )


if __name__ == "__main__":
    main()
