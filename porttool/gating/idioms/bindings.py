"""What binds a name or an attribute inside a function or a class, and what is read from it."""

from __future__ import annotations

import ast
from functools import lru_cache

from porttool.gating.idioms.lookup import (
    qualified,
    returned,
    simple_assignment,
    straight_statements,
)
from porttool.source.nodes import KEPT, nodes_of, walk
from porttool.source.scopes import Function, own_nodes, parameters
from porttool.source.syntax import Source, parents, qualname

_MAKERS = (
    "model_validate",
    "model_validate_json",
    "model_construct",
    "parse_obj",
    "parse_raw",
    "parse_file",
    "construct",
)


def local_binding(function: Function, name: str, line: int) -> ast.stmt | None:
    """Return the assignment that gives a local its value at a line; None where several may."""
    homes = _homes(function).get(name, [])
    if None in homes or not homes:
        return None
    before = [s for s in homes if s is not None and s.lineno < line]
    if not before or not isinstance(before[-1], ast.Assign | ast.AnnAssign):
        return None
    return before[-1]


@lru_cache(maxsize=KEPT)
def _homes(function: Function) -> dict[str, list[ast.stmt | None]]:
    """Map each local to the statements that store it; None stands for one that may not run."""
    straight: dict[ast.AST, ast.stmt] = {}
    for statement in straight_statements(function.body):
        for node in own_nodes([statement]):
            straight.setdefault(node, statement)
    homes: dict[str, list[ast.stmt | None]] = {}
    for node in own_nodes(function.body):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            homes.setdefault(node.id, []).append(straight.get(node))
    return homes


def member_assignments(owner: ast.ClassDef, name: str) -> list[tuple[Function, ast.stmt]]:
    """Return the statements of a class's methods that assign `self.NAME`, with their methods."""
    found = []
    for method in owner.body:
        if not isinstance(method, Function) or not parameters(method):
            continue
        own = parameters(method)[0].arg
        for node in own_nodes(method.body):
            if (
                isinstance(node, ast.Attribute)
                and node.attr == name
                and not isinstance(node.ctx, ast.Load)
                and isinstance(node.value, ast.Name)
                and node.value.id == own
            ):
                statement = _statement_of(method, node)
                found.append((method, statement))
    return found


def _statement_of(method: Function, node: ast.AST) -> ast.stmt:
    """Return the innermost statement around a node of a method."""
    around = [part for part in walk(method) if isinstance(part, ast.stmt) and node in walk(part)]
    return max(around, key=lambda part: (part.lineno, part.col_offset))


def reads_of(function: Function, name: str) -> tuple[set[str], bool]:
    """Return the attributes read of a local, and whether it is indexed by texts as well."""
    attributes: set[str] = set()
    items = False
    for node in walk(function):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == name and isinstance(node.ctx, ast.Load):
                attributes.add(node.attr)
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            key = node.slice
            if node.value.id == name and isinstance(key, ast.Constant):
                items |= isinstance(key.value, str)
    return attributes, items


def scope_name(source: Source, statement: ast.stmt) -> str:
    """Return the dotted name of the function or class that a statement stands in, "" for none."""
    above = parents(source.tree)
    here: ast.AST | None = statement
    while here is not None and not isinstance(here, Function | ast.ClassDef):
        here = above.get(here)
    return qualname(here, above) if here is not None else ""


def makes_instance(node: ast.ClassDef, method: str) -> bool:
    """Tell whether a class method gives back an instance."""
    if method in _MAKERS:
        return True
    for part in node.body:
        if isinstance(part, Function) and part.name == method:
            by_annotation = part.returns is not None and ast.unparse(part.returns).strip("'\"") in (
                node.name,
                "Self",
                "typing.Self",
            )
            built = [r.func for r in returned(part) if isinstance(r, ast.Call)]
            names = {ast.unparse(func) for func in built}
            return by_annotation or (bool(built) and names <= {"cls", node.name})
    return False


def dataclasses_parsed(source: Source, receiver: ast.expr) -> list[ast.expr]:
    """Return the classes that an HfArgumentParser was made with."""
    if isinstance(receiver, ast.Name):
        for node in nodes_of(source.tree):
            target, value, _ = (
                simple_assignment(node) if isinstance(node, ast.stmt) else (None,) * 3
            )
            if isinstance(target, ast.Name) and target.id == receiver.id and value is not None:
                receiver = value
                break
    if not isinstance(receiver, ast.Call) or not receiver.args:
        return []
    if qualified(source, receiver.func).rpartition(".")[2] != "HfArgumentParser":
        return []
    first = receiver.args[0]
    return first.elts if isinstance(first, ast.Tuple | ast.List) else [first]


def hydra_main(source: Source, function: Function) -> ast.Call | None:
    """Return the `@hydra.main(...)` of a function."""
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and qualified(source, decorator.func) == "hydra.main":
            return decorator
    return None
