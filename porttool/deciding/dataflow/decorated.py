"""What the names of decorated functions stand for."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from porttool.deciding.dataflow import calls
from porttool.deciding.dataflow.fileindex import Scope
from porttool.deciding.dataflow.values import (
    ClassRef,
    Frame,
    Function,
    Instance,
    Value,
    union,
)

if TYPE_CHECKING:
    from porttool.deciding.dataflow.evaluate import Evaluation


def defined(flow: Evaluation, scope: Scope, receiver: Instance | ClassRef | None = None) -> Value:
    """Return what a function statement gives its name: the function, or what decorators make of it.

    A decorator that is not analysed hands on what the function gives. One of the files that does
    more than pass everything on counts beside the function itself.
    """
    itself: Value = {Function(scope, receiver): None}
    found = itself
    for decorator in reversed(getattr(scope.node, "decorator_list", [])):
        found = _decorated(flow, decorator, found, flow.frame(scope.file))
    return union((itself, found))


def _decorated(flow: Evaluation, decorator: ast.expr, below: Value, frame: Frame) -> Value:
    made: list[Value] = []
    for atom in flow.value(decorator, frame):
        if not isinstance(atom, Function):
            continue
        if passes_on(atom.scope):
            continue
        key = ("decorated", decorator)
        stand_in = flow.named_stand_in(key, decorator)
        flow.raw[stand_in] = below
        call = flow.stand_in(decorator, decorator, (stand_in,))
        made.append(calls.applied(flow, atom, call, frame))
    return union(made) if made else below


def decorators_with_own_calls(flow: Evaluation, scope: Scope) -> list[ast.expr]:
    """Return the decorators that may call a function with other arguments than its callers give."""
    return [
        decorator
        for decorator in getattr(scope.node, "decorator_list", [])
        for atom in flow.value(decorator, flow.frame(scope.file))
        if isinstance(atom, Function) and not passes_on(atom.scope)
    ]


def bound_method(flow: Evaluation, scope: Scope, receiver: Instance | ClassRef) -> Value:
    """Return a method of an object with its decorators, each function in it bound to the object."""
    value = defined(flow, scope, receiver)
    return {
        Function(atom.scope, receiver) if isinstance(atom, Function) else atom: way
        for atom, way in value.items()
    }


def passes_on(decorator: Scope) -> bool:
    """Tell whether a decorator calls the function with just what it was given, and returns that."""
    node = decorator.node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or len(node.args.args) != 1:
        return False
    function = node.args.args[0].arg
    if [ast.unparse(value) for value in decorator.returns] == [function]:
        return True
    inner = [s for s in node.body if isinstance(s, ast.FunctionDef | ast.AsyncFunctionDef)]
    if len(inner) != 1 or [ast.unparse(v) for v in decorator.returns] != [inner[0].name]:
        return False
    given = inner[0].args
    if given.vararg is None or given.kwarg is None or given.args or given.kwonlyargs:
        return False
    call = f"{function}(*{given.vararg.arg}, **{given.kwarg.arg})"
    returns = decorator.file.scopes[inner[0]].returns
    names = {ast.unparse(value) for value in returns}
    return names <= {call, f"await {call}"} or _returns_result(inner[0], call, names)


def _returns_result(
    inner: ast.FunctionDef | ast.AsyncFunctionDef, call: str, names: set[str]
) -> bool:
    """Recognise `result = function(*args, **kwargs)`, ..., `return result`."""
    results = {
        ast.unparse(node.targets[0])
        for node in ast.walk(inner)
        if isinstance(node, ast.Assign) and ast.unparse(node.value) in (call, f"await {call}")
    }
    stored = {
        node.id
        for node in ast.walk(inner)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return bool(results) and names <= results and not (stored - results) & names
