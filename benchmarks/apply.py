"""How long `porttool apply` takes, beside a plain `git cherry-pick` in the same run.

    python -m benchmarks.apply [ROUNDS] [demo] [help] [tree] [relevant] [lines]

Prints JSON lines. Every figure is a median of whole processes, run in turn: `wall_s` is seconds on
the clock, `cpu_s` seconds of processor time with all that the process started. The branch is really
made and is removed again; the pick runs in a warm work tree and is undone. Compiled Python files
are kept, as an installation keeps them, in a folder of the run.

demo: the port of this very project. help: `porttool --help` beside `python -c pass`. tree: the same
few files that matter in trees of 200, 2,000 and 20,000 Python files. relevant: 1, 5 and 25 files
that matter among 2,000. lines: one file that matters, of 100, 1,250 and 5,000 lines.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.grown import EXPERIMENT, write_grown
from porttool.demo import write_demo

PORTTOOL = [sys.executable, "-m", "porttool"]
APPLY = [*PORTTOOL, "apply", "--onto", "main"]
PARTS = ("demo", "help", "tree", "relevant", "lines")
Spent = tuple[float, float]  # on the clock, and of the processor


def spent(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Spent:
    begun = time.perf_counter()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    # A pick that stops at a conflict has done its work.
    if process.returncode != 0 and "cherry-pick" not in command:
        raise SystemExit(f"{' '.join(command)} in {folder} ended with {process.returncode}")
    return wall, usage.ru_utime + usage.ru_stime


def medians(rounds: Sequence[Spent]) -> dict[str, float]:
    walls, processors = zip(*rounds, strict=True)
    return {
        "wall_s": round(statistics.median(walls), 3),
        "cpu_s": round(statistics.median(processors), 3),
    }


def ratios(over: Mapping[str, float], under: Mapping[str, float]) -> dict[str, float]:
    return {name: round(over[name] / under[name], 1) for name in over}


def in_turn(
    commands: Mapping[str, Sequence[str]],
    folder: Path,
    environment: Mapping[str, str],
    *,
    rounds: int,
    undo: Sequence[Sequence[str]] = (),
) -> dict[str, dict[str, float]]:
    """Return the medians of some commands; a first round, which is not counted, warms caches up."""
    found: dict[str, list[Spent]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, command in commands.items():
            seconds = spent(command, folder, environment)
            for step in undo:
                subprocess.run(step, cwd=folder, env=environment, check=True, capture_output=True)
            if number:
                found[name].append(seconds)
    return {name: medians(seconds) for name, seconds in found.items()}


def port(
    folder: Path, name: str, experiment: str, environment: Mapping[str, str], rounds: int
) -> dict[str, Any]:
    """Return what a port and a pick of its experiment take, and their ratio."""
    git = ["git", "-c", "user.name=Bench", "-c", "user.email=bench@example.org"]
    found: dict[str, Any] = in_turn(
        {"apply": APPLY, "cherry_pick": [*git, "cherry-pick", experiment]},
        folder,
        environment,
        rounds=rounds,
        undo=(
            [*git, "reset", "--quiet", "--hard", start_of(folder)],
            [*git, "update-ref", "-d", f"refs/heads/port/{name}"],
            [*git, "update-ref", "-d", "refs/notes/porttool"],
        ),
    )
    return {**found, "ratio": ratios(found["apply"], found["cherry_pick"])}


def start_of(folder: Path) -> str:
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def grown(
    scratch: Path,
    environment: Mapping[str, str],
    rounds: int,
    what: str,
    sizes: Sequence[int],
    **fixed: int,
) -> Iterator[dict[str, Any]]:
    """Yield a line for each size of one thing, and one for the last beside the first."""
    lines = []
    for size in sizes:
        folder = scratch / f"{what}-{size}"
        write_grown(folder, **{**fixed, what: size})
        measured = port(folder, "wrapped", EXPERIMENT, environment, rounds)
        lines.append({"benchmark": f"apply, {what}", what: size, **fixed, **measured})
        yield lines[-1]
    first, last = lines[0], lines[-1]
    yield {
        "benchmark": f"growth, {what}",
        "from": sizes[0],
        "to": sizes[-1],
        "apply": ratios(last["apply"], first["apply"]),
        "cherry_pick": ratios(last["cherry_pick"], first["cherry_pick"]),
    }


def benchmark(scratch: Path, rounds: int, parts: Sequence[str]) -> Iterator[dict[str, Any]]:
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(scratch / "compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if "demo" in parts:
        folder = scratch / "demo"
        write_demo(folder)
        found = port(folder, "torch-compile", "experiments/torch-compile", environment, rounds)
        yield {"benchmark": "apply, demo", **found}
    if "help" in parts:
        commands = {"help": [*PORTTOOL, "--help"], "python": [sys.executable, "-c", "pass"]}
        times = in_turn(commands, scratch, environment, rounds=rounds)
        ratio = ratios(times["help"], times["python"])
        yield {"benchmark": "start-up", **times, "ratio": ratio}
    if "tree" in parts:
        sizes = (200, 2_000, 20_000)
        yield from grown(scratch, environment, rounds, "num_files", sizes, num_relevant=2)
    if "relevant" in parts:
        sizes = (1, 5, 25)
        yield from grown(scratch, environment, rounds, "num_relevant", sizes, num_files=2_000)
    if "lines" in parts:
        sizes = (100, 1_250, 5_000)
        yield from grown(scratch, environment, rounds, "num_lines", sizes, num_files=50)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    parts = sys.argv[2:] or PARTS
    with tempfile.TemporaryDirectory() as scratch:
        for line in benchmark(Path(scratch), rounds, parts):
            load = [round(value, 2) for value in os.getloadavg()]
            print(json.dumps({**line, "rounds": rounds, "load": load}), flush=True)


if __name__ == "__main__":
    main()
