"""Does training come out the same with compile on? Three claims, and a verdict.

To the bit it does not and cannot. What is claimed is that compiled gradients are as near to exact
ones as eager ones are (`gradient_error`), that a smooth network trained on the same batches comes
out the same (`gelu_run`), and that over seeds the win rates of whole runs are equivalent within a
margin that was fixed beforehand (`paired_runs`, `equivalence`). A check that was ended goes on
where it stopped.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch

from coolrl_lost_cities.games.classic.deep_cfr import runs
from coolrl_lost_cities.games.classic.deep_cfr.compiler import require_cpp_compiler
from coolrl_lost_cities.games.classic.deep_cfr.compute_lock import compute_lock
from coolrl_lost_cities.games.classic.deep_cfr.config import DeepCFRConfig, config_to_mapping
from coolrl_lost_cities.games.classic.deep_cfr.drift_report import (
    Drift,
    Verdict,
    contents,
    judge_claims,
    judge_pairs,
    markdown,
    write_figure,
)
from coolrl_lost_cities.games.classic.deep_cfr.equivalence import compare
from coolrl_lost_cities.games.classic.deep_cfr.errors import DeepCFRError
from coolrl_lost_cities.games.classic.deep_cfr.fingerprint import take_fingerprint
from coolrl_lost_cities.games.classic.deep_cfr.fixed_batches import compiled_arm
from coolrl_lost_cities.games.classic.deep_cfr.gelu_run import STEPS, GeluRun, gelu_run
from coolrl_lost_cities.games.classic.deep_cfr.gradient_error import GradientError, gradient_error
from coolrl_lost_cities.games.classic.deep_cfr.metrics import read_metrics
from coolrl_lost_cities.games.classic.deep_cfr.paired_runs import (
    PairedRun,
    Say,
    check_continues,
    finish,
    locked,
    paired_runs,
)
from coolrl_lost_cities.games.classic.deep_cfr.recompiles import (
    compile_counts,
    counts_of_metrics,
    fallback,
)
from coolrl_lost_cities.games.classic.deep_cfr.trajectories import WinRates, read_win_rates

RESULT = "drift.json"
CLAIMS = "claims.json"
FILES = ("drift.png", "drift.md", RESULT)
# What the first two claims depend on; where nothing of it has changed they are not measured again.
_SECTIONS = ("rules", "encoding", "network", "optimization", "compile")


class FellBack(DeepCFRError):
    """What was to be compiled ran eager at last, so that it was compared with itself."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(
            f"{where}: {why}; nothing can be said about compiled training as long as it falls "
            "back: see what varies from call to call, or try another compile.trainer.scope"
        )


class NothingCompiled(DeepCFRError):
    """torch.compile was asked for and left everything as it was, so there is nothing to compare."""

    def __init__(self) -> None:
        super().__init__(
            "drift: nothing was compiled, so on and off are the same; unset "
            "TORCH_COMPILE_DISABLE and TORCHDYNAMO_DISABLE, and see whether the network can be "
            "compiled with --set compile.trainer.fullgraph=true"
        )


def measure_drift(config: DeepCFRConfig, out: Path, say: Say, *, num_steps: int = STEPS) -> Drift:
    """Measure what is left to measure, judge all of it and write `FILES` to the folder.

    Refuses before it changes anything: a machine that cannot compile (CompilerMissing) or is
    measured on (ComputeLocked), and a folder whose runs have other settings (PairedRunError).
    """
    require_cpp_compiler()
    pairs = paired_runs(config, out)
    for run in pairs:
        check_continues(run)
    with locked(out) as lock, compute_lock():
        claims = _claims(config, out, say, num_steps)
        win_rates: list[WinRates] = []
        verdict = judge_claims(*claims)
        if verdict is None:
            for run in pairs:
                finish(run, say, lock)
                check_compiled(run)
            files = [run.folder / runs.METRICS for run in pairs]
            win_rates = read_win_rates(list(zip(files[::2], files[1::2], strict=True)))
        else:
            say("the paired runs are left out: a claim has failed")
        drift = _judged(config, out, claims, verdict, win_rates)
        _write(drift, out, config.drift.margin)
    return drift


