"""The command that says whether a port's precondition holds."""
# ruff: noqa: PLC0415

from __future__ import annotations

from typing import Annotated

import typer

from porttool.commands.options import HERE, Json, Port, Python, Repo, opened
from porttool.console import answering, progress_lines, say, show_json


def precondition(
    port: Port = None,
    *,
    repo: Repo = HERE,
    measure: Annotated[
        bool,
        typer.Option("--measure", help="Measure too, by the plan's own program, on this machine."),
    ] = False,
    python: Python = None,
    as_json: Json = False,
) -> None:
    """Say whether the port's precondition holds, and by what.

    Read on the review branch; before there is one, as it would be on onto. Exit code 5: it does
    not hold.
    """
    with answering(as_json), opened(repo, port) as (repository, plan):
        with progress_lines() as progress:
            from porttool.verifying.holding import precondition_now

            found = precondition_now(
                repository,
                plan,
                measure=measure,
                # Not resolved: a link in an environment's bin folder is what selects it.
                python=python.absolute() if python else None,
                progress=progress,
            )
        if as_json:
            show_json(found.as_dict())
        else:
            say(*found.lines)
        raise typer.Exit(found.exit_code)
