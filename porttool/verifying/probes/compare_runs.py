"""Compare what two runs left behind, exactly, and look for the wrapper's prefix in it.

    python compare_runs.py A B OUT.json --metrics metrics.jsonl [--checkpoint latest.pt]
                           --prefix _orig_mod. [--ignore NAME ...] [--own RUN]

Runs under the Python of the project that is being checked, imports nothing of porttool and writes
one JSON object to OUT.json. Checkpoints are read with `weights_only=True`. Tensors are equal
when type, shape and every byte are, so NaN equals NaN and 0.0 differs from -0.0. A name given to
`--ignore` (`seconds`, `*_per_s`) hides values under such keys, in metrics and checkpoints alike,
from the comparison but never from the search for the prefix. What holds the prefix in the
checkpoint of `--own` as well, at the same place, is the project's own: numbers in lists apart.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any

import torch

SHOWN = 20
INDEX = re.compile(r"\[\d+\]")


def leaves(value: Any, ignore: list[str], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value in nested containers with a path such as `optimizer.state[0].exp_avg`."""
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(key, str) and any(fnmatchcase(key, name) for name in ignore):
                continue
            step = (f".{key}" if path else key) if isinstance(key, str) else f"[{key!r}]"
            yield from leaves(item, ignore, path + step)
        if not value:
            yield path, "{}"
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from leaves(item, ignore, f"{path}[{index}]")
        if not value:
            yield path, "[]"
    else:
        yield path, value


def prefixed(value: Any, prefix: str, path: str = "") -> Iterator[str]:
    """Yield where a key or a string contains `prefix`, at any depth."""
    if isinstance(value, dict):
        for key, item in value.items():
            step = f"{path}.{key}" if path else str(key)
            if isinstance(key, str) and prefix in key:
                yield step
            yield from prefixed(item, prefix, step)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for index, item in enumerate(value):
            yield from prefixed(item, prefix, f"{path}[{index}]")
    elif isinstance(value, str) and prefix in value:
        yield f"{path} = {value!r}"


def difference(a: Any, b: Any) -> str | None:
    """Return in words how two leaves differ, None when they are the same."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"{a.dtype} {list(a.shape)} against {b.dtype} {list(b.shape)}"
        raw_a, raw_b = (t.detach().contiguous().reshape(-1).view(torch.uint8) for t in (a, b))
        if torch.equal(raw_a, raw_b):
            return None
        width = max(a.element_size(), 1)
        count = int((raw_a != raw_b).reshape(-1, width).any(dim=1).sum())
        far = (a.detach().to(torch.float64) - b.detach().to(torch.float64)).abs().max().item()
        return f"{count} of {a.numel()} elements differ, by at most {far:.3g}"
    if type(a) is not type(b):
        return f"a {type(a).__name__} against a {type(b).__name__}"
    # repr tells 0.0 from -0.0 and calls two NaN the same.
    return None if repr(a) == repr(b) else f"{a!r:.80} against {b!r:.80}"


def compare(a: Any, b: Any, ignore: list[str]) -> dict[str, Any]:
    """Compare two nested containers leaf by leaf."""
    left, right = dict(leaves(a, ignore)), dict(leaves(b, ignore))
    shared = left.keys() & right.keys()
    found = ((path, difference(left[path], right[path])) for path in sorted(shared))
    different = [f"{path}: {what}" for path, what in found if what]
    only_a, only_b = sorted(left.keys() - shared), sorted(right.keys() - shared)
    return {
        "tensors": sum(isinstance(value, torch.Tensor) for value in left.values()),
        "values": len(left),
        "only_a": only_a[:SHOWN],
        "only_b": only_b[:SHOWN],
        "different": different[:SHOWN],
        "num_different": len(different),
        "same_keys": not only_a and not only_b,
        "same": not only_a and not only_b and not different,
    }


def leaks(value: Any, prefix: str, own: set[str]) -> list[str]:
    """Return where the prefix is that the project's own state does not have it."""
    found = (where for where in prefixed(value, prefix) if INDEX.sub("[]", where) not in own)
    return list(islice(found, SHOWN))


def metrics_of(path: Path) -> list[Any]:
    """Read one JSON value a line."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def main(argv: list[str]) -> None:
    """Write the comparison as one JSON object."""
    parser = argparse.ArgumentParser()
    parser.add_argument("a", type=Path)
    parser.add_argument("b", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--checkpoint")
    parser.add_argument("--metrics", required=True)
    parser.add_argument("--prefix", required=True)
    parser.add_argument("--own", type=Path)
    parser.add_argument("--ignore", action="append", default=[])
    options = parser.parse_args(argv)
    ignore: list[str] = options.ignore
    records_a, records_b = (metrics_of(f / options.metrics) for f in (options.a, options.b))
    result: dict[str, Any] = {
        "metrics": compare(records_a, records_b, ignore),
        "records": [len(records_a), len(records_b)],
        "checkpoint": None,
        "prefixed_a": [],
        "prefixed_b": [],
    }
    if options.checkpoint:
        a, b, own = (
            torch.load(folder / options.checkpoint, map_location="cpu", weights_only=True)
            if folder
            else {}
            for folder in (options.a, options.b, options.own)
        )
        result["checkpoint"] = compare(a, b, ignore)
        if options.prefix:
            known = {INDEX.sub("[]", where) for where in prefixed(own, options.prefix)}
            result["prefixed_a"] = leaks(a, options.prefix, known)
            result["prefixed_b"] = leaks(b, options.prefix, known)
    options.out.write_text(json.dumps(result), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
