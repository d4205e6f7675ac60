"""What a file wraps already: calls of the wrapper around a place, and re-bindings further on."""

from __future__ import annotations

import ast

from porttool.deciding.constructors import bindings_of
from porttool.deciding.dataflow.fileindex import FileIndex
from porttool.deciding.surroundings import class_or_home, scope_around
from porttool.learning.lesson import Wrapper
from porttool.learning.rewriting import names_of


def is_wrapper(wrapper: Wrapper, file: FileIndex, node: ast.AST) -> bool:
    """Tell whether a node is a call of the wrapper, or its name as a decorator."""
    function = node.func if isinstance(node, ast.Call) else node
    if isinstance(node, ast.Call) and ast.unparse(function) == "map" and node.args:
        return is_wrapper(wrapper, file, node.args[0])
    if not isinstance(function, ast.Name | ast.Attribute):
        return False
    if wrapper.is_called(names_of(file.source.tree).qualified(function)):
        return True
    here = isinstance(function, ast.Name) and function.id in file.module.bindings
    return here and wrapper.is_defined(file.path, ast.unparse(function))


def is_wrapped(wrapper: Wrapper, file: FileIndex, node: ast.AST, top: ast.AST) -> bool:
    """Tell whether a constructor is inside a call of the wrapper, or wrapped further on."""
    here: ast.AST = node
    while not isinstance(here, ast.stmt):
        if here is not node and isinstance(here, ast.Call) and is_wrapper(wrapper, file, here):
            return True
        here = file.above[here]
    return _rebound(wrapper, file, here, top)


def _rebound(wrapper: Wrapper, file: FileIndex, statement: ast.stmt, value: ast.AST) -> bool:
    """Tell whether another assignment to the same target wraps what this one constructed."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    mine = class_or_home(scope_around(file, statement))
    return any(
        class_or_home(other.scope) is mine and wraps_inside(wrapper, file, other.value)
        for target in targets
        for other in bindings_of(file, ast.unparse(target))
        if other.value is not None and other.value is not value
    )


def wraps_inside(wrapper: Wrapper, file: FileIndex, value: ast.expr) -> bool:
    """Tell whether an expression calls the wrapper anywhere."""
    return any(
        isinstance(node, ast.Call) and is_wrapper(wrapper, file, node) for node in ast.walk(value)
    )
