"""A switch as values: how a place reads it, where it is declared, and why neither can be said."""

from __future__ import annotations

from typing import Literal

from porttool.frozen import dataclass

Idiom = Literal[
    "absl",
    "argparse",
    "click",
    "dataclass",
    "dict",
    "env",
    "fire",
    "hydra",
    "module",
    "pydantic",
    "typer",
]


@dataclass(frozen=True)
class Holder:
    """What declares the switch: a parser, a class, a command, a dict, a module.

    `name` is unique in the file: the qualified name of a class or function, or the name that a
    parser or dict is bound to, with the function around it ("parse.parser").
    """

    path: str
    name: str
    line: int  # where the holder starts, for messages


@dataclass(frozen=True)
class SwitchRead:
    """How one place reads the switch."""

    expression: str  # gives a bool: False where nobody turned the switch on
    idiom: Idiom
    declared_in: Holder | None  # None: nothing in Python declares it (a settings file may)
    from_line: int  # the expression holds from the statement on this line; 0 throughout the file
    declared: bool = False  # it is there already, as a bool that is off
    imports: tuple[tuple[str, str], ...] = ()  # (module, name) to import, for the expression
    notes: tuple[str, ...] = ()  # what a person should know, for the report


@dataclass(frozen=True)
class Unclear:
    """Why no single expression can be named, or why nothing may be declared: for a person."""

    reasons: tuple[str, ...]
    choices: tuple[str, ...] = ()  # names of settings, where naming one of them is an answer
