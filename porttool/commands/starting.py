"""The commands to begin with."""
# ruff: noqa: PLC0415

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer

from porttool.commands.options import HERE, Json, Quiet, Repo, telling
from porttool.console import answering, progress_lines, say, show_json


def init(
    commit: Annotated[
        str,
        typer.Argument(metavar="COMMIT", help="A commit, or a branch with all that is on it."),
    ],
    *,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="The port's name; the branch's by default."),
    ] = None,
    onto: Annotated[
        str | None,
        typer.Option("--onto", metavar="BRANCH", help="Where it is ported to; main by default."),
    ] = None,
    repo: Repo = HERE,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print port.yaml, write nothing.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Draft patches/NAME/port.yaml from a commit.

    The wrapper, a switch in the project's own settings, and the checks that are there already:
    what was chosen has a comment to look at, what was not found is commented out.
    """
    with answering(as_json), telling() as changed:
        from porttool.git.repo import open_repository

        with open_repository(repo) as repository:
            with progress_lines() as progress:
                from porttool.drafting.draft import draft_port
                from porttool.drafting.text import SCHEMA_NAME, port_text
                from porttool.drafting.writing import check_free, write_draft

                if name is not None:
                    check_free(repository, name)
                draft = draft_port(repository, commit, onto=onto, name=name, progress=progress)
                check_free(repository, draft.name)
                written = () if dry_run else write_draft(repository, draft)
            changed += [f"{path} was written" for path in written]
        text = port_text(draft)
        if as_json:
            show_json({**draft.as_dict(), "written": list(written), "text": text})
        elif dry_run:
            say(text.rstrip("\n"))
        else:
            *found, following = draft.lines
            beside = [path for path in written if path.endswith(SCHEMA_NAME)]
            found += [f"wrote {path} too: editors complete port.yaml by it" for path in beside]
            say(*found, following)


def schema(
    what: Annotated[
        Literal["port", "report"], typer.Argument(metavar="port|report", help="Of which file.")
    ] = "port",
) -> None:
    """Print the JSON schema of port.yaml, or of a report.

    Editors complete and check port.yaml by it; a report is what review --json prints.
    """
    from porttool.schemas import port_schema, report_schema

    show_json(port_schema() if what == "port" else report_schema())


def demo(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that is not there yet.")],
    *,
    quiet: Quiet = False,
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
