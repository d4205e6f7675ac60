"""The commands to begin with."""
# ruff: noqa: PLC0415

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from porttool.commands.options import Json
from porttool.console import answering, say, show_json


def demo(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that is not there yet.")],
    *,
    as_json: Json = False,
) -> None:
    """Write a repository to try all this on."""
    with answering(as_json):
        from porttool.demo import write_demo

        write_demo(folder)
        if as_json:
            show_json({"folder": str(folder.resolve())})
        else:
            say(
                f"wrote {folder}: main has moved on, experiments/torch-compile has not",
                f"next: cd {shlex.quote(str(folder))} && porttool apply --onto main",
            )
