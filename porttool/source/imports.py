"""Imports inserted where a formatter would have put them: into one that is there, else sorted."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from porttool.source.inserts import insert_import
from porttool.source.layout import DEFAULT_LINE_LENGTH, exploded, import_order
from porttool.source.syntax import (
    Source,
    TextEdit,
    same_tree,
    span_of,
    statement_span,
    text_of,
)


@dataclass(frozen=True)
class Extended:
    """What an import was made that got more names: its new text, and the names that it got."""

    text: str
    names: frozenset[str]


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


def bring_imports(
    source: Source,
    statements: Iterable[str],
    *,
    apart: Collection[str] = (),
    extended: Mapping[str, Extended] | None = None,
) -> list[TextEdit]:
    """Import what some statements of one name each say, into imports of the same modules.

    Those of `apart` get a line of their own. `extended` has, by its text, an import that was
    extended elsewhere: one that stands here just so becomes what it became there, where just that
    is wanted.
    """
    edits: list[TextEdit] = []
    wanted: dict[ast.ImportFrom, dict[str, None]] = {}
    for text in dict.fromkeys(statements):
        statement = ast.parse(text).body[0]
        host, name = None, ""
        if isinstance(statement, ast.ImportFrom) and text not in apart:
            name = _names(statement)[0]
            host = _host(source, statement, extended or {})
        if host is None:
            edit = _beside_its_like(source, statement, text) or insert_import(source, text)
            edits += [] if edit is None else [edit]
        elif name not in _names(host):
            wanted.setdefault(host, {})[name] = None
    for host, names in wanted.items():
        span = span_of(source, host)
        known = (extended or {}).get(flat_lines(text_of(source, host)))
        if known is not None and known.names == set(names):
            edits.append(TextEdit(span.start, span.end, known.text))
        else:
            edits.append(TextEdit(span.start, span.end, _with_names(source, host, list(names))))
    return edits


def flat_lines(text: str) -> str:
    """Return a text with "\n" for every line end."""
    return re.sub(r"\r\n?", "\n", text)


def _names(statement: ast.ImportFrom) -> list[str]:
    return [f"{a.name} as {a.asname}" if a.asname else a.name for a in statement.names]


def _host(
    source: Source, wanted: ast.ImportFrom, extended: Mapping[str, Extended]
) -> ast.ImportFrom | None:
    """Return the import of the same module that can take one more name, comments and all."""
    for statement in source.tree.body:
        if not isinstance(statement, ast.ImportFrom) or statement.names[0].name == "*":
            continue
        if (statement.module, statement.level) != (wanted.module, wanted.level):
            continue
        text = text_of(source, statement)
        if wanted.module != "__future__" and ("#" not in text or flat_lines(text) in extended):
            return statement
        if set(_names(wanted)) <= set(_names(statement)):
            return statement
    return None


def _with_names(source: Source, host: ast.ImportFrom, wanted: list[str]) -> str:
    """Return an import with more names: sorted if it was, an item a line if it was."""
    present = _names(host)
    names = sorted({*present, *wanted}, key=import_order)
    if present != sorted(present, key=import_order):
        names = [*present, *(name for name in wanted if name not in present)]
    module = "." * host.level + (host.module or "")
    if host.names[0].lineno > host.lineno and host.names[-1].lineno > host.names[0].lineno:
        return exploded(f"from {module} import (", names, ")", indent="")
    return _from_import(module, names, DEFAULT_LINE_LENGTH)


def _beside_its_like(source: Source, statement: ast.stmt, text: str) -> TextEdit | None:
    """Insert an import into the block with imports of the same package, or of the standard library.

    None where there is no such block, where it is not sorted, where an equal import stands, and
    where a star import may bring the same name behind it.
    """
    ours = _sort_key(statement)
    if ours is None or any(same_tree(statement, one) for one in source.tree.body):
        return None
    imports = (one for one in source.tree.body if isinstance(one, ast.ImportFrom))
    if any(one.names[0].name == "*" for one in imports):
        return None
    blocks: list[list[ast.stmt]] = []
    for one in source.tree.body:
        if _sort_key(one) is None:
            continue
        gap = not blocks or one.lineno > (blocks[-1][-1].end_lineno or 0) + 1
        blocks = [*blocks, [one]] if gap else [*blocks[:-1], [*blocks[-1], one]]
    for block in blocks:
        keys = [key for one in block if (key := _sort_key(one)) is not None]
        if keys != sorted(keys) or not any(_alike(key[1], ours[1]) for key in keys):
            continue
        behind = [one for one, key in zip(block, keys, strict=True) if key <= ours]
        if not behind:
            start = statement_span(source, block[0]).start
            return TextEdit(start, start, f"{text.strip()}\n")
        end = statement_span(source, behind[-1]).end
        return TextEdit(end, end, f"{text.strip()}\n") if source.text[:end].endswith("\n") else None
    return None


def _sort_key(statement: ast.stmt) -> tuple[bool, str] | None:
    """Return what isort sorts an import of one module by within its section."""
    if isinstance(statement, ast.Import) and len(statement.names) == 1:
        return False, statement.names[0].name
    if isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
        return True, statement.module
    return None


def _alike(module: str, other: str) -> bool:
    top, section = module.partition(".")[0], _section(module)
    return top == other.partition(".")[0] or section == _section(other) == 1


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
