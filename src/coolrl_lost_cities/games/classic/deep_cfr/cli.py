"""The command line `lost-cities-deep-cfr`, and the only place that prints.

`--help` answers in a fraction of a second because torch and rich are imported inside the commands.
"""
# ruff: noqa: PLC0415

import json
import os
import shlex
import signal
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from coolrl_lost_cities.games.classic import kernel_cache
from coolrl_lost_cities.games.classic.deep_cfr.errors import DeepCFRError
from coolrl_lost_cities.games.classic.deep_cfr.imports import import_trainer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from coolrl_lost_cities.games.classic.deep_cfr.config import DeepCFRConfig
    from coolrl_lost_cities.games.classic.deep_cfr.evaluate import MatchResult
    from coolrl_lost_cities.games.classic.deep_cfr.trainer import DeepCFRTrainer

PROGRAM = "lost-cities-deep-cfr"
EXIT_ERROR = 2
EXIT_NOT_ENOUGH, EXIT_DRIFT = 3, 4
EXIT_INTERRUPTED = 130
STOPPING = b"finishing this iteration, then stopping; Ctrl-C again stops at once\n"
COMPILING = "compiling kernels, once for these sources (about half a minute)"

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its help takes as long to import as everything else together
    help="Train and judge a Lost Cities player by Deep CFR.",
)

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="YAML; keys left out keep their defaults."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="A.B=C", help="Set one key, C being YAML. Repeatable."),
]
FolderOption = Annotated[
    Path | None, typer.Option("--out", metavar="FOLDER", help="Default: beside run.out.")
]


@app.command()
def train(
    config: ConfigOption = None,
    overrides: SetOption = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Go on from a checkpoint, in its folder and with its config.yaml.",
        ),
    ] = None,
) -> None:
    """Train, and write everything to the folder run.out.

    That is config.yaml, metrics.jsonl, train.log, latest.pt and networks.pt. Ctrl-C or SIGTERM
    finishes the iteration and writes a checkpoint; a second one stops at once.
    """
    with _errors_in_one_line():
        import_trainer()
        _train(_train_config(config, overrides or [], resume), resume)


@app.command(name="eval")
def evaluate(  # noqa: PLR0917 -- typer makes options of them
    resume: Annotated[
        Path,
        typer.Option(metavar="FILE", help="The checkpoint to judge; networks.pt will do."),
    ],
    config: ConfigOption = None,
    overrides: SetOption = None,
    policy: Annotated[
        Literal["average", "current", "both"] | None,
        typer.Option(help="Short for --set evaluation.policies=..."),
    ] = None,
    games: Annotated[
        int | None, typer.Option(help="Short for --set evaluation.games=...; an even number.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Short for --set run.seed=...")] = None,
) -> None:
    """Play a checkpoint's policies against every bot.

    Without --config the settings are those that the checkpoint was trained with, but for
    evaluation.opponents, which is every bot unless --set says otherwise.
    """
    given = {"evaluation.policies": policy, "evaluation.games": games, "run.seed": seed}
    short = [f"{key}={value}" for key, value in given.items() if value is not None]
    with _errors_in_one_line():
        import_trainer()
        _evaluate(resume, config, [*(overrides or []), *short])


@app.command()
def analyze(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Default: plots/ in the first run.")
    ] = None,
) -> None:
    """Draw and tabulate what runs measured of themselves."""
    with _errors_in_one_line():
        from coolrl_lost_cities.games.classic.deep_cfr.analyze import write_analysis

        for path in write_analysis(runs, out or runs[0] / "plots"):
            typer.echo(path)


@app.command()
def drift(
    config: ConfigOption = None,
    overrides: SetOption = None,
    out: FolderOption = None,
) -> None:
    """Find out whether training comes out the same with compile on.

    Trains drift.seeds pairs of runs, which takes hours. It may be stopped at any time: the same
    command goes on from there. Exit code 0: no drift, 3: not enough games to tell, 4: drift.
    """
    with _errors_in_one_line():
        _drift(config, overrides or [], out)


