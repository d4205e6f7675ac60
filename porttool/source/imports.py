"""Imports inserted where a formatter would have put them: into one that is there, else sorted."""

from __future__ import annotations

import ast
import sys

from porttool.source.inserts import insert_import
from porttool.source.layout import DEFAULT_LINE_LENGTH, exploded, import_order
from porttool.source.syntax import (
    Source,
    TextEdit,
    span_of,
    statement_span,
    text_of,
)


def import_names(
    source: Source, module: str, wanted: list[str], *, line_length: int = DEFAULT_LINE_LENGTH
) -> TextEdit:
    """Import names from a module: into the import that is there, else as one of its own, sorted."""
    for statement in source.tree.body:
        if (
            isinstance(statement, ast.ImportFrom)
            and statement.module == module
            and not statement.level
            and statement.names[0].name != "*"
            and "#" not in text_of(source, statement)
        ):
            present = [f"{a.name} as {a.asname}" if a.asname else a.name for a in statement.names]
            names = sorted({*present, *wanted}, key=import_order)
            if present != sorted(present, key=import_order):
                names = [*present, *(name for name in wanted if name not in present)]
            span = span_of(source, statement)
            return TextEdit(span.start, span.end, _from_import(module, names, line_length))
    text = _from_import(module, sorted(wanted, key=import_order), line_length)
    return _sorted_insert(source, module, text)


def import_module(source: Source, module: str) -> TextEdit:
    """Import a module by its own name, sorted."""
    return _sorted_insert(source, module, f"import {module}", plain=True)


def _from_import(module: str, names: list[str], width: int) -> str:
    flat = f"from {module} import {', '.join(names)}"
    if len(flat) <= width:
        return flat
    return exploded(f"from {module} import (", names, ")", indent="")


def _sorted_insert(source: Source, module: str, text: str, *, plain: bool = False) -> TextEdit:
    """Insert an import where isort would: after its predecessor, sections a line apart."""
    section = _section(module)
    ours = (section, not plain, module)
    before: ast.stmt | None = None
    after: ast.stmt | None = None
    keys: dict[ast.stmt, tuple[int, bool, str]] = {}
    for statement in source.tree.body:
        if isinstance(statement, ast.ImportFrom):
            name = statement.module or ""
            keys[statement] = (3 if statement.level else _section(name), True, name)
        elif isinstance(statement, ast.Import):
            name = statement.names[0].name
            keys[statement] = (_section(name), False, name)
        else:
            continue
        if keys[statement] > ours:
            after = statement
            break
        before = statement
    if before is not None and (after is None or keys[before][0] == section):
        position = statement_span(source, before).end
        opening = "" if source.text[:position].endswith(("\n", "\r")) else "\n"
        gap = "" if keys[before][0] == section else "\n"
        return TextEdit(position, position, f"{opening}{gap}{text}\n")
    if after is not None:
        position = statement_span(source, after).start
        gap = "" if keys[after][0] == section else "\n"
        return TextEdit(position, position, f"{text}\n{gap}")
    edit = insert_import(source, text)
    if edit is None:
        raise ValueError(f"{source.path} has `{text}` already")
    return edit


def _section(module: str) -> int:
    """Return which block of imports a module belongs to: future, standard library, the others."""
    top = module.partition(".")[0]
    if top == "__future__":
        return 0
    return 1 if top in sys.stdlib_module_names else 2
