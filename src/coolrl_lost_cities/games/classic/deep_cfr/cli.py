"""The command line `lost-cities-deep-cfr`, and the only place that prints.

`--help` answers in a fraction of a second because torch is imported inside the commands.
"""
# ruff: noqa: PLC0415

import json
import os
import shlex
import signal
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from coolrl_lost_cities.games.classic.deep_cfr.errors import DeepCFRError

if TYPE_CHECKING:
    from coolrl_lost_cities.games.classic.deep_cfr.config import DeepCFRConfig
    from coolrl_lost_cities.games.classic.deep_cfr.trainer import DeepCFRTrainer

PROGRAM = "lost-cities-deep-cfr"
EXIT_ERROR = 2
EXIT_INTERRUPTED = 130
STOPPING = b"finishing this iteration, then stopping; Ctrl-C again stops at once\n"

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
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
    """Train, and write config.yaml, metrics.jsonl, train.log and latest.pt to run.out.

    Ctrl-C finishes the iteration and writes a checkpoint; a second one stops at once.
    """
    with _errors_in_one_line():
        _train(_train_config(config, overrides or [], resume), resume)


@app.command(name="eval")
def evaluate(
    resume: Annotated[Path, typer.Option(metavar="FILE", help="The checkpoint to judge.")],
    config: ConfigOption = None,
    overrides: SetOption = None,
) -> None:
    """Play a checkpoint's policies against the bots: evaluation.games, .opponents, .policies.

    Without --config the settings are those that the checkpoint was trained with.
    """
    with _errors_in_one_line():
        _evaluate(resume, config, overrides or [])


@app.command()
def analyze(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Default: plots/ in the first run.")
    ] = None,
) -> None:
    """Draw losses, win rates and phase times of one or several runs as PNG files."""
    with _errors_in_one_line():
        from coolrl_lost_cities.games.classic.deep_cfr.analyze import draw_plots

        for path in draw_plots(runs, out or runs[0] / "plots"):
            typer.echo(path)


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
    from coolrl_lost_cities.games.classic.deep_cfr.trainer import DeepCFRTrainer

    torch.set_num_threads(config.run.num_threads)
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
    from coolrl_lost_cities.games.classic.deep_cfr import runs

    latest = Path(config.run.out) / runs.LATEST
    last = config.run.iterations
    progress = Progress(
        SpinnerColumn(),
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(soft_wrap=True, highlight=False),
    )

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
        while trainer.iteration < last and not interrupted:
            metrics = trainer.run_iteration()
            progress.update(task, completed=trainer.iteration)
            for line in _lines(metrics, last):
                say(line)
        if interrupted and trainer.iteration < last:
            if not config.checkpoint.save_latest:
                trainer.save(latest)
            say(
                f"stopped after iteration {trainer.iteration} of {last}; resume with: "
                f"{PROGRAM} train --resume {shlex.quote(str(latest))}"
            )
            raise typer.Exit(EXIT_INTERRUPTED)
        say(f"finished iteration {trainer.iteration} of {last}")


@contextmanager
def _first_interrupt_noted(console: Console) -> Iterator[list[bool]]:
    """Yield a list that is filled by the first Ctrl-C; the second raises KeyboardInterrupt."""
    noted: list[bool] = []

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(True)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        # Not `print`: the signal may have come in the middle of one, which cannot be entered twice.
        os.write(console.file.fileno(), STOPPING)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)


def _lines(metrics: Mapping[str, Any], last: int) -> list[str]:
    """Return what a person wants to read of one iteration."""
    lines = [
        f"iteration {metrics['iteration']}/{last}  "
        f"advantage loss {metrics['advantage_loss_0']:.4g} {metrics['advantage_loss_1']:.4g}  "
        f"strategy loss {metrics['strategy_loss']:.4g}  "
        f"{metrics['traversals_per_s']:.0f} traversals/s"
    ]
    for policy, results in metrics.get("evaluation", {}).items():
        for opponent, result in results.items():
            lines.append(
                f"  {policy} against {opponent}: {result['win_rate']:.1%} "
                f"[{result['interval_low']:.1%}, {result['interval_high']:.1%}]  "
                f"mean score {result['mean_score']:+.1f}  {result['cut_games']} games cut"
            )
    return lines


def _evaluate(checkpoint: Path, path: Path | None, overrides: list[str]) -> None:
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
        config = config_from_mapping(contents["config"], f"{checkpoint} (config)", overrides)
    else:
        config = load_config(path, overrides)
    try:
        strategy = load_networks(config, [contents["strategy_network"]])[0]
        advantage = load_networks(config, contents["advantage_networks"])
    except RuntimeError as error:
        raise CheckpointError(
            checkpoint, "does not fit these networks", "leave rules.* and network.* as they were"
        ) from error
    policies = {"average": average_policy(strategy), "current": current_policy(advantage)}
    if config.evaluation.policies != "both":
        policies = {config.evaluation.policies: policies[config.evaluation.policies]}
    rules = build_rules(config.rules)
    games, seed = config.evaluation.games, config.run.seed
    table = Table(title=f"{checkpoint}, iteration {contents['iteration']}, {games} games each")
    for heading in ("policy", "opponent", "win rate", "95% interval", "mean score", "cut"):
        table.add_column(heading, justify="left" if heading in ("policy", "opponent") else "right")
    for name, policy in policies.items():
        for opponent in config.evaluation.opponents:
            result = play_matches(rules, policy, opponent, games, seed)
            table.add_row(
                name,
                opponent,
                f"{result.win_rate:.1%}",
                f"{result.interval_low:.1%} to {result.interval_high:.1%}",
                f"{result.mean_score:+.1f} ± {result.score_se:.1f}",
                str(result.cut_games),
            )
    Console().print(table)


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
