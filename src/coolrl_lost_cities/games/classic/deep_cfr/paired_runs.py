"""Training runs in pairs, compile off and on: a folder and a process each, and none run twice.

What makes a run comparable is set here; everything else is the configuration's. A run that was
ended goes on from its latest checkpoint. The lock on the folder is handed down to the run's
process, so that it is held as long as anybody writes there.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coolrl_lost_cities.games.classic.deep_cfr import runs
from coolrl_lost_cities.games.classic.deep_cfr.config import (
    DeepCFRConfig,
    config_from_mapping,
    config_to_mapping,
    load_config,
)
from coolrl_lost_cities.games.classic.deep_cfr.errors import DeepCFRError
from coolrl_lost_cities.games.classic.deep_cfr.metrics import read_metrics

OPPONENTS = ("random", "safe_heuristic")
STOPPING = "finishing this iteration, then stopping; Ctrl-C again stops at once"
_TRAINER = "coolrl_lost_cities.games.classic.deep_cfr.cli"
# What may differ between a run that is there and the one that is wanted: where it lies, and what
# is judged afterwards.
_INCIDENTAL = {"run.out", "run.name", "run.overwrite"}

Say = Callable[[str], None]


class PairedRunError(DeepCFRError):
    """A run that cannot be made or gone on with: which folder, what is wrong, what to do."""

    def __init__(self, folder: Path, problem: str, advice: str) -> None:
        self.folder = folder
        super().__init__(f"{folder}: {problem}; {advice}")


@dataclass(frozen=True)
class PairedRun:
    """One run of a pair: its seed, whether it compiles, its folder and all of its settings."""

    seed: int
    compiled: bool
    folder: Path
    config: DeepCFRConfig

    @property
    def name(self) -> str:
        """What progress calls it."""
        return f"seed {self.seed}, compile {'on' if self.compiled else 'off'}"


def paired_runs(config: DeepCFRConfig, out: Path) -> list[PairedRun]:
    """Return the runs of `config.drift` below a folder, the two of a seed one after the other."""
    first = config.run.seed
    return [
        _paired_run(config, out, seed, compiled)
        for seed in range(first, first + config.drift.seeds)
        for compiled in (False, True)
    ]


def _paired_run(config: DeepCFRConfig, out: Path, seed: int, compiled: bool) -> PairedRun:
    folder = out / f"seed_{seed:04d}_{'on' if compiled else 'off'}"
    settings = config.drift
    values: dict[str, Any] = {
        "run.name": folder.name,
        "run.out": str(folder),
        "run.seed": seed,
        "run.iterations": settings.iterations,
        "run.minutes": None,
        "run.overwrite": False,
        "checkpoint.save_latest": True,
        "checkpoint.save_every": 0,
        "evaluation.eval_every": settings.eval_every,
        "evaluation.games": settings.games,
        "evaluation.opponents": list(OPPONENTS),
        "compile.trainer.enabled": compiled,
    }
    overrides = [f"{key}={json.dumps(value)}" for key, value in values.items()]
    made = config_from_mapping(config_to_mapping(config), "drift", overrides)
    return PairedRun(seed, compiled, folder, made)


def check_continues(run: PairedRun) -> None:
    """Raise PairedRunError where the run's folder holds a run with other settings."""
    path = run.folder / runs.CONFIG
    if not path.exists():
        return
    stored, wanted = (
        _flat(config_to_mapping(load_config(path))),
        _flat(config_to_mapping(run.config)),
    )
    for key, value in wanted.items():
        if key in _INCIDENTAL or key.startswith("drift."):
            continue
        if stored[key] != value:
            raise PairedRunError(
                run.folder,
                f"was run with {key}: {stored[key]}, now it is {value}",
                "set it back, or measure afresh with another --out",
            )


def is_complete(run: PairedRun) -> bool:
    """Say whether a run has gone through all of its iterations."""
    path = run.folder / runs.METRICS
    if not path.exists():
        return False
    records = read_metrics(path)
    return bool(records) and records[-1]["iteration"] >= run.config.run.iterations


def finish(run: PairedRun, say: Say, lock: int) -> None:
    """Run what is left of a run, in a process of its own; `lock` is a file that it keeps open.

    Its checkpoint is removed in the end: a dozen of them can fill a disk, and the metrics are what
    counts. Raises PairedRunError where it fails. An interrupt lets the iteration be finished, a
    second one does not.
    """
    if is_complete(run):
        say(f"{run.name}: complete, not run again")
    else:
        run.folder.mkdir(parents=True, exist_ok=True)
        latest = run.folder / runs.LATEST
        if latest.exists():
            say(f"{run.name}: goes on from its latest checkpoint")
            arguments = ["--resume", str(latest)]
        else:
            say(f"{run.name}: starts")
            runs.write_config(run.config)
            # Metrics without a checkpoint are those of a run that was ended before its first one.
            config = str(run.folder / runs.CONFIG)
            arguments = ["--config", config, "--set", "run.overwrite=true"]
        _train(run, arguments, say, lock)
        if not is_complete(run):
            raise PairedRunError(
                run.folder, "the run ended before its last iteration", "run the same command again"
            )
    (run.folder / runs.LATEST).unlink(missing_ok=True)


def _train(run: PairedRun, arguments: list[str], say: Say, lock: int) -> None:
    command = [sys.executable, "-m", _TRAINER, "train", *arguments]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,  # and its end: without us a run stops at the next line it says
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        pass_fds=(lock,),
        start_new_session=True,  # Ctrl-C of a terminal reaches it through us only
    )
    assert process.stdout is not None
    last = ""
    try:
        for line in process.stdout:
            last = line.rstrip() or last
            say(f"{run.name}: {line.rstrip()}")
        code = process.wait()
    except KeyboardInterrupt:
        process.terminate()
        say(STOPPING)
        process.communicate()
        raise
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    if code != 0:
        reason = f"was killed by {signal.Signals(-code).name}" if code < 0 else last
        raise PairedRunError(
            run.folder, f"the run failed ({reason})", f"read {runs.LOG} there, then run this again"
        )


@contextmanager
def locked(out: Path) -> Iterator[int]:
    """Keep everybody else out of a folder; yield the open lock. Raises PairedRunError."""
    out.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(out / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise PairedRunError(
                out,
                "another drift check is at work here, or a run that one left behind",
                "wait until it has ended, or choose another --out",
            ) from error
        yield descriptor
    finally:
        os.close(descriptor)


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat
