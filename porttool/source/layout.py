"""Lay out the few lines that porttool writes itself as `ruff format` would lay them out."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

DEFAULT_LINE_LENGTH = 88


def has_formatter(pyproject: bytes | None) -> bool:
    """Tell whether a project's `pyproject.toml` configures ruff or black."""
    tools = _tools(pyproject)
    return "ruff" in tools or "black" in tools


def line_length(pyproject: bytes | None) -> int:
    """Return the line length a project's `pyproject.toml` sets for ruff or black, else their own.

    A file that is not TOML counts as one that sets nothing.
    """
    for tool in ("ruff", "black"):
        value = _tools(pyproject).get(tool, {}).get("line-length")
        if isinstance(value, int):
            return value
    return DEFAULT_LINE_LENGTH


@lru_cache(maxsize=8)
def _tools(pyproject: bytes | None) -> Mapping[str, Any]:
    # Every file of a port that is written asks for it.
    try:
        tools: Mapping[str, Any] = tomllib.loads((pyproject or b"").decode("utf-8")).get("tool", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return {}
    return tools


def bracketed(
    head: str, items: Sequence[str], tail: str, *, indent: str, width: int, comma: bool = True
) -> str:
    """Return `head items tail` on one line, on three, or with an item a line, whichever fits first.

    `head` ends with the opening bracket and `tail` starts with the closing one. Without `comma` the
    items are the clauses of a comprehension.
    """
    separator = ", " if comma else " "
    flat = f"{indent}{head}{separator.join(items)}{tail}"
    if len(flat) <= width or not items:
        return flat
    inner = indent + "    "
    joined = f"{inner}{separator.join(items)}"
    if len(joined) <= width:
        return f"{indent}{head}\n{joined}\n{indent}{tail}"
    return exploded(head, items, tail, indent=indent, comma=comma)


def exploded(head: str, items: Sequence[str], tail: str, *, indent: str, comma: bool = True) -> str:
    """Return the form with an item a line; a trailing comma keeps formatters from joining it."""
    end = "," if comma else ""
    lines = "".join(f"{indent}    {item}{end}\n" for item in items)
    return f"{indent}{head}\n{lines}{indent}{tail}"


def quoted(text: str) -> str:
    """Return a Python string literal in double quotes, unless it holds some and no single ones."""
    literal = repr(text)
    if literal.startswith("'") and '"' not in literal:
        return f'"{literal[1:-1]}"'
    return literal


def import_order(name: str) -> tuple[int, str]:
    """Return the key by which isort and ruff sort the names of one `from` import."""
    bare = name.partition(" ")[0]
    if bare.isupper() and len(bare) > 1:
        return 0, bare
    return (1 if re.match(r"_*[A-Z]", bare) else 2), bare
