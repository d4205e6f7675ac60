"""Where in a function a guard can stand: behind what builds an object, before what captures it.

An optimizer that takes `parameters()` and calls that set a module up in place belong to building.
Anything else that is handed the object, or `self`, might keep it, and has to find it wrapped.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Literal

from porttool.frozen import dataclass
from porttool.source.nodes import children, walk
from porttool.source.scopes import Function, parameters

# Methods of a module that return the module itself.
CHAINABLE = frozenset(
    {
        "apply",
        "bfloat16",
        "cpu",
        "cuda",
        "double",
        "eval",
        "float",
        "half",
        "requires_grad_",
        "to",
        "train",
    }
)
# Methods that keep no reference to it either.
_IN_PLACE = CHAINABLE | {"load_state_dict", "named_parameters", "parameters", "reset_parameters"}

Block = list[ast.stmt]


@dataclass(frozen=True)
class Room:
    """The places in a block where a guard may stand, as the number of statements in front of it."""

    best: int
    last: int


def block_of(statement: ast.stmt, above: Mapping[ast.AST, ast.AST]) -> Block:
    """Return the list of statements that a statement is in."""
    owner = above[statement]
    for name in ("body", "orelse", "finalbody"):
        block = getattr(owner, name, None)
        if isinstance(block, list) and statement in block:
            return block
    raise ValueError(f"line {statement.lineno} is in no block")


def common_block(
    statements: list[ast.stmt], above: Mapping[ast.AST, ast.AST]
) -> tuple[Block, list[int]]:
    """Return the innermost block around all statements, and where in it each of them is."""
    chains = [list(_outward(statement, above)) for statement in statements]
    for block, _ in chains[0]:
        found = [index for chain in chains for other, index in chain if other is block]
        if len(found) == len(chains):
            return block, found
    raise ValueError("the statements are in no common block")


def _outward(statement: ast.stmt, above: Mapping[ast.AST, ast.AST]) -> Iterator[tuple[Block, int]]:
    """Yield the blocks around a statement with its place, up to the function's own."""
    here: ast.AST = statement
    while not isinstance(here, Function | ast.ClassDef | ast.Module):
        if isinstance(here, ast.stmt):
            block = block_of(here, above)
            yield block, block.index(here)
        here = above[here]


def leave_loops(statement: ast.stmt, above: Mapping[ast.AST, ast.AST]) -> ast.stmt:
    """Return the outermost loop around a statement, or the statement where there is none."""
    found = statement
    here: ast.AST = statement
    while not isinstance(here, Function | ast.ClassDef | ast.Module):
        if isinstance(here, ast.For | ast.AsyncFor | ast.While):
            found = here
        here = above[here]
    return found


def room_for_guard(block: Block, built_at: int, target: str, owner: ast.ClassDef | None) -> Room:
    """Return where a guard for `target` may stand in a block that builds it at an index."""
    best = built_at + 1
    for index in range(built_at + 1, len(block)):
        use = use_of(block[index], target, owner)
        if use == "capture":
            return Room(best, index)
        if use == "build":
            best = index + 1
    return Room(best, len(block))


def use_of(
    statement: ast.stmt, target: str, owner: ast.ClassDef | None
) -> Literal["none", "build", "capture"]:
    """Tell what a statement does with the object at `target`."""
    above = {child: node for node in walk(statement) for child in children(node)}
    mentions = [node for node in walk(statement) if _is(node, target)]
    owner_name = target.partition(".")[0] if "." in target else None
    if owner_name is not None and _hands_over(statement, owner_name, target, owner, above):
        return "capture"
    if not mentions:
        return "none"
    if any(isinstance(node, Function | ast.Lambda | ast.ClassDef) for node in walk(statement)):
        return "capture"
    carriers: set[str] = set()  # loop variables that stand for elements
    for mention in mentions:
        if not isinstance(getattr(mention, "ctx", None), ast.Load):
            continue
        names = _loop_names(mention, above)
        if names is None and not _in_place(mention, above):
            return "capture"
        carriers |= names or set()
    for node in walk(statement):
        if (
            isinstance(node, ast.Name)
            and node.id in carriers
            and isinstance(node.ctx, ast.Load)
            and not _in_place(node, above)
        ):
            return "capture"
    return "build"


