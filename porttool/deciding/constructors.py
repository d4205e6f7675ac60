"""Constructors and targets as the experiment wrote them, compared with what stands on onto."""

from __future__ import annotations

import ast

from porttool.deciding.dataflow.fileindex import Binding, FileIndex
from porttool.deciding.dataflow.outside import SAME_OBJECT
from porttool.source.syntax import same_tree


def parsed_expression(text: str) -> ast.expr:
    """Return the tree of an expression that stands on its own."""
    return ast.parse(text.strip(), mode="eval").body


def constructor_matches(constructor: ast.expr, value: ast.expr) -> list[tuple[ast.expr, str]]:
    """Return the places in a value that are the constructor, or else those that are near it."""
    found: list[tuple[ast.expr, str]] = []
    covered: set[ast.AST] = set()
    for node in ast.walk(value):
        if node in covered or not isinstance(node, ast.expr):
            continue
        near = nearness(constructor, node)
        if near is not None:
            found.append((node, near))
            if near:
                # `build(c).to(d)` is near, and so would be the `build(c)` inside of it.
                covered.update(ast.walk(node))
    exact = [match for match in found if not match[1]]
    return sorted(exact or found, key=lambda match: (match[0].lineno, match[0].col_offset))


def nearness(constructor: ast.expr, node: ast.AST) -> str | None:
    """Compare a node with the constructor: "" the same, words for what differs, None another."""
    if same_tree(constructor, node):
        return ""
    if not (isinstance(constructor, ast.Call) and isinstance(node, ast.Call)):
        return None
    left, right = _making(constructor), _making(node)
    if left is not constructor or right is not node:
        near = nearness(left, right)
        return near or (near if near is None else "main sets it up in another way")
    if last_name(constructor.func) != last_name(node.func):
        return None
    pairs = ((constructor.args, node.args), (constructor.keywords, node.keywords))
    same = all(
        len(mine) == len(theirs) and all(map(same_tree, mine, theirs)) for mine, theirs in pairs
    )
    return "" if same else "main constructs it with other arguments"


def _making(call: ast.Call) -> ast.expr:
    """Return the call that makes the object, without the `.to(device)` and the like behind it."""
    made: ast.expr = call
    while (
        isinstance(made, ast.Call)
        and isinstance(made.func, ast.Attribute)
        and made.func.attr in SAME_OBJECT
    ):
        made = made.func.value
    return made


def last_name(node: ast.expr) -> str:
    """Return the last name of what is called, "?" where it has none."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "?")


def bindings_of(file: FileIndex, target: str) -> list[Binding]:
    """Return the assignments to a target as it is written (`self.critics`, `net`)."""
    parsed = parsed_expression(target)
    if isinstance(parsed, ast.Attribute):
        found = [b for b in file.stores.get(parsed.attr, []) if ast.unparse(b.target) == target]
    elif isinstance(parsed, ast.Name):
        scopes = [scope for scope in file.scopes.values() if scope.kind != "comprehension"]
        found = [b for scope in scopes for b in scope.bindings.get(parsed.id, [])]
    else:
        found = [b for b in file.items if ast.unparse(b.target) == target]
    return [b for b in found if b.kind == "assign" and b.value is not None]


def names_target(value: ast.expr, target: str) -> bool:
    """Tell whether an expression reads a target, as it is written."""
    return any(
        isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) == target
        for node in ast.walk(value)
    )
