"""Run a Python program and write how much of it torch.compile compiled.

    python count_frames.py OUT.json -m package.module ARGS...
    python count_frames.py OUT.json script.py ARGS...

Runs under the Python of the project that is being checked and imports nothing of porttool. The
program sees the `sys.argv`, `sys.path[0]` and `__main__` that it would see without this script, and
its exit status is passed on. Only this process is counted, not the processes it starts.

Three sources, because each one alone can mislead (torch 2.13): `counters["frames"]` counts frames;
`counters["stats"]["unique_graphs"]` counts graphs; `get_compilation_metrics()` names frames,
reasons and failures but remembers the last 64 only. A frame that meets the recompile limit stays
out of the first two and runs eager from then on, so it is looked for by name.
"""

from __future__ import annotations

import importlib.util
import json
import os
import runpy
import sys
from typing import Any

DISABLING = ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE", "TORCHDYNAMO_SUPPRESS_ERRORS")


def compiled() -> dict[str, Any]:
    """Return what this process has compiled so far; all zero when it never imported torch."""
    counts: dict[str, Any] = {
        "frames_ok": 0,
        "frames_failed": 0,
        "graphs": 0,
        "compilations": 0,
        "functions": [],
        "recompiles": [],
        "failures": [],
        "limit_hits": 0,
    }
    if "torch" not in sys.modules:
        return counts
    # torch.compile imports torch._dynamo; without that module nothing can have been compiled.
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is None:
        return counts
    counters = dynamo.counters
    metrics = [m for m in dynamo.get_compilation_metrics() if m.co_name]
    done = [m for m in metrics if m.has_guarded_code and not m.fail_type]
    failed = [m for m in dynamo.get_compilation_metrics() if m.fail_type]
    frames = counters["frames"]
    counts["frames_ok"] = max(frames["ok"], len(done))
    counts["frames_failed"] = max(frames["total"] - frames["ok"], len(failed))
    counts["graphs"] = counters["stats"]["unique_graphs"]
    counts["compilations"] = len(done)
    counts["functions"] = sorted({f"{m.co_name} ({m.co_filename})" for m in done})
    counts["recompiles"] = [m.recompile_reason for m in done if m.recompile_reason]
    counts["failures"] = [f"{m.fail_type}: {(m.fail_reason or '').strip()[:300]}" for m in failed]
    counts["limit_hits"] = sum(
        count
        for what, count in counters["unimplemented"].items()
        if "recompile limit exceeded" in what.lower()
    )
    return counts


def main(argv: list[str]) -> None:
    """Run the program named by `argv[2:]` and write the counts to `argv[1]` however it ends."""
    out, target = argv[1], argv[2:]
    as_module = target[0] == "-m"
    name, arguments = (target[1], target[2:]) if as_module else (target[0], target[1:])
    facts: dict[str, Any] = {
        "disabled_by": {key: os.environ[key] for key in DISABLING if os.environ.get(key)},
        "origin": os.path.abspath(name),
        "finished": False,
    }
    try:
        if as_module:
            sys.path[0] = os.getcwd()
            spec = importlib.util.find_spec(name)
            facts["origin"] = spec.origin if spec else None
            sys.argv = [str(facts["origin"]), *arguments]
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = os.path.dirname(os.path.abspath(name))
            sys.argv = [name, *arguments]
            runpy.run_path(name, run_name="__main__")
        facts["finished"] = True
    except SystemExit as stop:
        facts["finished"] = stop.code in (None, 0)
        raise
    finally:
        with open(out, "w", encoding="utf-8") as file:
            json.dump({**facts, **compiled()}, file)


if __name__ == "__main__":
    main(sys.argv)
