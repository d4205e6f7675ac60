"""A file read token by token, piece by piece: from a line that begins a statement to another.

To read a whole file so takes several times as long as to parse it.
"""

from __future__ import annotations

import ast
import itertools
import tokenize
from collections.abc import Iterator

from porttool.source.syntax import Source

_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def statement_lines(source: Source) -> list[int]:
    """Return the lines, from 0, that begin with a statement, and the first one."""
    text, starts = source.text, source.line_starts
    found = {0}
    todo: list[ast.AST] = [source.tree]
    for holder in todo:
        for node in (part for name in _BLOCKS for part in getattr(holder, name, ())):
            todo.append(node)
            if isinstance(node, ast.stmt):
                start = starts[node.lineno - 1]
                alone = not text[start : start + node.col_offset].strip()
                if alone and not text[max(start - 3, 0) : start].rstrip("\r\n").endswith("\\"):
                    found.add(node.lineno - 1)
    return sorted(found)


def tokens(source: Source, first: int, end: int) -> Iterator[tokenize.TokenInfo]:
    """Yield the tokens of lines `first` (one of `statement_lines`) to `end` (not included).

    Rows count from 1 at `first`. What is still open at the end just ends.
    """
    starts = (*source.line_starts, len(source.text))
    # Without their indentation, lines of several blocks can be read by themselves.
    lines = (source.text[starts[at] : starts[at + 1]].lstrip(" \t\f") for at in range(first, end))
    try:
        yield from tokenize.generate_tokens(lines.__next__)
    except tokenize.TokenError:
        return


def comments(source: Source) -> list[tuple[str, int]]:
    """Return the comments of a file, each with its line from 1."""
    starts = (*source.line_starts, len(source.text))
    pieces = itertools.pairwise([*statement_lines(source), len(source.line_starts)])
    return [
        (token.string, first + token.start[0])
        for first, end in pieces
        if "#" in source.text[starts[first] : starts[end]]
        for token in tokens(source, first, end)
        if token.type == tokenize.COMMENT
    ]


def bracket_at(source: Source, line: int, first: int) -> str | None:
    """Return the bracket that a line is inside of: "" for none, None inside a string.

    Lines count from 0; `first` is the last of `statement_lines` up to it.
    """
    stack: list[str] = []
    ended = first
    for token in tokens(source, first, line):
        if token.type == tokenize.OP and token.string in "([{":
            stack.append(token.string)
        elif token.type == tokenize.OP and token.string in ")]}":
            stack.pop()
        elif token.type in (tokenize.NEWLINE, tokenize.NL):
            ended = first + token.start[0]
    if ended != line:
        return None
    return stack[-1] if stack else ""
