"""Where an added statement goes on onto, when nothing there constructs what it re-binds.

`model = torch.compile(model)` at the top of a function wraps what the function is given, and
`agent.net = torch.compile(agent.net)` what another one has built. Such a statement is found again
by its function and by the statement that it stands behind.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from porttool.deciding.constructors import bindings_of, parsed_expression
from porttool.deciding.dataflow.fileindex import FileIndex, Function, Scope
from porttool.deciding.lost_seeds import Lost
from porttool.deciding.surroundings import own_statements
from porttool.frozen import dataclass
from porttool.learning.lesson import Seed
from porttool.source.syntax import same_tree


@dataclass(frozen=True)
class Anchor:
    """The statement behind which an added one goes, or in front of it (`ahead`).

    `mention` is an expression that the added statement is about. `doubt` says why the place is not
    the experiment's own, "" where it is.
    """

    scope: Scope
    statement: ast.stmt
    mention: ast.expr
    ahead: bool = False
    doubt: str = ""


def binds_nothing_itself(before: FileIndex, seed: Seed) -> bool:
    """Tell whether the seed's function only re-binds its target: it was given what it wraps."""
    target = _about(seed)
    if not target:
        return False
    scopes = [scope for scope in _functions(before) if scope.qualname == seed.scope]
    here = (b for b in bindings_of(before, target) if b.scope.home in scopes)
    return bool(scopes) and not any(_is_built(binding.value, target) for binding in here)


def _about(seed: Seed) -> str:
    """Return the name or attribute that an added statement is about, "" for anything else."""
    text = seed.target or seed.constructor
    named = isinstance(parsed_expression(text), ast.Name | ast.Attribute)
    return text if named and seed.kind in ("rebind", "statement") else ""


def lost_statement(
    now: FileIndex | None, before: FileIndex | None, seed: Seed
) -> Lost | Seed | None:
    """Return what became of a statement without a place: a reason to ask, None for nothing.

    Or the seed as one of what its class or function constructed before the experiment: that may
    have another name now.
    """
    target = _about(seed)
    if before is None or not target:
        return None
    if now is not None and seed.scope and binds_nothing_itself(before, seed):
        nodes = [scope.node for scope in _functions(now) if scope.qualname == seed.scope]
        lines = [node.lineno for node in nodes if isinstance(node, Function)]
        if lines:
            name = target.partition(".")[0]
            return Lost(f"main has no `{name}` in it any more ({now.path}:{lines[0]})")
    values = [binding.value for binding in bindings_of(before, target)]
    built = [value for value in values if _is_built(value, target)]
    if len(built) != 1 or built[0] is None:
        return None
    return replace(seed, constructor=ast.unparse(built[0]))


def anchors(file: FileIndex, seed: Seed, before: FileIndex) -> Iterator[Anchor]:
    """Yield where the statement may go: in its function, else in functions that main gained."""
    scopes = [scope for scope in _functions(file) if scope.qualname == seed.scope]
    known = {scope.qualname for scope in _functions(before)}
    others = [scope for scope in _functions(file) if scope.qualname not in known]
    for scope in scopes or others:
        mention = next(_mentions(file, scope, _about(seed)), None)
        if mention is not None and _knows(scope, _about(seed)):
            yield _anchor(scope, seed, mention)


def _functions(file: FileIndex) -> list[Scope]:
    return [scope for scope in file.scopes.values() if scope.kind in ("function", "module")]


def _is_built(value: ast.expr | None, target: str) -> bool:
    """Tell whether an assigned value is anything but the target's own (`net = net.to(device)`)."""
    return value is not None and not any(
        isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) == target
        for node in ast.walk(value)
    )


def _mentions(file: FileIndex, scope: Scope, target: str) -> Iterator[ast.expr]:
    """Yield the reads of a target in a scope, then those of what it is an attribute of."""
    parsed = parsed_expression(target)
    while True:
        last = parsed.attr if isinstance(parsed, ast.Attribute) else getattr(parsed, "id", "")
        nodes: list[ast.Name] | list[ast.Attribute]
        nodes = (
            file.attributes.get(last, [])
            if isinstance(parsed, ast.Attribute)
            else file.names.get(last, [])
        )
        for node in nodes:
            if same_tree(node, parsed) and _scope_of(file, node) is scope:
                yield node
        if not isinstance(parsed, ast.Attribute):
            return
        parsed = parsed.value


def _scope_of(file: FileIndex, node: ast.expr) -> Scope:
    root: ast.expr = node
    while isinstance(root, ast.Attribute):
        root = root.value
    return file.scope_at.get(root, file.module).home


def _knows(scope: Scope, target: str) -> bool:
    """Tell whether the name that a target starts with is bound where the statement would run."""
    name = target.partition(".")[0]
    here: Scope | None = scope
    while here is not None:
        if name in here.bindings and here.kind != "class":
            return True
        # A bare name that is bound further out is another variable inside.
        here = here.above if "." in target else None
    return False


def _anchor(scope: Scope, seed: Seed, mention: ast.expr) -> Anchor:
    body: list[ast.stmt] = getattr(scope.node, "body", [])
    first = body[0]
    docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    top = Anchor(scope, first, mention, ahead=not docstring)
    if seed.follows is None:
        if seed.leads:
            return top
    else:
        follows = ast.parse(seed.follows).body[0]
        if isinstance(follows, ast.Expr) and isinstance(follows.value, ast.Constant):
            return top  # a docstring, changed or gone
        found = [one for one in own_statements(scope.node) if same_tree(one, follows)]
        if len(found) == 1:
            return Anchor(scope, found[0], mention)
    name = _about(seed).partition(".")[0]
    bindings = [b for b in scope.bindings.get(name, []) if b.kind == "assign"]
    lines = {statement.lineno: statement for statement in body}
    built = [lines[b.line] for b in bindings if b.line in lines]
    doubt = f"what stood in front of `{(seed.statement or '').strip()}` is not there any more"
    if built:
        return Anchor(scope, built[-1], mention, doubt=doubt)
    return Anchor(scope, first, mention, ahead=not docstring, doubt=doubt)
