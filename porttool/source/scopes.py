"""Which names a piece of code binds in its own scope, and which it mentions at all."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from porttool.source.nodes import children, nodes_of, walk

Function = ast.FunctionDef | ast.AsyncFunctionDef
_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# The kinds of nodes that can bind a name; most nodes are of none of them.
BINDING = frozenset(
    {
        *(ast.Name, ast.arg, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
        *(ast.Import, ast.ImportFrom, ast.ExceptHandler),
        *(ast.MatchAs, ast.MatchStar, ast.MatchMapping),
    }
)


def own_nodes(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield nodes and what is below them, without the insides of functions, classes, lambdas.

    Such a definition is yielded itself; decorators and defaults, which run outside, are too.
    """
    todo = list(nodes)
    todo.reverse()
    while todo:
        node = todo.pop()
        yield node
        below = _outside(node) if isinstance(node, _NESTED) else children(node)
        below.reverse()
        todo += below


def _outside(node: ast.AST) -> list[ast.AST]:
    """Return what of a definition runs where the definition stands."""
    outside = [*getattr(node, "decorator_list", []), *getattr(node, "bases", [])]
    arguments = getattr(node, "args", None)
    if arguments is not None:
        outside += [*arguments.defaults, *(d for d in arguments.kw_defaults if d)]
    return outside


def bound_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that statements or expressions bind in the scope they stand in."""
    return _bound_by(_without_loop_variables(nodes))


def _bound_by(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that nodes bind, each taken by itself."""
    names: set[str] = set()
    for node in nodes:
        if node.__class__ not in BINDING:
            continue
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= imported_names(node)
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            names.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            names.add(node.rest)
    return names


def _without_loop_variables(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield own nodes but for the targets of comprehensions, which are bound inside them only."""
    inside: set[ast.AST] = set()
    for node in own_nodes(nodes):
        if isinstance(node, COMPREHENSIONS):
            for generator in node.generators:
                inside.update(walk(generator.target))
        if node not in inside:
            yield node


def imported_names(statement: ast.Import | ast.ImportFrom) -> set[str]:
    """Return the names that an import binds; a star is given as "*"."""
    if isinstance(statement, ast.Import):
        return {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
    return {alias.asname or alias.name for alias in statement.names}


def parameters(function: Function | ast.Lambda) -> list[ast.arg]:
    """Return all parameters of a function, starred ones included."""
    arguments = function.args
    starred = [arguments.vararg, arguments.kwarg]
    return [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        *(argument for argument in starred if argument is not None),
    ]


def local_names(function: Function) -> set[str]:
    """Return the parameters of a function and the names that its body binds."""
    return {argument.arg for argument in parameters(function)} | bound_names(function.body)


def bound_anywhere(tree: ast.AST) -> set[str]:
    """Return every name that a tree binds in any of its scopes, parameters included."""
    return _bound_by(_all_nodes(tree))


def _all_nodes(tree: ast.AST) -> Sequence[ast.AST]:
    return nodes_of(tree) if isinstance(tree, ast.Module) else walk(tree)


def identifiers(tree: ast.AST) -> set[str]:
    """Return every name that a tree binds or reads anywhere; attribute names are not counted."""
    nodes = _all_nodes(tree)
    names = _bound_by(nodes)
    for node in nodes:
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            names.update(node.names)
    return names


def top_level_name(statement: ast.stmt) -> str | None:
    """Return the name that a top-level def, class or single assignment gives, else None."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return statement.name
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    if len(targets) == 1 and isinstance(targets[0], ast.Name):
        return targets[0].id
    return None


def imported_modules(tree: ast.Module) -> set[str]:
    """Return the dotted names of the modules that a file loads as it loads, parents included."""
    found: set[str] = set()
    for statement in tree.body:
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                parts = alias.name.split(".")
                found |= {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
        elif isinstance(statement, ast.ImportFrom):
            parts = (statement.module or "").split(".")
            dots = "." * statement.level
            found |= {dots + ".".join(parts[:end]) for end in range(1, len(parts) + 1)}
    return found
