"""Definitions and imports inserted at the top level of a file, with the blank lines they want."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from porttool.source.scopes import top_level_name
from porttool.source.syntax import LINE_END, Source, TextEdit, same_tree, statement_span


def _docstring_or_import(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return True
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _last_of_head(tree: ast.Module) -> ast.stmt | None:
    """Return the last statement of the docstring and import block that opens a file."""
    last = None
    for statement in tree.body:
        if not _docstring_or_import(statement):
            break
        last = statement
    return last


def insert_definition(
    source: Source, text: str, *, after: Sequence[str] = (), before: Sequence[str] = ()
) -> TextEdit:
    """Insert a top-level def or class with two blank lines around it.

    It goes behind the first of `after` that the file defines, else in front of the first of
    `before`, else behind the imports. Names that the file lacks are passed over.
    """
    body = source.tree.body
    named = {name: statement for statement in body if (name := top_level_name(statement))}
    anchor = next((named[name] for name in after if name in named), None)
    if anchor is None:
        follower = next((named[name] for name in before if name in named), None)
        if follower is not None:
            index = body.index(follower)
            anchor = body[index - 1] if index else None
        else:
            anchor = _last_of_head(source.tree)
    text = text.strip("\n") + "\n"
    if anchor is None:
        position = _after_leading_comments(source)
        gap = "\n\n" if body else ""
        return TextEdit(position, position, text + gap)
    position = statement_span(source, anchor).end
    opening = "" if source.text[:position].endswith(("\n", "\r")) else "\n"
    rest = source.text[position:]
    blank = re.match(r"(?:[ \t\f]*(?:\r\n|\r|\n))*", rest)
    num_blank = len(LINE_END.findall(blank.group())) if blank else 0
    closing = "\n" * max(0, 2 - num_blank) if rest.strip() else ""
    return TextEdit(position, position, f"{opening}\n\n{text}{closing}")


def _after_leading_comments(source: Source) -> int:
    """Return the offset behind a shebang, coding line and comment block that open a file."""
    match = re.match(r"(?:[ \t\f]*#[^\r\n]*(?:\r\n|\r|\n))*", source.text)
    return match.end() if match else 0


def insert_import(source: Source, statement: str) -> TextEdit | None:
    """Insert an import behind those that open the file; None when an equal one stands there.

    `from __future__` imports stay first. The place within the block is not sorted.
    """
    wanted = ast.parse(statement).body[0]
    if any(same_tree(wanted, existing) for existing in source.tree.body):
        return None
    anchor = _last_of_head(source.tree)
    if anchor is None:
        position = _after_leading_comments(source)
        return TextEdit(position, position, statement.strip() + "\n")
    position = statement_span(source, anchor).end
    opening = "" if source.text[:position].endswith(("\n", "\r")) else "\n"
    if not isinstance(anchor, ast.Import | ast.ImportFrom):
        opening += "\n"
    return TextEdit(position, position, opening + statement.strip() + "\n")
