"""The command for calls of torch.compile that stand in working files already."""
# ruff: noqa: PLC0415

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from porttool.commands.options import HERE, Json, Quiet, Repo, telling
from porttool.console import answering, detail, say, show_json


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
    sarif: Annotated[
        Path | None,
        typer.Option("--sarif", metavar="FILE", help="With --check: write it as SARIF too."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the changes, write nothing.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Put torch.compile in your files behind a switch, off."""
    with answering(as_json), telling() as changed:
        from porttool.calls.command import check_paths, gate_paths
        from porttool.errors import PortError

        if sarif is not None and not check:
            raise PortError(
                "--sarif goes with --check", next="porttool gate --check --sarif FILE PATHS"
            )
        if config is not None and check:
            raise PortError(
                "--config does not go with --check",
                why="it says where a switch is to be written, and --check writes none",
                next="porttool gate --check PATHS",
            )
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
        if sarif is not None:
            from importlib.metadata import version

            from porttool.exporting import gate_sarif, write_export

            write_export(
                sarif, json.dumps(gate_sarif(answer.findings, version("porttool"))).encode()
            )
            changed.append(f"{sarif} was written")
        if as_json:
            show_json(answer.data)
        elif answer.exit_code:
            say(*answer.lines, whole=True)
        elif answer.lines:
            detail(*answer.lines[:-1])
            say(answer.lines[-1])
        raise typer.Exit(answer.exit_code)
