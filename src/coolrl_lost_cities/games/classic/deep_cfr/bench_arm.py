"""One side of a bench: a trainer in a process of its own that runs an iteration when it is told to.

    python -m coolrl_lost_cities.games.classic.deep_cfr.bench_arm

The first line on its standard input is a configuration in JSON, each further one asks for an
iteration, and each answer is a line: the iteration's metrics and what was compiled so far. It ends
with its input, so it does not outlive whoever started it by more than an iteration.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

import torch

from coolrl_lost_cities.games.classic.deep_cfr import runs
from coolrl_lost_cities.games.classic.deep_cfr.config import (
    DeepCFRConfig,
    config_from_mapping,
    config_to_mapping,
)
from coolrl_lost_cities.games.classic.deep_cfr.errors import DeepCFRError
from coolrl_lost_cities.games.classic.deep_cfr.processes import keep_freed_memory
from coolrl_lost_cities.games.classic.deep_cfr.recompiles import CompileCounts, compile_counts
from coolrl_lost_cities.games.classic.deep_cfr.trainer import DeepCFRTrainer

_LOG = "arm.log"
_GRACE_S = 5.0


class ArmEnded(DeepCFRError):
    """A side of the bench ended before it was told to."""

    def __init__(self, name: str, log: Path, last: str) -> None:
        super().__init__(f"the bench's side `{name}` ended by itself ({last}); read {log}")


@dataclass(frozen=True)
class Iteration:
    """What one iteration took, in seconds: in all, by phase, and by part of a phase.

    `compiled` is what the process had compiled by its end.
    """

    seconds: float
    phases: dict[str, float]
    parts: dict[str, float]
    compiled: CompileCounts


class Arm:
    """The other end: asks for iterations, one at a time."""

    def __init__(self, name: str, process: subprocess.Popen[str], log: Path) -> None:
        self.name = name
        self._process = process
        self._log = log

    def iterate(self) -> Iteration:
        """Have one iteration run and wait for it. Raises ArmEnded."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write("iterate\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None
        line = self._process.stdout.readline()
        if not line.endswith("\n"):
            raise self._ended()
        answer: dict[str, Any] = json.loads(line)
        compiled = answer["compiled"]
        for name in ("reasons", "failures"):
            compiled[name] = tuple(compiled[name])
        seconds, phases, parts = (answer[name] for name in ("seconds", "phases", "parts"))
        return Iteration(seconds, phases, parts, CompileCounts(**compiled))

    def _ended(self) -> ArmEnded:
        self._process.wait()
        lines = self._log.read_text("utf-8", "replace").splitlines()
        said = [line for line in lines if line.strip()]
        return ArmEnded(self.name, self._log, said[-1] if said else "it said nothing")


@contextmanager
def running_arm(name: str, config: DeepCFRConfig) -> Iterator[Arm]:
    """Start a side in the folder `run.out` of its configuration; it is ended with the block."""
    folder = Path(config.run.out)
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / _LOG
    with log.open("w", encoding="utf-8") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C of a terminal reaches it through us only
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(config_to_mapping(config)) + "\n")
        process.stdin.flush()
        yield Arm(name, process, log)
    finally:
        process.terminate()
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        with suppress(BrokenPipeError):  # closing flushes, and nobody may be left to read
            process.stdin.close()


def serve(lines: TextIO, answers: TextIO) -> None:
    """Answer until the lines end; what this side runs is in the first one."""
    config = config_from_mapping(json.loads(lines.readline()), "the bench")
    torch.set_num_threads(config.run.num_threads)
    keep_freed_memory()
    runs.start_new(config)
    with DeepCFRTrainer(config) as trainer:
        for _ in lines:
            begun = time.perf_counter()
            metrics = trainer.run_iteration()
            answer = {
                "seconds": time.perf_counter() - begun,
                "phases": metrics["seconds"],
                "parts": metrics["parts"],
                "compiled": asdict(compile_counts()),
            }
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


if __name__ == "__main__":
    # What a library prints must not stand between the answers.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as own:
        os.dup2(2, 1)
        serve(sys.stdin, own)
