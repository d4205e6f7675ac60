"""Which names a piece of code binds in its own scope, and which it mentions at all."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

Function = ast.FunctionDef | ast.AsyncFunctionDef
_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def own_nodes(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield nodes and what is below them, without the insides of functions, classes, lambdas.

    Such a definition is yielded itself; decorators and defaults, which run outside, are too.
    """
    for node in nodes:
        yield node
        if isinstance(node, _NESTED):
            arguments = getattr(node, "args", None)
            outside = [*getattr(node, "decorator_list", []), *getattr(node, "bases", [])]
            if arguments is not None:
                outside += [*arguments.defaults, *(d for d in arguments.kw_defaults if d)]
            yield from own_nodes(outside)
        else:
            yield from own_nodes(ast.iter_child_nodes(node))


def bound_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that statements or expressions bind in the scope they stand in."""
    names: set[str] = set()
    for node in _without_loop_variables(nodes):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            names.add(node.id)
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
        if isinstance(node, _COMPREHENSIONS):
            for generator in node.generators:
                inside |= set(ast.walk(generator.target))
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
    names = bound_names(_all_scopes(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
    return names


def identifiers(tree: ast.AST) -> set[str]:
    """Return every name that a tree binds or reads anywhere; attribute names are not counted."""
    names = bound_anywhere(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            names |= set(node.names)
    return names


def _all_scopes(tree: ast.AST) -> Iterator[ast.AST]:
    yield tree
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from node.body
