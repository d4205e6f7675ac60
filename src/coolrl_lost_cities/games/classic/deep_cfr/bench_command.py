"""The command `bench` as a value: what is said at its end, and whether its times count at all."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from coolrl_lost_cities.games.classic.deep_cfr import inference_report
from coolrl_lost_cities.games.classic.deep_cfr.bench import Say, run_bench
from coolrl_lost_cities.games.classic.deep_cfr.bench_report import table, write_bench
from coolrl_lost_cities.games.classic.deep_cfr.config import DeepCFRConfig
from coolrl_lost_cities.games.classic.deep_cfr.errors import DeepCFRError
from coolrl_lost_cities.games.classic.deep_cfr.inference_bench import run_inference_bench
from coolrl_lost_cities.games.classic.deep_cfr.sweep import run_sweep, sweep_table, write_sweep
from coolrl_lost_cities.games.classic.deep_cfr.sweep_axes import Axis, parse_axes


class WrongBench(DeepCFRError):
    """A bench was asked for that there is not."""


@dataclass(frozen=True)
class ToBench:
    """What is benched: trained iterations or served forwards, and every value of which keys."""

    served: bool = False
    axes: tuple[Axis, ...] = ()


def what_to_bench(target: str, sweep: Sequence[str], more: Sequence[str]) -> ToBench:
    """Return what a command line asks for; `more` are the words that stand by themselves.

    Raises WrongBench and WrongAxis.
    """
    if more and not sweep:
        raise WrongBench(
            f"{more[0]}: stands by itself, expected --sweep before the first KEY=VALUE,VALUE, or "
            "--set for a single value"
        )
    if sweep and target == "inference":
        raise WrongBench(
            "--sweep is of iterations; --target inference compares all ways to serve one "
            "configuration: call it once for each"
        )
    return ToBench(target == "inference", parse_axes([*sweep, *more]) if sweep else ())


def run_and_write(
    config: DeepCFRConfig, out: Path, say: Say, what: ToBench, limits: tuple[int, int]
) -> tuple[str, bool]:
    """Bench once, or at every point of a sweep; return what to say, and whether it failed.

    `limits` are the measured iterations of a side, or replays of a served model, and the most
    compilations of a trained network.
    """
    iterations, most = limits
    if what.served:
        served = run_inference_bench(config, out, say, replays=iterations)
        files = inference_report.write_inference_bench(served, out)
        said, failed = inference_report.table(served), bool(served.failed)
    elif what.axes:
        swept = run_sweep(
            config, what.axes, out, say, iterations=iterations, most_compilations=most
        )
        files, said, failed = write_sweep(swept, out), sweep_table(swept), swept.failed
    else:
        found = run_bench(config, out, say, iterations=iterations, most_compilations=most)
        files, said, failed = write_bench(found, out), table(found), bool(found.failed)
    return "\n".join([said, *map(str, files)]), failed
