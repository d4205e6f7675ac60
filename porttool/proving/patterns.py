"""Match a rule's pattern against a tree, apart from `learn`, so that the proof checks its work."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import field
from functools import lru_cache

from porttool.frozen import dataclass
from porttool.source.nodes import KEPT
from porttool.source.syntax import Names, same_tree

_VARIABLE = "__metavariable_"


@dataclass(frozen=True)
class Tail:
    """The rest of a call's arguments, what `$ARGS` stands for."""

    args: tuple[ast.expr, ...]
    keywords: tuple[ast.keyword, ...]


@dataclass
class Bindings:
    """What every metavariable matched, once for each time that the pattern has it."""

    found: dict[str, list[ast.expr | Tail]] = field(default_factory=dict)

    def add(self, name: str, value: ast.expr | Tail) -> None:
        """Note one more match of a metavariable."""
        self.found.setdefault(name, []).append(value)


def parse_pattern(text: str) -> ast.expr:
    """Return the tree of a pattern with metavariables such as `$X`; raises SyntaxError."""
    return ast.parse(re.sub(r"\$(?=[A-Z])", _VARIABLE, text), mode="eval").body


def match(pattern: ast.expr, node: ast.AST, names: Names) -> Bindings | None:
    """Match a whole node; imported names in the pattern are written out in full."""
    bindings = Bindings()
    return bindings if _match(pattern, node, names, bindings) else None


def _variable(pattern: ast.AST) -> str | None:
    if isinstance(pattern, ast.Name) and pattern.id.startswith(_VARIABLE):
        return pattern.id.removeprefix(_VARIABLE)
    return None


def _match(pattern: ast.AST, node: ast.AST, names: Names, bindings: Bindings) -> bool:
    variable = _variable(pattern)
    if variable is not None:
        if not isinstance(node, ast.expr) or isinstance(node, ast.Starred):
            return False
        bindings.add(variable, node)
        return True
    if isinstance(pattern, ast.Name | ast.Attribute) and isinstance(node, ast.Name | ast.Attribute):
        written = _written(pattern)
        if _VARIABLE not in written:
            return same_tree(pattern, node) or names.qualified(node) == written
    if type(pattern) is not type(node):
        return False
    if isinstance(pattern, ast.Call) and isinstance(node, ast.Call):
        return _match_call(pattern, node, names, bindings)
    return all(
        _match_value(getattr(pattern, name, None), getattr(node, name, None), names, bindings)
        for name in pattern._fields
        if name not in ("ctx", "kind", "type_comment")
    )


@lru_cache(maxsize=KEPT)
def _written(pattern: ast.expr) -> str:
    return ast.unparse(pattern)


def _match_value(pattern: object, value: object, names: Names, bindings: Bindings) -> bool:
    if isinstance(pattern, ast.AST):
        return isinstance(value, ast.AST) and _match(pattern, value, names, bindings)
    if isinstance(pattern, list) and isinstance(value, list):
        return len(pattern) == len(value) and all(
            _match_value(left, right, names, bindings)
            for left, right in zip(pattern, value, strict=True)
        )
    return type(pattern) is type(value) and pattern == value


def _match_call(pattern: ast.Call, node: ast.Call, names: Names, bindings: Bindings) -> bool:
    if not _match(pattern.func, node.func, names, bindings):
        return False
    last = _variable(pattern.args[-1]) if pattern.args else None
    if last is None or not last.startswith("ARGS"):
        return _match_value(pattern.args, node.args, names, bindings) and _match_value(
            pattern.keywords, node.keywords, names, bindings
        )
    head = pattern.args[:-1]
    if len(node.args) < len(head):
        return False
    rest = list(node.keywords)
    for wanted in pattern.keywords:
        same = [word for word in rest if word.arg == wanted.arg]
        if len(same) != 1 or not _match(wanted.value, same[0].value, names, bindings):
            return False
        rest.remove(same[0])
    bindings.add(last, Tail(tuple(node.args[len(head) :]), tuple(rest)))
    return all(
        _match(left, right, names, bindings)
        for left, right in zip(head, node.args[: len(head)], strict=True)
    )


def plain_reads(nodes: Iterable[ast.AST]) -> bool:
    """Tell whether expressions only read names, attributes, items: harmless to evaluate twice."""
    allowed = (ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.expr_context)
    return all(isinstance(node, allowed) for node in nodes)
