"""What people see: answers on standard output, refusals and progress on standard error.

`cli` decides what to say; everything that is said goes through here, with nothing in it that a
terminal would obey.
"""
# ruff: noqa: PLC0415

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

WIDTH_WITHOUT_TERMINAL = 160


@contextmanager
def answering(as_json: bool) -> Iterator[None]:
    """Turn a refusal into its message and exit code; a bug stays one."""
    from porttool.errors import PortError

    try:
        yield
    except PortError as error:
        if as_json:
            show_json(error.as_dict())
        else:
            tell(str(error))
        raise typer.Exit(error.exit_code) from None


@contextmanager
def progress_lines() -> Iterator[Callable[[str], None]]:
    """Say each step on standard error: one live line at a terminal, else a line each."""
    if not sys.stderr.isatty():
        yield tell
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status("") as live:
        yield lambda step: live.update(Text(_shown(step)))


def show(renderable: RenderableType) -> None:
    """Print a table or a page as wide as the terminal is."""
    from rich.console import Console

    # Into a file or a pipe little is folded: there is no terminal whose width would matter.
    with _writing():
        Console(width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL).print(renderable)
        sys.stdout.flush()


def say(*lines: str) -> None:
    """Print lines of the answer."""
    with _writing():
        print("\n".join(map(_shown, lines)), flush=True)


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
