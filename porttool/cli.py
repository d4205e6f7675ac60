"""The command line: reads options, says what happens, sets the exit code. Nothing else prints.

Every import of the tool's own modules stands inside the command that needs it, so that `--help`
answers at once.
"""
# ruff: noqa: PLC0415

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from porttool.git.repo import Repository
    from porttool.plan.plan import Plan
    from porttool.report import Report

EXIT_INTERRUPTED = 130
WIDTH_WITHOUT_TERMINAL = 160
MAX_LOOKS = 8
LINE = 200

app = typer.Typer(
    name="porttool",
    help="Port a stale experiment onto today's main, behind a switch that is off.",
    epilog="Exit codes: 0 done, 2 usage or plan, 3 a person must decide, 4 a check failed, "
    "5 parked, 1 a traceback, which is a bug.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Port = Annotated[
    str | None,
    typer.Argument(help="A port's name, its folder or port.yaml; the only one when left out."),
]
Repo = Annotated[Path, typer.Option("--repo", metavar="PATH", help="The repository to work in.")]
Json = Annotated[bool, typer.Option("--json", help="Print the answer as one JSON object.")]
Onto = Annotated[
    str | None, typer.Option("--onto", metavar="BRANCH", help="The branch; the plan's by default.")
]
Despite = Annotated[
    bool,
    typer.Option(
        "--despite-precondition", help="Go on when the precondition is not met; it stays parked."
    ),
]
HERE = Path()


def _say_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        _print(f"porttool {version('porttool')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_say_version, help="Print the version and exit."
        ),
    ] = False,
) -> None: ...


@app.command()
def apply(
    port: Port = None,
    *,
    onto: Onto = None,
    repo: Repo = HERE,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Decide and prove, but write no ref.")
    ] = False,
    despite_precondition: Despite = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Make the branch anew if porttool made it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make the review branch port/NAME.

    No checkout is touched, and no code of the repository is run.
    """
    with _answering(as_json), _opened(repo, port) as (repository, plan):
        from porttool.apply import apply as make_branch

        with _progress() as progress:
            applied = make_branch(
                repository,
                plan,
                onto=onto or plan.onto,
                dry_run=dry_run,
                despite_precondition=despite_precondition,
                replace_branch=replace,
                progress=progress,
            )
        if as_json:
            from porttool.report import to_data

            _print_json(
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
                _show(_terminal(applied.report))
            elif applied.outcome == "created":
                _print(*_summary(applied.report))
            _print(applied.message)
        raise typer.Exit(applied.exit_code)


@app.command()
def verify(
    port: Port = None,
    *,
    repo: Repo = HERE,
    python: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="The project's interpreter; $VIRTUAL_ENV's, .venv's or this one by default.",
        ),
    ] = None,
    despite_precondition: Despite = False,
    as_json: Json = False,
) -> None:
    """Check the review branch and give a verdict.

    Its programs run in checkouts of their own, outside of the repository.
    """
    with _answering(as_json), _opened(repo, port) as (repository, plan):
        from porttool.apply import prove_branch
        from porttool.verifying.verify import verify as check_branch

        with _progress() as progress:
            verified = check_branch(
                repository,
                plan,
                prove=prove_branch(repository, plan),
                # Not resolved: a link in an environment's bin folder is what selects it.
                python=python.absolute() if python else None,
                despite_precondition=despite_precondition,
                progress=progress,
            )
        if as_json:
            from porttool.report import to_data

            _print_json(
                {
                    "verdict": verified.report.verdict,
                    "exit_code": verified.exit_code,
                    "message": verified.message,
                    "report": to_data(verified.report),
                }
            )
        else:
            from porttool.report import next_step
            from porttool.review.terminal import checks_table

            _show(checks_table(verified.report))
            _print(verified.message, f"next: {next_step(verified.report)}")
        raise typer.Exit(verified.exit_code)


@app.command()
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
    with _answering(as_json), _opened(repo, port) as (repository, plan):
        from porttool.record import load_report

        report = load_report(repository, plan.review_branch, plan.name)
        if as_json:
            from porttool.report import to_data

            _print_json(to_data(report))
        elif markdown:
            from porttool.review.markdown import markdown as body

            _print(body(report).rstrip("\n"))
        else:
            _show(_terminal(report))


@app.command()
def status(*, repo: Repo = HERE, onto: Onto = None, as_json: Json = False) -> None:
    """Say where every port stands, and what is next."""
    with _answering(as_json):
        from porttool.git.repo import open_repository
        from porttool.status import port_statuses

        with open_repository(repo) as repository:
            found = list(port_statuses(repository, onto))
        if as_json:
            _print_json({"ports": [port.as_dict() for port in found]})
            return
        if not found:
            _print("there is no port under patches/", "next: porttool demo DIR shows one at work")
        for port in found:
            _print(f"{port.port}: {port.state}", f"  {port.detail}")
            if port.next:
                _print(f"  next: {port.next}")


@app.command()
def demo(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that is not there yet.")],
    *,
    as_json: Json = False,
) -> None:
    """Write a repository to try all this on."""
    with _answering(as_json):
        from porttool.demo import write_demo

        write_demo(folder)
        if as_json:
            _print_json({"folder": str(folder.resolve())})
        else:
            _print(
                f"wrote {folder}: main has moved on, experiments/torch-compile has not",
                f"next: cd {folder} && porttool apply --onto main",
            )


def main() -> None:
    """Run the command line; the console script's entry point."""
    # `kill` ends a run as Ctrl-C does, so that the programs it started are ended too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    app()


