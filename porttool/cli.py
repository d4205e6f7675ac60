"""The command line: its start, its end, and the order of its commands in `--help`.

In `commands` every import of the tool's own modules stands inside the command that needs it, so
that `--help` answers at once.
"""

from __future__ import annotations

import os
import sys

EXIT_INTERRUPTED = 130

try:
    import gc

    # What is imported stays: to look for garbage in between took a tenth of `--help`.
    gc.disable()
    import signal
    from types import FrameType
    from typing import Annotated, NoReturn

    import typer

    from porttool.commands import (
        gating,
        measuring,
        moving,
        porting,
        publishing,
        reviewing,
        starting,
    )
    from porttool.commands.examples import epilog
    from porttool.commands.needed import needed
    from porttool.commands.options import Interrupted
    from porttool.console import be_quiet, say
except KeyboardInterrupt:
    # Imports are most of the time before `main` begins, and nothing else could answer by then.
    sys.stderr.write("interrupted; nothing was changed\n")
    raise SystemExit(EXIT_INTERRUPTED) from None
finally:
    gc.enable()

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

app = typer.Typer(
    name="porttool",
    help="Port a stale experiment onto today's main, behind a switch that is off.",
    epilog="Exit codes: 0 done, 2 usage or plan, 3 a person must decide, 4 a check failed, "
    "5 parked, 1 a traceback, which is a bug.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _say_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415

        say(f"porttool {version('porttool')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_say_version, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    be_quiet(False)


for _command in (
    starting.init,
    porting.apply,
    porting.verify,
    measuring.precondition,
    reviewing.review,
    reviewing.record,
    publishing.publish,
    porting.resolve,
    reviewing.status,
    moving.refresh,
    moving.radar,
    gating.gate,
    starting.demo,
    starting.schema,
):
    app.command(epilog=epilog(_command.__name__))(_command)


def main() -> None:
    """Run the command line; the console script's entry point."""
    # What a command makes, trees above all, lives until it ends: looking for garbage in between
    # took a fifth of an apply on small files, and half of one on large ones.
    gc.disable()
    commands = app.registered_commands
    if "_PORTTOOL_COMPLETE" not in os.environ:
        app.registered_commands = needed(commands, sys.argv[1:])
    try:
        # `kill` and a closed terminal end a run as Ctrl-C does, so that the programs it started
        # are ended too; what whoever started this has switched off stays off.
        for number in ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _interrupt)
        app()
    except (Interrupted, KeyboardInterrupt) as error:
        # A second one finds nothing to end; and an import could be what was interrupted.
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)
        sys.stderr.write(f"interrupted; {str(error) or 'nothing was changed'}\n")
        sys.exit(EXIT_INTERRUPTED)
    finally:
        app.registered_commands = commands
        # Nor does Python look once more as it exits.
        gc.freeze()


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise Interrupted
