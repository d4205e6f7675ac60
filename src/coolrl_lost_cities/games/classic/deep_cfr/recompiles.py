"""What torch.compile did in this process: graphs, seconds, and why it compiled again or gave up.

Three sources, since each alone can mislead (torch 2.13): the metrics name frames and reasons, and
remember the last 64 only; the counter of graphs counts all; and a frame past the recompile limit is
in neither, but runs uncompiled from then on, and is counted as unimplemented.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_LIMIT = "recompile limit exceeded"


@dataclass(frozen=True)
class CompileCounts:
    """What was compiled so far: `seconds` are spent compiling, `reasons` name failed guards."""

    graphs: int = 0
    compilations: int = 0
    seconds: float = 0.0
    reasons: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    limit_hits: int = 0

    def since(self, before: "CompileCounts") -> "CompileCounts":
        """Return what came after counts of the same process."""
        return CompileCounts(
            graphs=self.graphs - before.graphs,
            compilations=self.compilations - before.compilations,
            seconds=self.seconds - before.seconds,
            reasons=tuple(one for one in self.reasons if one not in before.reasons),
            failures=tuple(one for one in self.failures if one not in before.failures),
            limit_hits=self.limit_hits - before.limit_hits,
        )


def compile_counts() -> CompileCounts:
    """Return the counts of this process."""
    # Takes seconds to import, and a run that compiles nothing never asks.
    from torch._dynamo.utils import counters, get_compilation_metrics  # noqa: PLC0415

    metrics = [one for one in get_compilation_metrics() if one.co_name]
    done = [one for one in metrics if one.has_guarded_code and not one.fail_type]
    return CompileCounts(
        graphs=counters["stats"]["unique_graphs"],
        compilations=len(done),
        seconds=sum(one.entire_frame_compile_time_s or 0.0 for one in metrics),
        reasons=tuple(
            f"{one.co_filename}:{one.co_firstlineno} {one.co_name}: {one.recompile_reason}"
            for one in done
            if one.recompile_reason
        ),
        failures=tuple(
            f"{one.co_filename}:{one.co_firstlineno} {one.co_name}: {one.fail_type}: "
            f"{(one.fail_reason or '').strip()[:300]}"
            for one in metrics
            if one.fail_type
        ),
        limit_hits=sum(
            count for what, count in counters["unimplemented"].items() if _LIMIT in what.lower()
        ),
    )


def compile_metrics(enabled: bool) -> dict[str, Any]:
    """Return the counts of this process for a line of metrics; nothing where none compiles."""
    if not enabled:
        return {}
    counts = compile_counts()
    return {
        "compiled": {
            "graphs": counts.graphs,
            "limit_hits": counts.limit_hits,
            "failures": list(counts.failures[:1]),
            "reasons": list(counts.reasons[-1:]),
        }
    }


def counts_of_metrics(metrics: Mapping[str, Any]) -> CompileCounts | None:
    """Return what a line of metrics says was compiled; None where it says nothing."""
    if "compiled" not in metrics:
        return None
    found = dict(metrics["compiled"])
    return CompileCounts(
        graphs=found["graphs"],
        limit_hits=found["limit_hits"],
        failures=tuple(found["failures"]),
        reasons=tuple(found["reasons"]),
    )


def fallback(counts: CompileCounts) -> str:
    """Return why a process that was to run compiled code did not, all the time, or ""."""
    if counts.limit_hits:
        return f"the recompile limit was met, and the rest ran eager{_last(counts.reasons)}"
    if counts.failures:
        return f"a frame was not compiled and ran eager: {counts.failures[0]}"
    return "" if counts.graphs else "nothing was compiled"


def objection(counts: CompileCounts, networks: int, most: int) -> str:
    """Return why times of this process are no times of compiled networks, or "".

    `most` is how many compilations a network may take, the first among them.
    """
    if why := fallback(counts):
        return why
    if counts.compilations > most * networks:
        return (
            f"{counts.compilations} compilations for {networks} networks, at most {most} each "
            f"expected{_last(counts.reasons)}"
        )
    return ""


def _last(reasons: tuple[str, ...]) -> str:
    return f"; the last guard that failed: {reasons[-1]}" if reasons else ""
