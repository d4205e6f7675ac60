"""Seeds whose target main does not assign any more: renamed, set by somebody else, or deleted."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from porttool.deciding.constructors import bindings_of, last_name, parsed_expression
from porttool.deciding.dataflow.fileindex import Binding, FileIndex
from porttool.learning.lesson import Seed
from porttool.source.syntax import same_tree


@dataclass(frozen=True)
class Lost:
    """What speaks against main having deleted what a seed wraps.

    `made` are the places that may construct it now, under another name.
    """

    why: str
    made: tuple[ast.Call, ...] = ()


def lost(now: FileIndex, before: FileIndex | None, seed: Seed, alike: int) -> Lost | None:
    """Tell why a seed may live on in a file without its target; None when main deleted it.

    It may have another name now: then the constructor is there as often as it was before. Or
    somebody else sets it: then it is still read.
    """
    constructor = parsed_expression(seed.constructor)
    made = _occurrences(now, constructor)
    expected = len(_occurrences(before, constructor)) - alike if before is not None else 0
    if made and len(made) > max(expected, 0):
        lines = ", ".join(str(node.lineno) for node in made)
        why = f"main still constructs `{seed.constructor}` ({now.path}:{lines})"
        return Lost(why, tuple(node for node in made if not _was_there(now, node, before)))
    target = parsed_expression(seed.target) if seed.target else None
    if isinstance(target, ast.Attribute):
        reads = [n for n in now.attributes.get(target.attr, ()) if same_tree(n, target)]
        if reads:
            return Lost(f"main still reads `{seed.target}` ({now.path}:{reads[0].lineno})")
    return None


def _occurrences(file: FileIndex, constructor: ast.expr) -> list[ast.Call]:
    """Return the calls of a file that are the constructor to the letter."""
    if not isinstance(constructor, ast.Call):
        return []
    last = last_name(constructor.func)
    return [call for call in file.calls.get(last, ()) if same_tree(call, constructor)]


def assigned(file: FileIndex, node: ast.AST) -> Binding | None:
    """Return the assignment whose value an expression is a part of."""
    here = node
    while here in file.above and not isinstance(here, ast.stmt):
        here = file.above[here]
    if not isinstance(here, ast.Assign | ast.AnnAssign):
        return None
    targets = here.targets if isinstance(here, ast.Assign) else [here.target]
    found = [b for target in targets for b in bindings_of(file, ast.unparse(target))]
    return next((binding for binding in found if binding.node is here), None)


def _was_there(now: FileIndex, node: ast.Call, before: FileIndex | None) -> bool:
    binding = assigned(now, node)
    if binding is None or before is None:
        return False
    return bool(bindings_of(before, ast.unparse(binding.target)))
