"""The commands that make a review branch and check it."""
# ruff: noqa: PLC0415

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from porttool.commands.options import (
    HERE,
    Despite,
    Json,
    Onto,
    Paths,
    Port,
    Python,
    Quiet,
    Repo,
    opened,
    telling,
    watched,
)
from porttool.console import answering, detail, progress_lines, say, show, show_json


def apply(
    port: Port = None,
    *,
    onto: Onto = None,
    repo: Repo = HERE,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Decide and prove, but write no ref.")
    ] = False,
    mainline: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="The parent that a merge commit is compared with."),
    ] = None,
    despite_precondition: Despite = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Make the branch anew if all of it is porttool's.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Make the review branch port/NAME.

    No checkout is touched, and no code of the repository is run.
    """
    with answering(as_json), opened(repo, port) as (repository, plan):
        unchanged = "nothing was changed" if dry_run else "no branch was made"
        with watched(repository, plan, unchanged), progress_lines() as progress:
            from porttool.apply import apply as make_branch
            from porttool.experiment import compared_with

            applied = make_branch(
                repository,
                compared_with(plan, mainline),
                onto=plan.onto if onto is None else onto,
                dry_run=dry_run,
                despite_precondition=despite_precondition,
                replace_branch=replace,
                progress=progress,
            )
        if as_json:
            from porttool.report import to_data

            show_json(
                {
                    "outcome": applied.outcome,
                    "branch": applied.branch,
                    "exit_code": applied.exit_code,
                    "message": applied.message,
                    "report": to_data(applied.report),
                }
            )
        else:
            if applied.outcome == "dry-run":
                from porttool.review.terminal import terminal

                show(terminal(applied.report))
            elif applied.outcome == "created":
                from porttool.review.text import summary

                detail(*summary(applied.report))
            say(applied.message, whole=applied.exit_code != 0)
        raise typer.Exit(applied.exit_code)


def verify(
    port: Port = None,
    *,
    repo: Repo = HERE,
    python: Python = None,
    despite_precondition: Despite = False,
    measure: Annotated[
        bool,
        typer.Option("--measure", help="Measure the precondition too (precondition.measure)."),
    ] = False,
    bench: Annotated[
        bool, typer.Option("--bench", help="Measure too what the switch saves (verify.bench).")
    ] = False,
    drift: Annotated[
        bool, typer.Option("--drift", help="Measure too whether training drifts (verify.drift).")
    ] = False,
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Run everything anew, whatever was found before."),
    ] = False,
    junit: Annotated[
        Path | None,
        typer.Option("--junit", metavar="FILE", help="Write the checks as JUnit XML too."),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Check the review branch and give a verdict.

    Its programs run in checkouts of their own, outside of the repository.
    """
    with answering(as_json), opened(repo, port) as (repository, plan):
        with watched(repository, plan, "nothing was changed"), progress_lines() as progress:
            from porttool.apply import prove_branch
            from porttool.verifying.verify import verify as check_branch

            verified = check_branch(
                repository,
                plan,
                prove=prove_branch(repository, plan, progress),
                # Not resolved: a link in an environment's bin folder is what selects it.
                python=python.absolute() if python else None,
                despite_precondition=despite_precondition,
                measure=measure,
                bench=bench,
                drift=drift,
                fresh=fresh,
                progress=progress,
            )
        if junit is not None:
            from porttool.exporting import report_junit, write_export

            write_export(junit, report_junit(verified.report))
        if as_json:
            from porttool.report import to_data

            show_json(
                {
                    "verdict": verified.report.verdict,
                    "exit_code": verified.exit_code,
                    "message": verified.message,
                    "next": verified.next,
                    "stale": verified.standing.stale,
                    "kept": verified.kept,
                    "report": to_data(verified.report),
                }
            )
        else:
            from porttool.review.terminal import checks_table

            show(checks_table(verified.report))
            whole = verified.exit_code != 0
            say(verified.message, f"next: {verified.next}", whole=whole)
        raise typer.Exit(verified.exit_code)


def resolve(
    port: Port = None,
    *,
    onto: Onto = None,
    repo: Repo = HERE,
    done: Annotated[
        bool, typer.Option("--done", help="Keep what is in the folder as the port's answers.")
    ] = False,
    abort: Annotated[bool, typer.Option("--abort", help="Remove the folder.")] = False,
    ours: Paths = None,
    theirs: Paths = None,
    delete: Paths = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Open the port's conflicts in a folder, and keep the answers.

    With --done, --ours PATH takes what the branch has, --theirs PATH what the experiment has, and
    --delete PATH neither.
    """
    with answering(as_json), telling() as changed, opened(repo, port) as (repository, plan):
        with progress_lines() as progress:
            from porttool.errors import PlanError
            from porttool.resolving import resolve as resolving

            takes = resolving.sides_taken(ours or (), theirs or (), delete or ())
            if (takes and not done) or (done and (abort or onto)):
                raise PlanError(
                    "--ours, --theirs and --delete go with --done; --abort and --onto do not",
                    next="porttool resolve --help",
                )
            if done:
                ended = resolving.keep_answers(
                    repository, plan, takes=takes, progress=progress, changed=changed.append
                )
            elif abort:
                ended = resolving.abort(repository, plan, changed=changed.append)
            else:
                ended = resolving.open_conflicts(
                    repository,
                    plan,
                    onto=plan.onto if onto is None else onto,
                    progress=progress,
                    changed=changed.append,
                )
        if as_json:
            show_json(ended.as_dict())
        else:
            say(ended.message)