def check_compiled(run: PairedRun) -> None:
    """Raise FellBack where a run that was to compile says that it did not, all the time."""
    if not run.compiled:
        return
    for line in read_metrics(run.folder / runs.METRICS):
        counts = counts_of_metrics(line)
        if counts is not None and (why := fallback(counts)):
            raise FellBack(f"{run.folder}, iteration {line['iteration']}", why)


def _claims(
    config: DeepCFRConfig, out: Path, say: Say, num_steps: int
) -> tuple[GradientError, GeluRun]:
    """Measure the first two claims, or return what was measured of them before."""
    path = out / CLAIMS
    values = config_to_mapping(config)
    basis = {section: values[section] for section in _SECTIONS} | {
        "measures": [field.name for kind in (GradientError, GeluRun) for field in fields(kind)],
        "seed": config.run.seed,
        "device": config.run.device,
        "precision": config.run.precision,
        "steps": num_steps,
        "torch": torch.__version__,
    }
    stored: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    if stored.get("basis") != basis:
        stored = {"basis": basis}
    compiled = compiled_arm(config)

    def kept(name: str, title: str, measure: Callable[[], Any]) -> Mapping[str, Any]:
        if name in stored:
            say(f"{title}: measured already")
        else:
            say(f"{title}: measuring")
            torch._dynamo.reset()  # no claim is to use up the graphs that another may have
            before = compile_counts()
            found = measure()
            if found.graphs == 0:
                raise NothingCompiled
            if why := fallback(compile_counts().since(before)):
                raise FellBack(title, why)
            stored[name] = asdict(found)
            _write_text(path, json.dumps(stored))
        measured: dict[str, Any] = stored[name]
        return measured

    gradients = kept(
        "gradient_error", "gradients against float64", lambda: gradient_error(config, compiled)
    )
    gelu = kept(
        "gelu_run", "parameters with GELU", lambda: gelu_run(config, compiled, num_steps, say)
    )
    return GradientError(**gradients), GeluRun(**gelu)


def _judged(
    config: DeepCFRConfig,
    out: Path,
    claims: tuple[GradientError, GeluRun],
    verdict: Verdict | None,
    win_rates: list[WinRates],
) -> Drift:
    settings = config.drift
    quantities = [quantity for rates in win_rates for quantity in rates.quantities()]
    comparisons = compare(quantities, settings.margin, settings.spreads)
    if verdict is None:
        verdict = judge_pairs(
            comparisons,
            margin=settings.margin,
            iterations=settings.iterations,
            games=settings.games,
        )
    return Drift(
        verdict=verdict,
        gradients=claims[0],
        gelu=claims[1],
        win_rates=tuple(win_rates),
        comparisons=tuple(comparisons),
        looks=_looks(out, settings.seeds) if win_rates else (),
        fingerprint=take_fingerprint(config),
        what=_what(config),
    )


def _looks(out: Path, pairs: int) -> tuple[int, ...]:
    """Return the numbers of pairs judged so far, this one last; the same again is no new look."""
    path = out / RESULT
    before = json.loads(path.read_text("utf-8"))["looks"] if path.exists() else []
    return (*(look for look in before if look != pairs), pairs)


def _what(config: DeepCFRConfig) -> str:
    network, settings, trainer = config.network, config.drift, config.compile.trainer
    first = config.run.seed
    return (
        f"{network.kind} {network.hidden_size} x {network.num_layers} {network.activation} in "
        f"{config.run.precision}, compile.trainer mode {trainer.mode} and scope {trainer.scope}; "
        f"seeds {first} to {first + settings.seeds - 1}, {settings.iterations} iterations, every "
        f"{settings.eval_every} of them {settings.games} games against each bot"
    )


def _write(drift: Drift, out: Path, margin: float) -> None:
    png, page, result = (out / name for name in FILES)
    png.unlink(missing_ok=True)
    if drift.win_rates:
        write_figure(drift, margin, png)
    _write_text(page, markdown(drift))
    _write_text(result, json.dumps(contents(drift), indent=1, allow_nan=False) + "\n")


def _write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
