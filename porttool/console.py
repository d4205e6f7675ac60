"""What people see: answers on standard output, refusals and progress on standard error.

`cli` decides what to say; everything that is said goes through here, with nothing in it that a
terminal would obey.
"""
# ruff: noqa: PLC0415

from __future__ import annotations

import errno
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from porttool.errors import PortError

WIDTH_WITHOUT_TERMINAL = 160
_quiet = False
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EMFILE, errno.ENFILE)


@contextmanager
def answering(as_json: bool) -> Iterator[None]:
    """Turn a refusal into its message and exit code; a bug stays one."""
    from porttool.errors import PortError

    try:
        yield
    except (PortError, OSError) as error:
        refusal = error if isinstance(error, PortError) else _no_room(error)
        if refusal is None:
            raise
        if as_json:
            show_json(refusal.as_dict())
        else:
            tell(str(refusal))
        raise typer.Exit(refusal.exit_code) from None


def _no_room(error: OSError) -> PortError | None:
    """Return what to say when the machine has no more room, or None for any other reason."""
    from porttool.errors import PortError

    if error.errno not in _NO_ROOM:
        return None
    return PortError(
        "this machine has no room for what has to be written",
        where=str(error.filename) if error.filename else None,
        why=error.strerror,
        next="make room there, or set TMPDIR to a folder on another disk; then the same command "
        "again",
    )


@contextmanager
def progress_lines() -> Iterator[Callable[[str], None]]:
    """Say each step on standard error: one live line at a terminal, else a line each."""
    if _quiet:
        yield lambda step: None
        return
    if not sys.stderr.isatty():
        yield tell
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status("") as live:
        yield lambda step: live.update(Text(_shown(step)))


def show(renderable: RenderableType) -> None:
    """Print a table or a page as wide as the terminal is."""
    if _quiet:
        return
    from rich.console import Console

    # Into a file or a pipe little is folded: there is no terminal whose width would matter.
    with _writing():
        if sys.stdout.isatty():
            console = Console()
        else:  # whatever FORCE_COLOR says: what reads this reads no escapes
            console = Console(width=WIDTH_WITHOUT_TERMINAL, force_terminal=False)
        # What is to be copied may be longer than a line: the terminal folds it, and adds nothing.
        console.print(renderable, crop=False)
        sys.stdout.flush()


def show_paged(renderable: RenderableType) -> None:
    """Print a page through a person's pager, where there is a person: at a terminal."""
    from rich.console import Console

    pager = os.environ.get("PAGER", "less")
    if pager in ("", "cat") or not (sys.stdout.isatty() and sys.stdin.isatty()):
        show(renderable)
        return
    # As git starts it: what fits the screen ends at once, colours stay, the text stays afterwards.
    os.environ.setdefault("LESS", "FRX")
    # Ctrl-C at a pager is the pager's.
    ours = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        console = Console()
        with _writing(), console.pager(styles=not console.no_color):
            console.print(renderable, crop=False)
    finally:
        signal.signal(signal.SIGINT, ours)


def be_quiet(wanted: bool) -> None:
    """Say nothing from here on but results and what stops a command; with False, all again."""
    global _quiet  # noqa: PLW0603 - one process has one standard output
    _quiet = wanted


def say(*lines: str, whole: bool = False) -> None:
    """Print lines of the answer, the result first: the rest is left out where only that is wanted.

    `whole` keeps all of them, for an answer that a person has to act upon.
    """
    shown = "\n".join(map(_shown, lines))
    with _writing():
        print(shown if whole or not _quiet else shown.split("\n", 1)[0], flush=True)


def detail(*lines: str) -> None:
    """Print lines that lead up to a result."""
    if lines and not _quiet:
        say(*lines)


def show_json(data: dict[str, Any]) -> None:
    """Print the whole answer as one JSON object."""
    with _writing():
        print(json.dumps(data, indent=1), flush=True)


def tell(words: str) -> None:
    """Write to standard error: a refusal, or what is going on."""
    # One write: a line of another thread does not get between the words and their end.
    sys.stderr.write(f"{_shown(words)}\n")
    sys.stderr.flush()


@contextmanager
def _writing() -> Iterator[None]:
    """Turn a full disk into one line and exit code 2; a reader that has gone needs no line."""
    from porttool.errors import EXIT_USAGE

    try:
        yield
    except OSError as error:
        if error.errno != errno.EPIPE:
            tell(f"the answer cannot be written to standard output: {error.strerror}")
        # What is still buffered would fail once more when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(EXIT_USAGE) from None


def _shown(text: str) -> str:
    from porttool.review.text import visible

    return visible(text, keep="\n")
