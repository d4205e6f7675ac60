"""The command that hands a port over to others."""
# ruff: noqa: PLC0415

from __future__ import annotations

from typing import Annotated

import typer

from porttool.commands.options import HERE, Json, Port, Quiet, Repo, opened, telling
from porttool.console import answering, progress_lines, say, show_json


def publish(
    port: Port = None,
    *,
    repo: Repo = HERE,
    remote: Annotated[
        str | None,
        typer.Option("--remote", metavar="NAME", help="Where to push; origin, or the only one."),
    ] = None,
    draft: Annotated[
        bool, typer.Option("--draft", help="Open the pull request as a draft.")
    ] = False,
    unverified: Annotated[
        bool, typer.Option("--unverified", help="Go on though porttool verify was not run.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, push nothing.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Push the review branch and open a pull request.

    The branch is pushed under a lease, its report beside it. With gh or glab installed the pull
    request is opened or brought up to date; without them the command for it is printed.
    """
    with answering(as_json), telling() as changed, opened(repo, port) as (repository, plan):
        with progress_lines() as progress:
            from porttool.publishing.publish import publish_port

            published = publish_port(
                repository,
                plan,
                remote=remote,
                draft=draft,
                unverified=unverified,
                dry_run=dry_run,
                progress=progress,
                changed=changed.append,
            )
        if as_json:
            show_json(published.as_dict())
        else:
            say(*published.lines)
