"""One file as the search for calls sees it: what names come from, and which names are one variable.

A name that several imports or a fallback (`except ImportError: torch = None`) may bind is not taken
for nothing: all its origins are given, and the caller decides whether they leave a doubt.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import lru_cache

from porttool.frozen import dataclass
from porttool.source.nodes import KEPT, nodes_of, walk
from porttool.source.scopes import Function
from porttool.source.syntax import Names, Source, enclosing_scope, parents, span_of

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True)
class View:
    """A file with what is asked of it again and again.

    `files` are those that it imports, and that import it; `marks` are the words that mean
    porttool's own switch.
    """

    source: Source
    names: Names
    above: Mapping[ast.AST, ast.AST]
    files: Mapping[str, Source]
    marks: frozenset[str] = frozenset()

    @property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Return every node of the file."""
        return nodes_of(self.source.tree)


@lru_cache(maxsize=KEPT)
def _names(tree: ast.Module) -> Names:
    return Names(tree)


def view(source: Source, files: Mapping[str, Source], marks: frozenset[str] = frozenset()) -> View:
    """Return the view of a file."""
    return View(source, _names(source.tree), parents(source.tree), files, marks)


def origins(here: View, expression: ast.expr) -> frozenset[str | None]:
    """Return what a name or attribute chain may be, as dotted origins; None stands for a local.

    A root that nothing binds keeps its own name: `torch` from a star import is still torch.
    """
    tail: list[str] = []
    while isinstance(expression, ast.Attribute):
        tail.append(expression.attr)
        expression = expression.value
    if not isinstance(expression, ast.Name):
        return frozenset()
    bound = here.names.binding(expression.id, expression)
    roots: frozenset[str | None] = bound[1] if bound else frozenset({expression.id})
    return frozenset(
        root if root is None else ".".join([root, *reversed(tail)])
        for root in roots
        if root is not None or not tail or bound is not None
    )


def origin(here: View, expression: ast.expr) -> str | None:
    """Return the one origin of an expression, fallbacks for a missing package apart."""
    known = {found for found in origins(here, expression) if found is not None}
    if len(known) != 1:
        return None
    if None in origins(here, expression) and not _is_fallback(here, expression):
        return None
    return next(iter(known))


def _is_fallback(here: View, expression: ast.expr) -> bool:
    """Tell whether the local bindings of a chain's root stand in where an import failed."""
    while isinstance(expression, ast.Attribute):
        expression = expression.value
    if not isinstance(expression, ast.Name):
        return False
    bound = here.names.binding(expression.id, expression)
    if bound is None:
        return False
    return all(
        any(isinstance(one, ast.ExceptHandler | ast.If) for one in ancestors(here, node))
        for node in here.nodes
        if binds(node, expression.id) and scope_of(here, node) is bound[0]
    )


def binds(node: ast.AST, name: str) -> bool:
    """Tell whether a node itself binds a name, imports apart."""
    if isinstance(node, ast.Name):
        return node.id == name and not isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.name == name
    return isinstance(node, ast.arg) and node.arg == name


def ancestors(here: View, node: ast.AST) -> Iterator[ast.AST]:
    """Yield what holds a node, the innermost first."""
    above = here.above.get(node)
    while above is not None:
        yield above
        above = here.above.get(above)


def statement_of(here: View, node: ast.AST) -> ast.stmt:
    """Return the statement that a node is part of, or is."""
    while not isinstance(node, ast.stmt):
        node = here.above[node]
    return node


def block_of(here: View, statement: ast.stmt) -> list[ast.stmt]:
    """Return the list of statements that one stands in."""
    holder = here.above[statement]
    for name in ("body", "orelse", "finalbody", "handlers"):
        block = getattr(holder, name, None)
        if isinstance(block, list) and statement in block:
            return block
    return [statement]


def scope_of(here: View, node: ast.AST) -> ast.AST:
    """Return the module, class, function or lambda around a node."""
    return enclosing_scope(node, here.above)