@app.command()
def bench(  # noqa: PLR0917 -- typer makes options of them
    config: ConfigOption = None,
    overrides: SetOption = None,
    out: FolderOption = None,
    iterations: Annotated[
        int, typer.Option(metavar="N", help="Measured iterations or replays, at least 8.")
    ] = 8,
    max_recompiles: Annotated[
        int, typer.Option(metavar="N", help="Compilations that a trained network may take.")
    ] = 2,
    target: Annotated[
        Literal["trainer", "inference"], typer.Option(help="Iterations, or served forwards.")
    ] = "trainer",
    sweep: Annotated[
        list[str] | None, typer.Option(metavar="KEY=A,B", help="Bench each value. Repeatable.")
    ] = None,
    axes: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=A,B]...", help="More keys of --sweep.")
    ] = None,
) -> None:
    """Find out whether compile makes iterations, or an inference server's forwards, faster.

    Ways with and without it take turns in one run. Exit code 4: the bench counts for nothing,
    because something compiled too often or not at all.
    """
    with _errors_in_one_line():
        from coolrl_lost_cities.games.classic.deep_cfr.bench_command import (
            run_and_write,
            what_to_bench,
        )

        what = what_to_bench(target, sweep or [], axes or [])
        settings = _settings_to_measure(config, overrides)
        said, failed = run_and_write(
            settings,
            out or Path(f"{settings.run.out}_bench"),
            lambda text: typer.echo(text, err=True),
            what,
            (iterations, max_recompiles),
        )
        typer.echo(said)
        raise typer.Exit(EXIT_DRIFT if failed else 0)


@app.command()
def call_time(
    config: ConfigOption = None, overrides: SetOption = None, out: FolderOption = None
) -> None:
    """Time one forward of each network at its training batch, on the device that trains."""
    with _errors_in_one_line():
        from coolrl_lost_cities.games.classic.deep_cfr.call_time import run_and_write

        typer.echo(run_and_write(config, overrides or [], out))


def main() -> None:
    """Run the command line."""
    app()


def _train_config(path: Path | None, overrides: list[str], resume: Path | None) -> "DeepCFRConfig":
    """Return the config to train with; a resumed run goes on in the folder of its checkpoint."""
    from coolrl_lost_cities.games.classic.deep_cfr import runs
    from coolrl_lost_cities.games.classic.deep_cfr.checkpoints import require_file
    from coolrl_lost_cities.games.classic.deep_cfr.config import load_config

    if resume is not None:
        require_file(resume)
    if resume is not None and path is None:
        # The folder may have been moved since its config was written.
        here = f"run.out={json.dumps(str(resume.parent))}"
        config = load_config(resume.parent / runs.CONFIG, [here, *overrides])
    else:
        config = load_config(path, overrides)
    if not runs.continues(config, resume):
        runs.check_new(config)
    return config


def _train(config: "DeepCFRConfig", resume: Path | None) -> None:
    import torch

    from coolrl_lost_cities.games.classic.deep_cfr import runs
    from coolrl_lost_cities.games.classic.deep_cfr.processes import keep_freed_memory
    from coolrl_lost_cities.games.classic.deep_cfr.trainer import DeepCFRTrainer

    torch.set_num_threads(config.run.num_threads)
    keep_freed_memory()
    if config.compile.trainer.enabled or config.compile.inference_server.enabled:
        from coolrl_lost_cities.games.classic.deep_cfr.compiler import require_cpp_compiler

        require_cpp_compiler()
    with DeepCFRTrainer(config, resume_from=resume) as trainer:
        if runs.continues(config, resume):
            runs.write_config(config)
        else:
            runs.start_new(config)
        _loop(config, trainer)


