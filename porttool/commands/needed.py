"""Which commands have to be built for a command line: all of them take a quarter of its start."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

from typer.models import CommandInfo


def needed(commands: Sequence[CommandInfo], words: Sequence[str]) -> list[CommandInfo]:
    """Return the one command that is named, all without their options for a list of them, or all.

    Whatever else is asked, completion and a name that is none among it, needs them as they are.
    """
    named = [one for one in commands if _name(one) in words[:1]]
    if named:
        return named
    return [_listed(one) for one in commands] if list(words) in ([], ["--help"]) else [*commands]


def _name(command: CommandInfo) -> str | None:
    return command.callback.__name__ if command.callback is not None else None


def _listed(command: CommandInfo) -> CommandInfo:
    """Return a command that has a name and a description, and takes nothing."""
    only = copy.copy(command)
    only.callback = _taking_nothing(command.callback)
    return only


def _taking_nothing(command: Callable[..., object] | None) -> Callable[..., object]:
    def callback() -> None: ...

    callback.__name__ = getattr(command, "__name__", "")
    callback.__doc__ = command.__doc__
    return callback
