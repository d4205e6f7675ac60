"""What commands have in common: their options, what they open, and what an interruption says."""
# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from porttool.console import be_quiet

if TYPE_CHECKING:
    from porttool.git.repo import Repository
    from porttool.plan.plan import Plan


def port_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the ports whose names begin like this, for completion in a shell."""
    from porttool.plan.names import ports_above

    folder = context.params.get("repo") or HERE
    return [name for name in ports_above(Path(folder)) if name.startswith(incomplete)]


HERE = Path()
Port = Annotated[
    str | None,
    typer.Argument(
        help="A port's name, its folder or port.yaml; the only one when left out.",
        autocompletion=port_names,
    ),
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
Python = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        help="The project's interpreter; $VIRTUAL_ENV's, .venv's or this one by default.",
    ),
]
Paths = Annotated[list[str] | None, typer.Option(metavar="PATH", help="A path in conflict.")]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        callback=be_quiet,
        expose_value=False,
        help="Say only the result, and what stops it.",
    ),
]


class Interrupted(BaseException):
    """Ctrl-C or `kill`, and what had been changed by then.

    No KeyboardInterrupt: of that, typer makes its own message and exit code 1.
    """


@contextmanager
def watched(
    repository: Repository, plan: Plan, unchanged: str, *, branch: str = "the branch was made"
) -> Iterator[None]:
    """Have an interruption say what had been changed, or `unchanged`.

    `branch` is what is said where the branch is not what it was.
    """
    from porttool.git.publish import NOTES

    refs = {
        f"refs/heads/{plan.review_branch}": branch,
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
def telling() -> Iterator[list[str]]:
    """Have an interruption say what had been changed, of what is added to the list."""
    changed: list[str] = []
    try:
        yield changed
    except Interrupted:
        raise Interrupted(f"{changed[-1]} before that" if changed else "") from None


@contextmanager
def opened(path: Path, port: str | None) -> Iterator[tuple[Repository, Plan]]:
    """Open the repository at `path` and read the plan of its port `port`."""
    from porttool.git.repo import open_repository
    from porttool.plan.plan import find_plan, load_plan

    with open_repository(path) as repository:
        plan = load_plan(find_plan(repository.root or repository.git_dir, port))
        yield repository, plan