def _loop(config: "DeepCFRConfig", trainer: "DeepCFRTrainer") -> None:
    """Run the iterations that are left; raise typer.Exit(130) after an interrupt."""
    from rich.markup import escape

    from coolrl_lost_cities.games.classic.deep_cfr import runs
    from coolrl_lost_cities.games.classic.deep_cfr.iteration_text import iteration_lines

    latest = Path(config.run.out) / runs.LATEST
    last = config.run.iterations
    progress = _progress()

    def say(text: str) -> None:
        progress.console.print(escape(text))
        runs.append_log(config, text)

    with (
        _errors_in_the_log(config),
        progress,
        _first_interrupt_noted(progress.console) as interrupted,
    ):
        done = f"{trainer.iteration} of {last} iterations done"
        say(f"run {config.run.name} in {config.run.out}: {done}")
        task = progress.add_task(config.run.name, total=last, completed=trainer.iteration)
        if trainer.iteration < last and not kernel_cache.is_compiled():
            progress.update(task, description=COMPILING)
            _compile_kernels(config, quiet=progress.console.is_terminal)
            progress.update(task, description=config.run.name)
        begun = time.monotonic()
        while trainer.iteration < last and not interrupted:
            if config.run.minutes is not None and _minutes_since(begun) >= config.run.minutes:
                trainer.save_latest()
                say(f"stopped after iteration {trainer.iteration}: run.minutes have passed")
                return
            metrics = trainer.run_iteration()
            progress.update(task, completed=trainer.iteration)
            for line in iteration_lines(metrics, last):
                say(line)
        if interrupted and trainer.iteration < last:
            trainer.save_latest()
            say(
                f"stopped after iteration {trainer.iteration} of {last}; resume with: "
                f"{PROGRAM} train --resume {shlex.quote(str(latest))}"
            )
            raise typer.Exit(128 + interrupted[0])
        say(f"finished iteration {trainer.iteration} of {last}")


