"""The commands for a main that goes on moving."""
# ruff: noqa: PLC0415

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from porttool.commands.options import HERE, Despite, Json, Port, Quiet, Repo, telling, watched
from porttool.console import answering, detail, progress_lines, say, show, show_json


def radar(
    *,
    repo: Repo = HERE,
    onto: Annotated[
        str | None,
        typer.Option("--onto", metavar="BRANCH", help="The branch; main or master by default."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page with a heat map.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say how every unmerged branch would port today.

    And since which commit of onto one would not. Commits are picked in memory: nothing is checked
    out or written, and no code is run.
    """
    with answering(as_json), telling() as changed:
        from porttool.git.repo import open_repository
        from porttool.radar.scan import default_onto, scan

        with open_repository(repo) as repository, progress_lines() as progress:
            found = scan(repository, onto or default_onto(repository), progress)
        if html is not None:
            from porttool.radar.page import write_page

            write_page(html, found)
            changed.append(f"{html} was written")
        if as_json:
            show_json(found.as_dict())
            return
        from porttool.radar.terminal import summary, terminal

        if html is None:
            show(terminal(found))
        say(summary(found), *([f"wrote {html}"] if html else []))


def refresh(
    port: Port = None,
    *,
    all_ports: Annotated[
        bool, typer.Option("--all", help="Every port that has a branch here, one after the other.")
    ] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Pick commits that you put on top onto the new branch.")
    ] = False,
    repo: Repo = HERE,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change, but write no ref.")
    ] = False,
    despite_precondition: Despite = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Make the review branch again, and show what changed.

    It is made on today's onto. When nothing would change, nothing is written. No checkout is
    touched, and no code is run.
    """
    with answering(as_json):
        from porttool.errors import PlanError, PortError
        from porttool.git.repo import open_repository
        from porttool.plan.plan import find_plan, load_plan
        from porttool.refresh import plans_with_branches, refusal
        from porttool.refresh import refresh as make_again

        if all_ports and port is not None:
            raise PlanError("--all is about every port, and one is named", next="leave out either")
        found: list[dict[str, Any]] = []
        moved: list[str] = []
        with open_repository(repo) as repository:
            if all_ports:
                plans = plans_with_branches(repository)
            else:
                plans = [load_plan(find_plan(repository.root or repository.git_dir, port))]
            for plan in plans:
                stays = f"{'; '.join(moved)} before that" if moved else "nothing was changed"
                done = "; ".join([*moved, f"{plan.review_branch} was moved"])
                with (
                    watched(repository, plan, stays, branch=done),
                    progress_lines() as progress,
                ):
                    try:
                        applied = make_again(
                            repository,
                            plan,
                            keep=keep,
                            dry_run=dry_run,
                            despite_precondition=despite_precondition,
                            progress=progress,
                        )
                    except PortError as error:
                        if not all_ports:
                            raise
                        found.append(refusal(plan, error))
                        continue
                if applied.outcome == "moved":
                    moved.append(f"{applied.branch} was moved")
                found.append(
                    {
                        "port": plan.name,
                        "outcome": applied.outcome,
                        "branch": applied.branch,
                        "exit_code": applied.exit_code,
                        "message": applied.message,
                        "moved": asdict(applied.moved) if applied.moved else None,
                    }
                )
        exit_code = max((port["exit_code"] for port in found), default=0)
        if as_json:
            show_json({"ports": found, "exit_code": exit_code})
        else:
            for port_ in found:
                if port_["moved"] and port_["moved"]["range_diff"]:
                    detail(port_["moved"]["range_diff"])
                say(port_["message"], whole=port_["exit_code"] != 0)
            if not found:
                say("no port has a branch here", "next: porttool status")
        raise typer.Exit(exit_code)
