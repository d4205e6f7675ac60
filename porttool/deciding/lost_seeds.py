"""Seeds whose target main does not assign any more: renamed, set by somebody else, or deleted."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

from porttool.deciding.constructors import bindings_of, last_name, nearness, parsed_expression
from porttool.deciding.dataflow.fileindex import Binding, FileIndex
from porttool.frozen import dataclass
from porttool.learning.lesson import Seed
from porttool.source.syntax import dump, same_tree


@dataclass(frozen=True)
class Lost:
    """What speaks against main having deleted what a seed wraps.

    `made` are the places that may construct it now, under another name, in their files.
    """

    why: str
    made: tuple[tuple[FileIndex, ast.Call], ...] = ()


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
        new = [node for node in made if not _was_there(now, node, before, constructor)]
        if not new and seed.scope not in {scope.qualname for scope in now.scopes.values()}:
            new = made  # what it was called in has another name now
        return Lost(why, tuple((now, node) for node in new))
    target = parsed_expression(seed.target) if seed.target else None
    if isinstance(target, ast.Attribute):
        reads = [n for n in now.attributes.get(target.attr, ()) if same_tree(n, target)]
        if reads:
            given = list(_returned(now, seed, constructor))
            if given:
                at = ", ".join(str(call.lineno) for call in given)
                why = f"`{seed.target}` calls a method now ({now.path}:{at})"
                return Lost(why, tuple((now, call) for call in given))
            return Lost(f"main still reads `{seed.target}` ({now.path}:{reads[0].lineno})")
    return None


def _occurrences(file: FileIndex, constructor: ast.expr) -> list[ast.Call]:
    """Return the calls of a file that are the constructor to the letter."""
    if not isinstance(constructor, ast.Call):
        return []
    last = last_name(constructor.func)
    return [call for call in file.calls.get(last, ()) if same_tree(call, constructor)]


def renamed(
    now: FileIndex, before: FileIndex | None, seed: Seed
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield the functions that a decorated one may be now, each with the scope around it."""
    qualname = ".".join(filter(None, (seed.scope, seed.target)))
    was, here = (_defined(file) if file is not None else {} for file in (before, now))
    old = was.get(qualname)
    if old is None or qualname in here:
        return
    for name, node in here.items():
        if name not in was and dump(ast.Module(node.body, [])) == dump(ast.Module(old.body, [])):
            yield name.rpartition(".")[0], node


def _defined(file: FileIndex) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    scopes = file.scopes.values()
    return {one.qualname: one.node for one in scopes if isinstance(one.node, functions)}


def _returned(file: FileIndex, seed: Seed, constructor: ast.expr) -> Iterator[ast.Call]:
    """Yield the calls like the constructor that a method of the attribute's name returns."""
    name = f"{seed.scope.rpartition('.')[0]}.{(seed.target or '').rpartition('.')[2]}"
    for scope in file.scopes.values():
        for value in scope.returns if scope.qualname == name else ():
            if isinstance(value, ast.Call) and nearness(constructor, value) is not None:
                yield value


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


def made_elsewhere(
    now: Iterable[FileIndex], before: Mapping[str, FileIndex], seed: Seed
) -> Lost | None:
    """Tell where other files construct what a seed wraps that did not before the experiment."""
    constructor = parsed_expression(seed.constructor)
    made: list[tuple[FileIndex, ast.Call]] = []
    for file in now:
        found = _occurrences(file, constructor)
        old = before.get(file.path)
        if found and (old is None or len(found) > len(_occurrences(old, constructor))):
            made += [(file, node) for node in found if not _was_there(file, node, old, constructor)]
    if not made:
        return None
    places = ", ".join(f"{file.path}:{node.lineno}" for file, node in made)
    return Lost(f"main constructs `{seed.constructor}` elsewhere now ({places})", tuple(made))


def _was_there(
    now: FileIndex, node: ast.Call, before: FileIndex | None, constructor: ast.expr
) -> bool:
    """Tell whether a place constructed the same before, for the same target."""
    binding = assigned(now, node)
    if binding is None or before is None:
        return False
    old = bindings_of(before, ast.unparse(binding.target))
    made = _occurrences(before, constructor)
    return any(b.value is not None and _is_in(before, call, b.value) for b in old for call in made)


def _is_in(file: FileIndex, node: ast.AST, value: ast.expr) -> bool:
    here: ast.AST | None = node
    while here is not None and here is not value:
        here = file.above.get(here)
    return here is value
