"""The command line: reads options, decides what is said, sets the exit code.

Every import of the tool's own modules stands inside the command that needs it, so that `--help`
answers at once.
"""
# ruff: noqa: PLC0415

from __future__ import annotations

import sys

EXIT_INTERRUPTED = 130

try:
    import gc

    # What is imported stays: to look for garbage in between took a tenth of `--help`.
    gc.disable()
    import shlex
    import signal
    from collections.abc import Iterator
    from contextlib import contextmanager
    from pathlib import Path
    from types import FrameType
    from typing import TYPE_CHECKING, Annotated, NoReturn

    import typer

    from porttool.console import answering, progress_lines, say, show, show_json
except KeyboardInterrupt:
    # Imports are most of the time before `main` begins, and nothing else could answer by then.
    sys.stderr.write("interrupted; nothing was changed\n")
    raise SystemExit(EXIT_INTERRUPTED) from None
finally:
    gc.enable()

if TYPE_CHECKING:
    from porttool.git.repo import Repository
    from porttool.plan.plan import Plan

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

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
Paths = Annotated[list[str] | None, typer.Option(metavar="PATH", help="A path in conflict.")]
HERE = Path()


class Interrupted(BaseException):
    """Ctrl-C or `kill`, and what had been changed by then.

    No KeyboardInterrupt: of that, typer makes its own message and exit code 1.
    """


def _say_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        say(f"porttool {version('porttool')}")
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
    mainline: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="The parent that a merge commit is compared with."),
    ] = None,
    despite_precondition: Despite = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Make the branch anew if porttool made it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make the review branch port/NAME.

    No checkout is touched, and no code of the repository is run.
    """
    with answering(as_json), _opened(repo, port) as (repository, plan):
        unchanged = "nothing was changed" if dry_run else "no branch was made"
        with _watched(repository, plan, unchanged), progress_lines() as progress:
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

                say(*summary(applied.report))
            say(applied.message)
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
    bench: Annotated[
        bool, typer.Option("--bench", help="Measure too what the switch saves (verify.bench).")
    ] = False,
    drift: Annotated[
        bool, typer.Option("--drift", help="Measure too whether training drifts (verify.drift).")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check the review branch and give a verdict.

    Its programs run in checkouts of their own, outside of the repository.
    """
    with answering(as_json), _opened(repo, port) as (repository, plan):
        with _watched(repository, plan, "nothing was changed"), progress_lines() as progress:
            from porttool.apply import prove_branch
            from porttool.verifying.verify import verify as check_branch

            verified = check_branch(
                repository,
                plan,
                prove=prove_branch(repository, plan, progress),
                # Not resolved: a link in an environment's bin folder is what selects it.
                python=python.absolute() if python else None,
                despite_precondition=despite_precondition,
                bench=bench,
                drift=drift,
                progress=progress,
            )
        if as_json:
            from porttool.report import to_data

            show_json(
                {
                    "verdict": verified.report.verdict,
                    "exit_code": verified.exit_code,
                    "message": verified.message,
                    "next": verified.next,
                    "stale": verified.standing.stale,
                    "report": to_data(verified.report),
                }
            )
        else:
            from porttool.review.terminal import checks_table

            show(checks_table(verified.report))
            say(verified.message, f"next: {verified.next}")
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
    with answering(as_json), _opened(repo, port) as (repository, plan):
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


@app.command()
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
    with answering(as_json), _telling() as changed, _opened(repo, port) as (repository, plan):
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


@app.command()
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
    as_json: Json = False,
) -> None:
    """Open the port's conflicts in a folder, and keep the answers.

    With --done, --ours PATH takes what the branch has, --theirs PATH what the experiment has, and
    --delete PATH neither.
    """
    with answering(as_json), _telling() as changed, _opened(repo, port) as (repository, plan):
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


@app.command()
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


@app.command()
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
    with answering(as_json), _telling() as changed:
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


@app.command()
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


def main() -> None:
    """Run the command line; the console script's entry point."""
    # What a command makes, trees above all, lives until it ends: looking for garbage in between
    # took a fifth of an apply on small files, and half of one on large ones.
    gc.disable()
    try:
        # `kill` and a closed terminal end a run as Ctrl-C does, so that the programs it started
        # are ended too; what whoever started this has switched off stays off.
        for number in ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _interrupt)
        app()
    except (Interrupted, KeyboardInterrupt) as error:
        # A second one finds nothing to end; and an import could be what was interrupted.
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)
        sys.stderr.write(f"interrupted; {str(error) or 'nothing was changed'}\n")
        sys.exit(EXIT_INTERRUPTED)
    finally:
        # Nor does Python look once more as it exits.
        gc.freeze()


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise Interrupted


@contextmanager
def _watched(repository: Repository, plan: Plan, unchanged: str) -> Iterator[None]:
    """Have an interruption say what had been changed, or `unchanged`."""
    from porttool.git.publish import NOTES

    refs = {
        f"refs/heads/{plan.review_branch}": "the branch was made",
        NOTES: "the report was stored",
    }

    before: dict[str, str] | None = None
    try:
        before = repository.refs(refs)
        yield
    except Interrupted:
        after = repository.refs(refs)
        # Interrupted before the first look: nothing had begun.
        known = after if before is None else before
        done = [words for ref, words in refs.items() if known.get(ref) != after.get(ref)]
        raise Interrupted(f"{done[0]} before that" if done else unchanged) from None


@contextmanager
def _telling() -> Iterator[list[str]]:
    """Have an interruption say what had been changed, of what is added to the list."""
    changed: list[str] = []
    try:
        yield changed
    except Interrupted:
        raise Interrupted(f"{changed[-1]} before that" if changed else "") from None


@contextmanager
def _opened(path: Path, port: str | None) -> Iterator[tuple[Repository, Plan]]:
    from porttool.git.repo import open_repository
    from porttool.plan.plan import find_plan, load_plan

    with open_repository(path) as repository:
        plan = load_plan(find_plan(repository.root or repository.git_dir, port))
        yield repository, plan
