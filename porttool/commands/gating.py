"""The command for calls of torch.compile that stand in working files already."""
# ruff: noqa: PLC0415

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from porttool.commands.options import HERE, Json, Repo, telling
from porttool.console import answering, say, show_json


def gate(
    paths: Annotated[list[Path], typer.Argument(metavar="PATHS", help="Files and folders.")],
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; list the calls behind no switch.")
    ] = False,
    switch: Annotated[
        str, typer.Option("--switch", metavar="NAME", help="The switch's name in the settings.")
    ] = "compile_model",
    env: Annotated[
        str | None,
        typer.Option(
            "--env", metavar="NAME", help="The environment variable where there are no settings."
        ),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            "--config", metavar="NAME", help="The settings to use where several are in scope."
        ),
    ] = None,
    repo: Repo = HERE,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the changes, write nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Put torch.compile in working files behind a switch that is off."""
    with answering(as_json), telling() as changed:
        from porttool.calls.command import check_paths, gate_paths

        answer = (
            check_paths(paths, repo=repo, switch=switch)
            if check
            else gate_paths(
                paths,
                repo=repo,
                switch=switch,
                env=env,
                config=config,
                dry_run=dry_run,
                changed=changed.append,
            )
        )
        if as_json:
            show_json(answer.data)
        elif answer.lines:
            say(*answer.lines)
        raise typer.Exit(answer.exit_code)
