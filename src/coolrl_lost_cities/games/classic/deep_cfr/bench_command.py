"""The command `bench` as a value: what is said at its end, and whether its times count at all."""

from collections.abc import Sequence
from pathlib import Path

from coolrl_lost_cities.games.classic.deep_cfr.bench import Say, run_bench
from coolrl_lost_cities.games.classic.deep_cfr.bench_report import table, write_bench
from coolrl_lost_cities.games.classic.deep_cfr.config import DeepCFRConfig
from coolrl_lost_cities.games.classic.deep_cfr.sweep import run_sweep, sweep_table, write_sweep
from coolrl_lost_cities.games.classic.deep_cfr.sweep_axes import parse_axes


def run_and_write(
    config: DeepCFRConfig, out: Path, say: Say, sweep: Sequence[str], limits: tuple[int, int]
) -> tuple[str, bool]:
    """Bench once, or at every point of a sweep; return what to say, and whether it failed.

    `limits` are the measured iterations of a side and the most compilations of a network.
    """
    iterations, most = limits
    if sweep:
        swept = run_sweep(
            config, parse_axes(sweep), out, say, iterations=iterations, most_compilations=most
        )
        files, said, failed = write_sweep(swept, out), sweep_table(swept), swept.failed
    else:
        found = run_bench(config, out, say, iterations=iterations, most_compilations=most)
        files, said, failed = write_bench(found, out), table(found), bool(found.failed)
    return "\n".join([said, *map(str, files)]), failed
