"""The nodes of syntax trees, walked in the order of `ast.walk` but several times as fast.

Analysis walks every tree many times over, and most of that time goes into fields that can hold no
node: names, positions, and the mark that tells a read of a name from a write (`ctx`). They are left
out here; `ctx` is still found on the node itself.
"""

from __future__ import annotations

import ast
from functools import lru_cache

KEPT = 256  # files of which trees, parents and names are remembered: those of one port
_NO_NODES = {"arg", "asname", "attr", "ctx", "id", "kind", "level", "module", "type_comment"}
_LEAVES = (ast.Constant, ast.Global, ast.Nonlocal)
_fields: dict[type[ast.AST], tuple[str, ...]] = {}


def _fields_of(kind: type[ast.AST]) -> tuple[str, ...]:
    names = () if kind in _LEAVES else tuple(name for name in kind._fields if name not in _NO_NODES)
    _fields[kind] = names
    return names


def children(node: ast.AST) -> list[ast.AST]:
    """Return the nodes directly below one, in the order of the text's grammar."""
    found: list[ast.AST] = []
    kind = node.__class__
    names = _fields.get(kind)
    for name in _fields_of(kind) if names is None else names:
        value = getattr(node, name, None)
        if value.__class__ is list:
            found += [item for item in value if isinstance(item, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def walk(tree: ast.AST) -> list[ast.AST]:
    """Return a node and every node below it, level by level."""
    found = [tree]
    add = found.append
    known = _fields.get
    for node in found:
        kind = node.__class__
        names = known(kind)
        for name in _fields_of(kind) if names is None else names:
            value = getattr(node, name, None)
            if value.__class__ is list:
                for item in value:
                    if isinstance(item, ast.AST):
                        add(item)
            elif isinstance(value, ast.AST):
                add(value)
    return found


@lru_cache(maxsize=KEPT)
def nodes_of(tree: ast.Module) -> tuple[ast.AST, ...]:
    """Return what `walk` gives for a whole file; trees are not changed once parsed.

    Operators, of which the parser makes one object each for all trees, stand in it once.
    """
    return (tree, *holders(tree))


@lru_cache(maxsize=KEPT)
def holders(tree: ast.AST) -> dict[ast.AST, ast.AST]:
    """Map every node below a node to the node that holds it, level by level; not to be changed."""
    above: dict[ast.AST, ast.AST] = {}
    found = [tree]
    add = found.append
    known = _fields.get
    for node in found:
        kind = node.__class__
        names = known(kind)
        for name in _fields_of(kind) if names is None else names:
            value = getattr(node, name, None)
            if value.__class__ is list:
                for item in value:
                    if isinstance(item, ast.AST):
                        above[item] = node
                        add(item)
            elif isinstance(value, ast.AST):
                above[value] = node
                add(value)
    return above
