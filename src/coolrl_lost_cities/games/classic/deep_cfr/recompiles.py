"""What torch.compile did in this process: graphs, seconds, and why it compiled again or gave up.

Three sources, since each alone can mislead (torch 2.13): the metrics name frames and reasons, and
remember the last 64 only; the counter of graphs counts all; and a frame past the recompile limit is
in neither, but runs uncompiled from then on, and is counted as unimplemented.
"""

from dataclasses import dataclass

from torch._dynamo.utils import counters, get_compilation_metrics

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


def compile_counts() -> CompileCounts:
    """Return the counts of this process."""
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


def objection(counts: CompileCounts, networks: int, most: int) -> str:
    """Return why times of this process are no times of compiled networks, or "".

    `most` is how many compilations a network may take, the first among them.
    """
    if counts.limit_hits:
        return f"the recompile limit was met, and the rest ran eager{_last(counts.reasons)}"
    if counts.failures:
        return f"a frame was not compiled and ran eager: {counts.failures[0]}"
    if not counts.graphs:
        return "nothing was compiled"
    if counts.compilations > most * networks:
        return (
            f"{counts.compilations} compilations for {networks} networks, at most {most} each "
            f"expected{_last(counts.reasons)}"
        )
    return ""


def _last(reasons: tuple[str, ...]) -> str:
    return f"; the last guard that failed: {reasons[-1]}" if reasons else ""