def _is(node: ast.AST, target: str) -> bool:
    return isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) == target


def _in_place(node: ast.AST, above: Mapping[ast.AST, ast.AST]) -> bool:
    """Tell whether the object, or an item of it, only has one of its own methods called."""
    holder = above.get(node)
    if isinstance(holder, ast.Subscript) and holder.value is node:
        return _in_place(holder, above)
    return (
        isinstance(holder, ast.Attribute) and holder.attr in _IN_PLACE and _is_called(holder, above)
    )


def _loop_names(mention: ast.AST, above: Mapping[ast.AST, ast.AST]) -> set[str] | None:
    """Return the loop variables of a loop over the object; None when it is not looped over."""
    here = mention
    while True:
        holder = above.get(here)
        if isinstance(holder, ast.For | ast.comprehension) and holder.iter is here:
            return {node.id for node in walk(holder.target) if isinstance(node, ast.Name)}
        through = (
            isinstance(holder, ast.Call)
            and isinstance(holder.func, ast.Name)
            and holder.func.id in ("enumerate", "zip", "reversed")
        ) or (isinstance(holder, ast.Attribute) and holder.attr in ("values", "items"))
        through = through or (
            isinstance(holder, ast.Call) and holder.func is here and here is not mention
        )
        if not through or holder is None:
            return None
        here = holder


def _hands_over(
    statement: ast.stmt,
    self_name: str,
    target: str,
    owner: ast.ClassDef | None,
    above: Mapping[ast.AST, ast.AST],
) -> bool:
    """Tell whether `self` is passed on, or a method is called that gets at the object."""
    for node in walk(statement):
        if not isinstance(node, ast.Name) or node.id != self_name:
            continue
        holder = above.get(node)
        if not isinstance(holder, ast.Attribute):
            return True
        if _is_called(holder, above) and (
            owner is None or _reaches(owner, holder.attr, target, set())
        ):
            return True
    return False


def _is_called(node: ast.AST, above: Mapping[ast.AST, ast.AST]) -> bool:
    holder = above.get(node)
    return isinstance(holder, ast.Call) and holder.func is node


def _reaches(owner: ast.ClassDef, method: str, target: str, seen: set[str]) -> bool:
    """Tell whether a method of a class may touch an attribute; a method not seen here may."""
    if method in seen:
        return False
    seen.add(method)
    found = [node for node in owner.body if isinstance(node, Function) and node.name == method]
    if not found:
        return True
    attribute = target.split(".", 1)[1]
    for function in found:
        arguments = parameters(function)
        own = arguments[0].arg if arguments else ""
        wanted = f"{own}.{attribute}"
        above = {c: n for n in walk(function) for c in children(n)}
        for node in walk(function):
            if _is(node, wanted):
                return True
            if not isinstance(node, ast.Name) or node.id != own:
                continue
            holder = above.get(node)
            if not isinstance(holder, ast.Attribute):
                return True
            if _is_called(holder, above) and _reaches(owner, holder.attr, target, seen):
                return True
    return False


def used_between(
    block: ast.AST, built: ast.stmt, behind: ast.stmt, target: str | None
) -> int | None:
    """Return the first line behind `built`, up to `behind`, that reads or binds a target.

    What stands there takes the plain object, and would get the wrapped one from a guard ahead.
    """
    for statement in walk(block):
        if isinstance(statement, ast.stmt) and built.lineno < statement.lineno <= behind.lineno:
            exprs = (node for node in walk(statement) if isinstance(node, ast.expr))
            if any(ast.unparse(node) == target for node in exprs):
                return statement.lineno
    return None