@contextmanager
def _answering(as_json: bool) -> Iterator[None]:
    """Turn a refusal and an interruption into their message and exit code; a bug stays one."""
    from porttool.errors import PortError

    try:
        yield
    except PortError as error:
        if as_json:
            _print_json(error.as_dict())
        else:
            print(_shown(str(error)), file=sys.stderr)
        raise typer.Exit(error.exit_code) from None
    except KeyboardInterrupt:
        print("interrupted; nothing was published after that", file=sys.stderr)
        raise typer.Exit(EXIT_INTERRUPTED) from None


@contextmanager
def _opened(path: Path, port: str | None) -> Iterator[tuple[Repository, Plan]]:
    from porttool.git.repo import open_repository
    from porttool.plan.plan import find_plan, load_plan

    with open_repository(path) as repository:
        plan = load_plan(find_plan(repository.root or repository.git_dir, port))
        yield repository, plan


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Say each step on standard error: one live line at a terminal, else a line each."""
    if not sys.stderr.isatty():
        yield lambda step: print(_shown(step), file=sys.stderr, flush=True)
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status("") as live:
        yield lambda step: live.update(Text(_shown(step)))


def _summary(report: Report) -> list[str]:
    from porttool.review.text import look_place, proof_sentence, short, site_counts

    looks = [
        short(f"  {look.kind} {look_place(look)}: {look.why}", LINE) for look in report.look_first
    ]
    more = len(looks) - MAX_LOOKS
    urgent = [*looks[:MAX_LOOKS], *([f"  and {more} more"] if more > 0 else [])]
    return [
        *(f"{commit.id[:12]} {commit.subject}" for commit in report.series),
        site_counts(report),
        proof_sentence(report),
        *([f"look first at (porttool review {report.port}):", *urgent] if urgent else []),
    ]


def _terminal(report: Report) -> RenderableType:
    from porttool.review.terminal import terminal

    return terminal(report)


def _show(renderable: RenderableType) -> None:
    from rich.console import Console

    # Into a file or a pipe little is folded: there is no terminal whose width would matter.
    Console(width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL).print(renderable)


def _print(*lines: str) -> None:
    print("\n".join(map(_shown, lines)))


def _print_json(data: dict[str, Any]) -> None:
    print(json.dumps(data, indent=1))


def _shown(text: str) -> str:
    from porttool.review.text import visible

    return visible(text, keep="\n")
