"""What gives an object an attribute without an assignment to it: `setattr`, `vars()` and the like.

Read from one file as it is written; whose attribute it becomes is for evaluation to tell.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from porttool.deciding.dataflow.fileindex import Binding, FileIndex
from porttool.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Put:
    """A place that gives `receiver` an attribute; `name` is None where it is computed.

    `value` is a binding where the value is taken out of something by an assignment.
    """

    receiver: ast.expr
    name: str | None
    value: ast.expr | Binding
    node: ast.expr
    file: FileIndex


def puts_in(file: FileIndex) -> Iterator[Put]:
    """Yield the places of a file that give an attribute by a call, or through a dictionary."""
    for word in ("setattr", "__setattr__", "add_module", "register_module"):
        for call in file.calls.get(word, ()):
            inside = [call.func.value] if isinstance(call.func, ast.Attribute) else []
            # `object.__setattr__(x, "a", v)` and `builtins.setattr(...)` are told by their number.
            arguments = call.args if len(call.args) == 3 else [*inside, *call.args]
            if len(arguments) == 3:
                receiver, name, value = arguments
                yield Put(receiver, _constant(name), value, call, file)
    for binding in file.items:
        target = binding.target
        if isinstance(target, ast.Subscript) and binding.value is not None:
            owner = _whose(target.value)
            if owner is not None:
                yield Put(owner, _constant(target.slice), binding, target, file)
    yield from _updates(file)
    for word in ("replace", "_replace", "evolve"):
        for call in file.calls.get(word, ()):
            own = call.func.value if isinstance(call.func, ast.Attribute) else None
            one = call.args[0] if call.args else own
            for keyword in call.keywords:
                if one is not None and keyword.arg is not None:
                    yield Put(one, keyword.arg, keyword.value, call, file)


def _updates(file: FileIndex) -> Iterator[Put]:
    for call in file.calls.get("update", ()):
        owner = _whose(call.func.value) if isinstance(call.func, ast.Attribute) else None
        if owner is None:
            continue
        for keyword in call.keywords:
            yield Put(owner, keyword.arg, keyword.value, call, file)
        for given in call.args:
            if isinstance(given, ast.Dict):
                for key, value in zip(given.keys, given.values, strict=True):
                    yield Put(owner, _constant(key), value, call, file)
            else:
                yield Put(owner, None, given, call, file)


def _constant(node: ast.expr | None) -> str | None:
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, str) else None


def _whose(node: ast.expr) -> ast.expr | None:
    """Return the object whose attributes a dictionary holds: of `vars(x)` and `x.__dict__`, `x`.

    `globals()` is returned as it is: it holds the names of its own file.
    """
    if isinstance(node, ast.Attribute) and node.attr == "__dict__":
        return node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id == "vars" and len(node.args) == 1:
            return node.args[0]
        if is_globals(node):
            return node
    return None


def is_globals(node: ast.expr) -> bool:
    """Tell whether an expression is `globals()`."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "globals"
        and not node.args
    )
