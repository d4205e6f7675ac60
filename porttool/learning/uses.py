"""What becomes of an expression's value at the place where it stands, and which uses one shows.

A template that is not known to give what its pattern gave may only go where the examples show that
its value will do: what threw the value away says nothing about a place that keeps it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import Literal

Use = Literal["value", "dropped", "awaited", "awaited, dropped", "delegated", "iterated", "tested"]

# What an example of each use shows beside the use itself.
_SHOWS: Mapping[Use, frozenset[Use]] = {
    "value": frozenset({"dropped", "iterated", "tested"}),
    "iterated": frozenset({"dropped"}),
    "tested": frozenset({"dropped"}),
    "awaited": frozenset({"awaited, dropped"}),
}
_WORDS: Mapping[Use, str] = {
    "value": "keeps the value",
    "dropped": "throws the value away",
    "awaited": "awaits it and keeps what comes",
    "awaited, dropped": "awaits it and throws away what comes",
    "delegated": "yields from it",
    "iterated": "iterates over it",
    "tested": "tests it",
}


def use_of(node: ast.AST, above: Mapping[ast.AST, ast.AST]) -> Use:
    """Return what becomes of an expression's value; `above` maps each node to its holder."""
    holder = above.get(node)
    if isinstance(holder, ast.Expr):
        return "dropped"
    if isinstance(holder, ast.Await):
        return "awaited, dropped" if isinstance(above.get(holder), ast.Expr) else "awaited"
    if isinstance(holder, ast.YieldFrom):
        return "delegated"
    loops = ast.For | ast.AsyncFor | ast.comprehension
    if isinstance(holder, loops) and holder.iter is node:
        return "iterated"
    branches = ast.If | ast.While | ast.IfExp | ast.Assert
    if isinstance(holder, branches) and holder.test is node:
        return "tested"
    negated = isinstance(holder, ast.UnaryOp) and isinstance(holder.op, ast.Not)
    return "tested" if negated else "value"


def shown(use: Use, examples: Iterable[Use]) -> bool:
    """Tell whether examples of some uses show that a template will do for a use."""
    return any(use == one or use in _SHOWS.get(one, ()) for one in examples)


def objection(use: Use, examples: tuple[Use, ...], before: str, after: str) -> str | None:
    """Return why a rule is not to be trusted with a use of its value, None where it is.

    Without examples the template gives what its pattern gave, whatever becomes of it.
    """
    if not examples or shown(use, examples):
        return None
    known = " or ".join(_WORDS[one] for one in examples)
    return (
        f"this place {_WORDS[use]}, every example of the experiment {known}, and `{after}` is not "
        f"known to return what `{before}` does"
    )