def function_of(here: View, node: ast.AST) -> Function | None:
    """Return the innermost function around a node, lambdas and classes passed over."""
    for one in ancestors(here, node):
        if isinstance(one, FUNCTIONS):
            return one
    return None


def class_of(here: View, node: ast.AST) -> ast.ClassDef | None:
    """Return the innermost class around a node."""
    return next((one for one in ancestors(here, node) if isinstance(one, ast.ClassDef)), None)


def spelled(node: ast.AST) -> str | None:
    """Return a name or a chain of attributes as text, else None."""
    inner = node
    while isinstance(inner, ast.Attribute):
        inner = inner.value
    if isinstance(node, ast.expr) and isinstance(inner, ast.Name):
        return ast.unparse(node)
    return None


@lru_cache(maxsize=1024)
def _declared(scope: ast.AST) -> dict[str, type[ast.Global | ast.Nonlocal]]:
    """Return the names that a function declares to be another scope's, and which kind of it."""
    return {
        name: type(node)
        for node in reversed(list(walk(scope)))
        if isinstance(node, ast.Global | ast.Nonlocal)
        for name in node.names
    }


def variable_scope(here: View, name: ast.Name) -> ast.AST:
    """Return the scope that holds a name's value, `global` and `nonlocal` followed."""
    scope: ast.AST = scope_of(here, name)
    while isinstance(scope, FUNCTIONS):
        kind = _declared(scope).get(name.id)
        if kind is ast.Global:
            return here.source.tree
        if kind is None:
            break
        scope = scope_of(here, scope)
    bound = here.names.binding(name.id, name)
    return bound[0] if bound else here.source.tree


def uses(here: View, expression: ast.expr) -> Iterator[ast.Name | ast.Attribute]:
    """Yield every place that names the same variable, or attribute; `self` is one per class.

    Stores are yielded too.
    """
    text = spelled(expression)
    if text is None:
        return
    root = expression
    while isinstance(root, ast.Attribute):
        root = root.value
    assert isinstance(root, ast.Name)
    home = (
        class_of(here, expression)
        if root.id == "self" and isinstance(expression, ast.Attribute)
        else variable_scope(here, root)
    )
    for node in here.nodes:
        if type(node) is not type(expression) or not isinstance(node, ast.Name | ast.Attribute):
            continue
        if spelled(node) != text:
            continue
        other: ast.expr = node
        while isinstance(other, ast.Attribute):
            other = other.value
        assert isinstance(other, ast.Name)
        if root.id == "self" and isinstance(node, ast.Attribute):
            same = class_of(here, node) is home
        else:
            same = variable_scope(here, other) is home
        if same:
            yield node


def constant_value(here: View, node: ast.expr) -> object:
    """Return a constant, or the one that the only assignment of a name gives it; else None."""
    if isinstance(node, ast.Constant):
        return node.value
    if not isinstance(node, ast.Name):
        return None
    values = [
        one.value
        for one in here.nodes
        if isinstance(one, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == node.id for target in one.targets)
    ]
    only = values[0] if len(values) == 1 else None
    return only.value if isinstance(only, ast.Constant) else None


def is_after(node: ast.AST, other: ast.AST) -> bool:
    """Tell whether a node stands behind another one in the text."""
    place = (node.lineno, node.col_offset)  # type: ignore[attr-defined]
    return place > (other.end_lineno, other.end_col_offset)  # type: ignore[attr-defined]


def module_word(path: str) -> str:
    """Return the last word of the module that a file is."""
    return path.removesuffix("/__init__.py").removesuffix(".py").rpartition("/")[2]


def column_of(here: View, node: ast.AST) -> int:
    """Return the 1-based column, counted in characters."""
    start = span_of(here.source, node).start
    return start - here.source.line_starts[node.lineno - 1] + 1  # type: ignore[attr-defined]
