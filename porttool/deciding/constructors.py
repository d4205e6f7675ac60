"""Constructors and targets as the experiment wrote them, compared with what stands on onto."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from porttool.deciding.dataflow.fileindex import Binding, FileIndex, Scope
from porttool.deciding.dataflow.outside import SAME_OBJECT
from porttool.deciding.surroundings import own_expressions, own_statements
from porttool.learning.lesson import Seed
from porttool.learning.spelling import respelled
from porttool.source.syntax import same_tree, text_of


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


_CONTAINERS = (
    *(ast.List, ast.ListComp, ast.Tuple, ast.Set, ast.SetComp, ast.GeneratorExp),
    *(ast.Dict, ast.DictComp),
)
_MAKE_CONTAINERS = ("list", "tuple", "set", "dict", "ModuleList", "ModuleDict", "OrderedDict")


def is_empty_container(value: ast.expr) -> bool:
    """Tell whether an expression makes a container with nothing in it."""
    if isinstance(value, ast.List):
        return not value.elts
    if isinstance(value, ast.Dict):
        return not value.keys
    called = isinstance(value, ast.Call) and not value.args and not value.keywords
    return called and last_name(value.func) in ("list", "dict")  # type: ignore[attr-defined]


def filling(file: FileIndex, target: str, scope: Scope) -> Iterator[tuple[ast.expr, ast.stmt]]:
    """Yield what a scope puts into a container one by one, with the statements that do it."""
    for call in file.calls.get("append", ()):
        function = call.func
        here = isinstance(function, ast.Attribute) and ast.unparse(function.value) == target
        if here and len(call.args) == 1 and file.scope_at[call].home is scope:
            statement = file.above[call]
            if isinstance(statement, ast.Expr):
                yield call.args[0], statement
    for store in file.items:
        held = store.target.value if isinstance(store.target, ast.Subscript) else None
        if held is None or store.value is None or store.scope.home is not scope:
            continue
        if ast.unparse(held) == target and isinstance(store.node, ast.Assign):
            yield store.value, store.node


def argued(
    scope: Scope, constructor: ast.expr, before: FileIndex | None
) -> list[tuple[ast.stmt, ast.expr, str]]:
    """Return what a scope's statements hold of a constructor, else what main put in its place.

    That is near it, and the function had nothing like it before the experiment.
    """
    found = _near_in(scope, constructor)
    exact = [one for one in found if not one[2]]
    scopes = before.scopes.values() if before is not None else ()
    was = (one for one in scopes if one.qualname == scope.qualname)
    old = {ast.unparse(node) for one in was for _, node, _ in _near_in(one, constructor)}
    return exact or [one for one in found if ast.unparse(one[1]) not in old]


def _near_in(scope: Scope, constructor: ast.expr) -> list[tuple[ast.stmt, ast.expr, str]]:
    return [
        (statement, node, near)
        for statement in own_statements(scope.node)
        for node in own_expressions(statement)
        if (near := nearness(constructor, node)) is not None
    ]


def binds(statement: ast.stmt, target: str) -> bool:
    """Tell whether a statement assigns to a target, as it is written."""
    return isinstance(statement, ast.Assign) and target in map(ast.unparse, statement.targets)


def whole_value(file: FileIndex, node: ast.expr, value: ast.expr) -> ast.expr:
    """Return all of the object that a constructor helps to make: itself, or what is around it.

    A container is not made out of its elements, and what stands for an object where there is none
    (`net if cfg.on else None`) is no part of it.
    """
    whole = here = node
    while here is not value:
        above = file.above[here]
        if isinstance(above, ast.keyword):
            above = file.above[above]
        if not isinstance(above, ast.expr):
            return node  # in a part of a comprehension that makes no elements
        if not _holds(above, here):
            whole = above
        here = above
    return whole


def _holds(above: ast.expr, here: ast.expr) -> bool:
    """Tell whether an expression gives what is inside of it, or a container of that."""
    if isinstance(above, ast.IfExp):
        other = above.orelse if above.body is here else above.body
        return isinstance(other, ast.Constant) and other.value is None
    if isinstance(above, ast.Call):
        return above.func is not here and last_name(above.func) in _MAKE_CONTAINERS
    return isinstance(above, (*_CONTAINERS, ast.Starred, ast.NamedExpr))


def otherwise(file: FileIndex, value: ast.expr) -> str:
    """Say that main constructs what an experiment wraps in another way, and how."""
    text = " ".join(text_of(file.source, value).split())
    return f"main constructs it differently: `{text}`"


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


def same_container(seed: Seed, before: FileIndex, value: ast.expr) -> bool:
    """Tell whether what an added statement goes over is the container that it was made for."""
    if not seed.call.startswith(("[", "{", "list(")):
        return True
    known = [_container(binding.value) for binding in bindings_of(before, seed.target or "")]
    return not known or _container(value) in known


def _container(value: ast.expr | None) -> str:
    """Return a word for the kind of container that an expression makes, as far as it shows."""
    if isinstance(value, ast.ListComp | ast.List):
        return "list"
    if isinstance(value, ast.DictComp | ast.Dict):
        return "dict"
    return last_name(value.func) if isinstance(value, ast.Call) else type(value).__name__


def whole_seed(seed: Seed) -> Seed:
    """Return a seed with all that an added re-binding makes of its target as the call.

    `nets = [torch.compile(n) for n in nets]` wraps `n`, but it is `nets` that is found on onto:
    the call becomes `[torch.compile(n) for n in $X]`.
    """
    added = ast.parse(seed.statement).body[0] if seed.kind == "rebind" and seed.statement else None
    if not isinstance(added, ast.Assign) or seed.target is None:
        return seed
    made = ast.unparse(added.value)
    for origin, written in seed.spelled:
        made = respelled(made, written, origin)
    if ast.unparse(parsed_expression(seed.call.replace("$X", seed.target))) == made:
        return seed
    call = re.sub(rf"(?<![\w.]){re.escape(seed.target)}\b", "$X", made)
    return replace(seed, constructor=seed.target, call=call) if "$X" in call else seed