def _progress() -> "Progress":
    """Return a bar that moves with the iterations on a terminal, and is not there elsewhere."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(soft_wrap=True, highlight=False)
    return Progress(
        SpinnerColumn(),
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )


def _compile_kernels(config: "DeepCFRConfig", quiet: bool) -> None:
    """Compile everything before the first iteration, here, so that no worker has to."""
    from coolrl_lost_cities.games.classic.deep_cfr.rehearsal import rehearse

    if not quiet:
        typer.echo(COMPILING, err=True)
    rehearse(config)
    kernel_cache.mark_compiled()


@contextmanager
def _first_interrupt_noted(console: "Console") -> Iterator[list[int]]:
    """Yield a list that receives the first Ctrl-C or SIGTERM; the second stops the run at once."""
    noted: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        for stop in before:
            signal.signal(stop, signal.default_int_handler)
        # Not `print`: the signal may have come in the middle of one, which cannot be entered twice.
        os.write(console.file.fileno(), STOPPING)

    before = {stop: signal.getsignal(stop) for stop in (signal.SIGINT, signal.SIGTERM)}
    for stop in before:
        signal.signal(stop, note)
    try:
        yield noted
    finally:
        for stop, handler in before.items():
            signal.signal(stop, handler)


def _minutes_since(begun: float) -> float:
    return (time.monotonic() - begun) / 60


def _evaluate(checkpoint: Path, path: Path | None, overrides: list[str]) -> None:
    import torch

    from coolrl_lost_cities.games.classic.deep_cfr.checkpoints import (
        CheckpointError,
        load_checkpoint,
    )
    from coolrl_lost_cities.games.classic.deep_cfr.config import (
        build_rules,
        config_from_mapping,
        load_config,
    )
    from coolrl_lost_cities.games.classic.deep_cfr.evaluate import play_matches
    from coolrl_lost_cities.games.classic.deep_cfr.networks import load_networks
    from coolrl_lost_cities.games.classic.deep_cfr.policies import average_policy, current_policy

    contents = load_checkpoint(checkpoint)
    if path is None:
        stored = dict(contents["config"])
        matches = stored.get("evaluation", {})
        stored["evaluation"] = {key: matches[key] for key in matches if key != "opponents"}
        config = config_from_mapping(stored, f"{checkpoint} (config)", overrides)
    else:
        config = load_config(path, overrides)
    torch.set_num_threads(config.run.num_threads)
    try:
        strategy = load_networks(config, [contents["strategy_network"]])[0]
        advantage = load_networks(config, contents["advantage_networks"])
    except RuntimeError as error:
        raise CheckpointError(
            checkpoint, "does not fit these networks", "leave rules.* and network.* as they were"
        ) from error
    precision = config.run.precision
    policies = {
        "average": average_policy(strategy, precision),
        "current": current_policy(advantage, precision),
    }
    if config.evaluation.policies != "both":
        policies = {config.evaluation.policies: policies[config.evaluation.policies]}
    if not kernel_cache.is_compiled():
        typer.echo(COMPILING, err=True)
    rules = build_rules(config.rules)
    games, seed = config.evaluation.games, config.run.seed
    results: dict[tuple[str, str], MatchResult] = {
        (name, opponent): play_matches(rules, policy, opponent, games, seed)
        for name, policy in policies.items()
        for opponent in config.evaluation.opponents
    }
    title = f"{checkpoint}, iteration {contents['iteration']}, {games} games each, seed {seed}"
    from rich.console import Console

    from coolrl_lost_cities.games.classic.deep_cfr.match_table import match_table

    console = Console()
    if not console.is_terminal:  # a pipe has no width: rows stay whole for whoever reads them
        console = Console(width=max(140, len(title)))
    console.print(match_table(title, results))


def _settings_to_measure(path: Path | None, overrides: list[str] | None) -> "DeepCFRConfig":
    """Load a config, and compile kernels now where a measurement would meet them first."""
    from coolrl_lost_cities.games.classic.deep_cfr.config import load_config

    config = load_config(path, overrides or [])
    if not kernel_cache.is_compiled():
        _compile_kernels(config, quiet=False)
    return config


def _drift(path: Path | None, overrides: list[str], out: Path | None) -> None:
    import torch

    from coolrl_lost_cities.games.classic.deep_cfr.drift import FILES, measure_drift
    from coolrl_lost_cities.games.classic.deep_cfr.drift_report import table

    config = _settings_to_measure(path, overrides)
    torch.set_num_threads(config.run.num_threads)
    folder = out or Path(f"{config.run.out}_drift")
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        found = measure_drift(config, folder, lambda text: typer.echo(text, err=True))
    except KeyboardInterrupt as interrupt:
        typer.echo("stopped; the same command goes on from here", err=True)
        raise typer.Exit(EXIT_INTERRUPTED) from interrupt
    finally:
        signal.signal(signal.SIGTERM, before)
    typer.echo(f"{table(found)}\n{found.verdict.judgement}: {found.verdict.detail}")
    for name in FILES:
        if (folder / name).exists():
            typer.echo(folder / name)
    codes = {"not enough games": EXIT_NOT_ENOUGH, "drift": EXIT_DRIFT}
    raise typer.Exit(codes.get(found.verdict.judgement, 0))


@contextmanager
def _errors_in_the_log(config: "DeepCFRConfig") -> Iterator[None]:
    """Keep the whole traceback of a run that fails."""
    from coolrl_lost_cities.games.classic.deep_cfr import runs

    try:
        yield
    except typer.Exit:
        raise
    except Exception:
        with suppress(OSError):  # a full disk takes no log either; the error itself is on its way
            runs.append_log(config, traceback.format_exc())
        raise


@contextmanager
def _errors_in_one_line() -> Iterator[None]:
    """Turn whatever a person can put right into one line on stderr and exit code 2."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        typer.echo("stopped at once; checkpoints are as they were", err=True)
        raise typer.Exit(EXIT_INTERRUPTED) from interrupt
    except DeepCFRError as error:
        *_, last_line = str(error).splitlines()  # of a worker's traceback; the log has all of it
        first_line = str(error).splitlines()[0]
        text = first_line if first_line == last_line else f"{first_line} {last_line}"
        raise _failed(text) from error
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise _failed(f"{where}{error.strerror or error}") from error
    except MemoryError as error:
        raise _failed(f"out of memory ({error}); lower memory.*_capacity") from error


def _failed(text: str) -> typer.Exit:
    typer.echo(f"{PROGRAM}: error: {text}", err=True)
    return typer.Exit(EXIT_ERROR)


if __name__ == "__main__":
    main()
