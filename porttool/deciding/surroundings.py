"""The statements and scopes around a place, and what a statement holds of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from porttool.deciding.dataflow.fileindex import FileIndex, Scope


def statement_around(file: FileIndex, node: ast.AST) -> ast.stmt:
    """Return the innermost statement around a node, or the node if it is one."""
    here = node
    while not isinstance(here, ast.stmt):
        here = file.above[here]
    return here


def own_statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements that a scope runs itself, at any depth, in order."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
            if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield from own_statements(child)
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            yield from own_statements(child)


def own_expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """Yield the expressions of a statement, those of statements inside it left out."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        for child in ast.iter_child_nodes(waiting.pop()):
            if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
                continue
            if isinstance(child, ast.expr):
                yield child
            waiting.append(child)


def scope_around(file: FileIndex, node: ast.AST) -> Scope:
    """Return the innermost scope around a node, itself not counted."""
    here = node
    while here in file.above:
        here = file.above[here]
        if here in file.scopes:
            return file.scopes[here]
    return file.module


def class_or_home(scope: Scope) -> Scope:
    """Return the outermost class around a scope, else the scope that runs its statements."""
    here: Scope | None = scope
    found = scope.home
    while here is not None:
        if here.kind == "class":
            found = here
        here = here.above
    return found
