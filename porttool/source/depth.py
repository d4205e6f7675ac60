"""How deeply a tree is nested: past a limit, what walks it would run out of stack."""

from __future__ import annotations

import ast

from porttool.source.nodes import holders

# Analysis takes several calls a level, and Python allows 1,000 in all; written code stays below 50.
MAX_DEPTH = 150


def too_deep(tree: ast.Module) -> int | None:
    """Return the line of something that is nested beyond MAX_DEPTH, or None."""
    above = holders(tree)
    # Level by level: no node is deeper than the last one.
    node = next(reversed(above), tree)
    levels = [node]
    while node in above:
        node = above[node]
        levels.append(node)
    if len(levels) <= MAX_DEPTH:
        return None
    return next((node.lineno for node in levels if isinstance(node, ast.expr | ast.stmt)), 1)
