"""The commands that show ports to people: one branch, what was measured of it, all of them."""
# ruff: noqa: PLC0415

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from porttool.commands.options import HERE, Json, Onto, Port, Repo, opened, telling
from porttool.console import answering, say, show, show_json


def review(
    port: Port = None,
    *,
    repo: Repo = HERE,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a pull-request body instead.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the review branch to a person.

    What to look at first, what was ported and why, how far it is proven, what was checked.
    """
    with answering(as_json), opened(repo, port) as (repository, plan):
        from porttool.record import load_report, standing_of

        report = load_report(repository, plan)
        if as_json:
            from porttool.report import to_data

            show_json(to_data(report))
        elif markdown:
            from porttool.review.markdown import markdown as body

            standing = standing_of(repository, plan, report)
            say(body(report, standing=standing).rstrip("\n"))
        else:
            from porttool.review.terminal import terminal

            show(terminal(report, standing_of(repository, plan, report)))


def record(
    port: Port = None,
    *,
    repo: Repo = HERE,
    bench: Annotated[
        Path | None, typer.Option("--bench", metavar="FILE", help="A bench's result file.")
    ] = None,
    drift: Annotated[
        Path | None, typer.Option("--drift", metavar="FILE", help="A drift check's result file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write what was measured into the project's docs, with its date.

    From the branch's report, or from result files, which may come from another machine.
    """
    with answering(as_json), telling() as changed, opened(repo, port) as (repository, plan):
        from porttool.entry import record_entry

        recorded = record_entry(repository, plan, bench=bench, drift=drift)
        if recorded.changed:
            changed.append(f"{recorded.path} was written")
        if as_json:
            show_json({"path": recorded.path, "changed": recorded.changed, "entry": recorded.entry})
        elif recorded.changed:
            say(f"wrote the entry into {recorded.path}", f"next: git diff -- {recorded.path}")
        else:
            say(f"{recorded.path} has this entry already")


def status(*, repo: Repo = HERE, onto: Onto = None, as_json: Json = False) -> None:
    """Say where every port stands, and what is next."""
    with answering(as_json):
        from porttool.git.repo import open_repository
        from porttool.status import port_statuses

        with open_repository(repo) as repository:
            found = list(port_statuses(repository, onto))
        if as_json:
            show_json({"ports": [port.as_dict() for port in found]})
            return
        if not found:
            say("there is no port under patches/", "next: porttool demo DIR shows one at work")
        for port in found:
            say(f"{port.port}: {port.state}", f"  {port.detail}")
            if port.next:
                say(f"  next: {port.next}")
