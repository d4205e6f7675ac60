"""Turn the JSON lines of `benchmarks.trainer`, read from standard input, into a Markdown table."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any

_KNOWN = {
    *("benchmark", "unit", "count", "wall_us", "cpu_us", "per_s", "per_cpu_s", "against"),
    *("against_wall_us", "against_cpu_us", "ratio_wall", "ratio_cpu", "device", "rounds", "load"),
}


def table(lines: Iterable[Mapping[str, Any]]) -> str:
    """Return one row a line; what a line says beyond the fields of all lines goes last."""
    rows = [
        "| benchmark | on | a second | a CPU second | against | time over its, wall | CPU | also |",
        "|---|---|---:|---:|---|---:|---:|---|",
    ]
    for line in lines:
        more = ", ".join(f"{key} {value:g}" for key, value in line.items() if key not in _KNOWN)
        rows.append(
            f"| {line['benchmark']} | {line['device']} | {line['per_s']:,} {line['unit']} "
            f"| {line['per_cpu_s']:,} | {line['against']} | {line['ratio_wall']} "
            f"| {line['ratio_cpu']} | {more} |"
        )
    return "\n".join(rows)


if __name__ == "__main__":
    print(table(json.loads(line) for line in sys.stdin if line.startswith("{")))
