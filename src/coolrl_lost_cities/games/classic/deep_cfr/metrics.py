"""What a run measures of itself: phase times, and one JSON line an iteration."""

import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coolrl_lost_cities.games.classic.deep_cfr.errors import DeepCFRError

Metrics = dict[str, Any]

# Times, what an inference server did, which depends on who waited for it together, and what a
# process has compiled so far, which depends on when it began.
_BY_TIMING = ("seconds", "parts", "inference_server", "compiled")


class MetricsError(DeepCFRError, ValueError):
    """A metrics file with a line that no run writes."""

    def __init__(self, path: Path, number: int, line: str) -> None:
        self.path = path
        self.number = number
        shown = line if len(line) <= 60 else line[:60] + "..."
        super().__init__(
            f"{path}:{number}: expected a JSON object with `iteration`, found {shown!r}; "
            "delete the line"
        )


class PhaseTimes:
    """Adds up wall time by phase, and by part of a phase, which is in that phase's time already."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.parts: dict[str, float] = {}
        self._lock = threading.Lock()  # phases may run side by side

    @contextmanager
    def measure(self, phase: str) -> Iterator[None]:
        """Add the time spent inside to that phase; phases may be nested, then both count."""
        start = time.perf_counter()
        try:
            yield
        finally:
            elapsed = time.perf_counter() - start
            with self._lock:
                self.seconds[phase] = self.seconds.get(phase, 0.0) + elapsed

    def add_part(self, part: str, seconds: float) -> None:
        """Add time that was measured elsewhere to a part."""
        with self._lock:
            self.parts[part] = self.parts.get(part, 0.0) + seconds


def without_times(metrics: Mapping[str, Any]) -> Metrics:
    """Return what must be equal between two runs of one seed: all but times and rates."""
    return {
        name: without_times(value) if isinstance(value, Mapping) else value
        for name, value in metrics.items()
        if name not in _BY_TIMING and not name.endswith(("_s", "_per_s"))
    }


def append_metrics(path: Path, metrics: Mapping[str, Any]) -> None:
    """Append one line and hand it to the operating system at once."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(metrics, allow_nan=False) + "\n")


def read_metrics(path: Path) -> list[Metrics]:
    """Return the lines of a metrics file, oldest first; raise MetricsError at a broken line.

    A last line without its newline, which a killed run leaves, does not count.
    """
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    records: list[Metrics] = []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise MetricsError(path, number, line) from error
        if not isinstance(record, dict) or "iteration" not in record:
            raise MetricsError(path, number, line)
        records.append(record)
    return records


def truncate_metrics(path: Path, last_iteration: int) -> None:
    """Drop the lines past an iteration, so that a resumed run continues where its checkpoint ends.

    The rest is rewritten beside the file and moved over it. A missing file is left missing.
    """
    if not path.exists():
        return
    kept = [record for record in read_metrics(path) if record["iteration"] <= last_iteration]
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8") as file:
        for record in kept:
            file.write(json.dumps(record) + "\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
