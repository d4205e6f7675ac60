"""What the project claims of its own speed, measured again on this machine: `make bench`.

    python -m benchmarks.evidence [--device cuda] [PART ...]

Writes a table, a JSON file and a plot for each part to `benchmarks/results/`, always by the same
names, each with what it was measured on. apply: `porttool apply` beside a plain cherry-pick.
networks, step: training iterations of a 512 x 3 network without compile, and with it in either
scope. inference: served forwards of that network, compiled in three ways and not at all. All are
small, so that everything takes minutes; the iterations are short, their forwards, batches and
optimizer steps of the usual size.

With --device cuda it is the plan's rows for a GPU: a 1024 x 6 network too, in fp32 and bf16. Exit
code: 0 all well, 1 a part failed, 3 there is no GPU.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from coolrl_lost_cities.games.classic.deep_cfr.config import load_config
from coolrl_lost_cities.games.classic.deep_cfr.fingerprint import take_fingerprint

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
FAILED, NO_GPU = 1, 3
PARTS = ("apply", "networks", "step", "inference")
_TRAINER = "coolrl_lost_cities.games.classic.deep_cfr.cli"
# Few games, cut at about the length of trained players', and few steps of whole batches.
_SHORT = (
    "rules.max_steps=120",
    "traversal.traversals_per_iteration=32",
    "traversal.lanes=32",
    "optimization.advantage_steps=8",
    "optimization.strategy_steps=8",
    "memory.advantage_capacity=50000",
    "memory.strategy_capacity=50000",
)
_SERVED = ("traversal.traversals_per_iteration=512", "traversal.lanes=256")
_LARGER = ("network.hidden_size=1024", "network.num_layers=6")


def settings(part: str, device: str) -> dict[str, list[str]]:
    """Return by the name of its files what each bench of a part is run with."""
    chosen = [*_SHORT, f"run.device={device}"]
    chosen += [*_SERVED] if part == "inference" else [f"compile.trainer.scope={part}"]
    if device == "cpu":
        return {part: chosen}
    return {
        f"{device}_{part}_{size}_{precision}": [*chosen, *sizes, f"run.precision={precision}"]
        for size, sizes in (("512x3", ()), ("1024x6", _LARGER))
        for precision in ("fp32", "bf16")
    }


def bench_command(part: str, sets: Sequence[str], out: Path) -> list[str]:
    target = "inference" if part == "inference" else "trainer"
    overrides = [word for text in sets for word in ("--set", text)]
    words = ["bench", *overrides, "--target", target, "--out", str(out)]
    return [sys.executable, "-m", _TRAINER, *words]


def without_paths(text: str) -> str:
    """Return a result without where the checkout and the interpreter lie on this machine."""
    for folder in (str(ROOT), sys.prefix, sys.base_prefix):
        text = text.replace(f"{folder}/", "")
    return text


def run_bench(part: str, name: str, sets: Sequence[str]) -> bool:
    """Run one bench and keep its files; say whether its times count."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / name
        done = subprocess.run(bench_command(part, sets, out), cwd=ROOT, check=False)
        stem = "inference" if part == "inference" else "bench"
        for ending in ("md", "json"):
            written = out / f"{stem}.{ending}"
            if written.exists():
                text = without_paths(written.read_text("utf-8"))
                (RESULTS / f"{name}.{ending}").write_text(text, "utf-8")
        if (out / f"{stem}.png").exists():
            (RESULTS / f"{name}.png").write_bytes((out / f"{stem}.png").read_bytes())
    return done.returncode == 0


def run_apply() -> bool:
    """Time `porttool apply`; it has no plot."""
    fingerprint = take_fingerprint(load_config(None, []))
    command = [sys.executable, "-m", "benchmarks.apply", "3", "demo", "help"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    found = {"measured": fingerprint.measured, "machine": fingerprint.machine, "lines": lines}
    found["fingerprint"] = asdict(fingerprint)
    (RESULTS / "apply.json").write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    rows = [
        f"{apply_table(lines)}\n",
        "Medians of whole processes, in turn. wall_s: seconds on the clock; cpu_s: of processor "
        "time.\n",
        f"Measured on {fingerprint.machine}; {fingerprint.sources}.\n",
    ]
    (RESULTS / "apply.md").write_text("\n".join(rows), "utf-8")
    return done.returncode == 0


def apply_table(lines: Sequence[dict[str, object]]) -> str:
    """Return every figure of every line."""
    rows = ["| benchmark | figure | value |", "|---|---|---:|"]
    for line in lines:
        title = str(line["benchmark"])
        for key, value in line.items():
            if key == "benchmark":
                continue
            inner = value if isinstance(value, dict) else {"": value}
            rows += [f"| {title} | {f'{key} {name}'.strip()} | {inner[name]} |" for name in inner]
    return "\n".join(rows)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evidence")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    asked = parser.parse_args(arguments)
    unknown = [part for part in asked.parts if part not in PARTS]
    if unknown:
        parser.error(f"unknown part {unknown[0]}, expected one of {', '.join(PARTS)}")
    if asked.device == "cuda" and not torch.cuda.is_available():
        print("bench: torch sees no GPU on this machine, nothing was measured", file=sys.stderr)
        return NO_GPU
    RESULTS.mkdir(exist_ok=True)
    failed = []
    # What porttool takes has nothing to do with a GPU.
    for part in asked.parts or PARTS[asked.device == "cuda" :]:
        if part == "apply":
            benches = {part: run_apply()}
        else:
            wanted = settings(part, asked.device)
            benches = {name: run_bench(part, name, sets) for name, sets in wanted.items()}
        failed += [name for name, well in benches.items() if not well]
    for name in failed:
        print(f"bench: {name} failed; what it said stands above", file=sys.stderr)
    return FAILED if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
