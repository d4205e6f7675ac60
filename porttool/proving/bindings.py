"""What each name and attribute of a file is bound to, as it is written: the audit's only map."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Literal

from porttool.frozen import dataclass
from porttool.source.nodes import children
from porttool.source.scopes import parameters
from porttool.source.syntax import Source

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.Match)
_WITHOUT_PARTS = (ast.Name, ast.Constant)
_SAME_ELEMENTS = ("list", "tuple", "reversed", "sorted", "iter")


@dataclass(frozen=True)
class Place:
    """Where a node stands: its scope by dotted names, its class, and what is around it."""

    file: FileNames
    node: ast.expr
    scope: str = ""
    owner: str = ""  # the class whose method it is in
    self_name: str = ""
    above: tuple[ast.expr, ...] = ()  # the expressions around it, innermost first
    tests: tuple[ast.expr, ...] = ()  # of the conditions that it depends on

    def inside(self, comprehension: ast.expr) -> Place:
        """Return the same place, seen from within a comprehension."""
        return replace(self, above=(comprehension, *self.above))


@dataclass(frozen=True)
class Bound:
    """One binding of a name or attribute.

    `how` says what the bound thing is of `value`: the thing itself, an element of it, a value of
    the dict, or something that the text does not tell.
    """

    statement: ast.AST
    at: Place
    how: Literal["is", "element", "value", "unknown"]
    value: ast.expr | None = None
    annotation: ast.expr | None = None
    conditional: bool = False


class FileNames:
    """One file by its names."""

    def __init__(self, source: Source) -> None:
        self.path = source.path
        self._calls: list[Place] = []
        self._local: dict[tuple[str, str], list[Bound]] = {}
        self._attributes: dict[str, list[tuple[str, Bound]]] = {}
        self._bases: dict[str, list[str]] = {}
        self._functions: set[str] = {""}
        self._returns: Counter[str] = Counter()
        nowhere = Place(self, ast.Constant(None))
        self._block(source.tree.body, nowhere, conditional=False)

    def calls(self, methods: Collection[str]) -> list[Place]:
        """Return the calls of methods of these names, in the order of the text."""
        return [
            place
            for place in self._calls
            if isinstance(place.node, ast.Call)
            and isinstance(place.node.func, ast.Attribute)
            and place.node.func.attr in methods
        ]

    def lookup(self, name: str, at: Place) -> tuple[str, list[Bound]]:
        """Return the scope that a name is looked up in at a place, and all its bindings there."""
        for index, outer in enumerate(at.above):
            if isinstance(outer, _COMPREHENSIONS):
                here = replace(at, above=at.above[index:])
                found = [
                    replace(bound, at=replace(here, node=bound.at.node))
                    for generator in outer.generators
                    for target, bound in _pairs(generator.target, generator.iter, at, generator)
                    if target == name
                ]
                if found:
                    return "", found
        scope = at.scope
        while True:
            bound = self._local.get((scope, name))
            if bound and scope in self._functions:
                return scope, bound
            if not scope:
                return "", []
            scope = scope.rpartition(".")[0]

    def attributes(self, owner: str | None, name: str) -> list[Bound]:
        """Return what sets an attribute in a class, on anything when None.

        What is set through another name than `self` may be any object's, and counts for all.
        """
        found = self._attributes.get(name, [])
        return [bound for where, bound in found if owner is None or where in (owner, "?")]

    def returns(self, scope: str) -> int:
        """Return how many return statements a function has."""
        return self._returns[scope]

    def is_defined(self, owner: str, name: str) -> bool:
        """Tell whether a class body itself gives a name: a method, a property, a field."""
        return (owner, name) in self._local

    def bases(self, owner: str) -> list[str]:
        """Return the last names of a class's bases."""
        return self._bases.get(owner, [])

    # -- one walk over the file ----------------------------------------------------------------

    def _block(self, body: list[ast.stmt], at: Place, *, conditional: bool) -> None:
        for statement in body:
            self._statement(statement, at, conditional)

    def _statement(self, node: ast.stmt, at: Place, conditional: bool) -> None:
        if isinstance(node, _DEFINITIONS):
            self._definition(node, at, conditional)
            return
        inner = conditional or isinstance(node, _BRANCHES)
        test = node.test if isinstance(node, ast.If | ast.While) else None
        below = replace(at, tests=(*at.tests, test)) if test is not None else at
        self._bind(node, at, conditional)
        if isinstance(node, ast.Return):
            self._returns[at.scope] += 1
        for field, value in ast.iter_fields(node):
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, ast.stmt):
                    self._statement(part, below, inner)
                elif isinstance(part, ast.expr):
                    self._expression(part, at)
                elif isinstance(part, ast.AST) and field != "names":
                    self._odd(part, below, inner)

    def _odd(self, node: ast.AST, at: Place, conditional: bool) -> None:
        """Walk what is neither a statement nor an expression: handlers, with items, match cases."""
        if isinstance(node, ast.ExceptHandler) and node.name:
            self._name(node.name, Bound(node, at, "unknown"), at)
        if isinstance(node, ast.withitem) and node.optional_vars is not None:
            for target in _stored(node.optional_vars):
                self._store(target, Bound(node, at, "unknown"), at)
        for pattern in ast.walk(node) if isinstance(node, ast.match_case) else ():
            name = getattr(pattern, "name", None) or getattr(pattern, "rest", None)
            if isinstance(pattern, ast.pattern) and isinstance(name, str):
                self._name(name, Bound(pattern, at, "unknown"), at)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                self._statement(child, at, conditional)
            elif isinstance(child, ast.expr):
                self._expression(child, at)

    def _definition(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef,
        at: Place,
        conditional: bool,
    ) -> None:
        self._name(node.name, Bound(node, at, "unknown"), at)
        scope = f"{at.scope}.{node.name}" if at.scope else node.name
        outside = list(node.decorator_list)
        if isinstance(node, ast.ClassDef):
            outside += [*node.bases, *(word.value for word in node.keywords)]
            self._bases[scope] = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
            inner = replace(at, scope=scope, owner=scope, self_name="", tests=())
        else:
            self._functions.add(scope)
            outside += [*node.args.defaults, *(d for d in node.args.kw_defaults if d)]
            inner = replace(at, scope=scope, tests=())
            if at.self_name in {argument.arg for argument in parameters(node)}:
                inner = replace(inner, self_name="")  # a function inside a method, with its own
            if at.owner and at.scope == at.owner:
                static = any("staticmethod" in ast.unparse(d) for d in node.decorator_list)
                first = [*node.args.posonlyargs, *node.args.args]
                name = first[0].arg if first and not static else ""
                inner = replace(inner, self_name=name)
            for argument in parameters(node):
                bound = Bound(argument, inner, "unknown", annotation=argument.annotation)
                self._name(argument.arg, bound, inner)
        for part in outside:
            self._expression(part, at)
        self._block(node.body, inner, conditional=False)

    def _bind(self, node: ast.stmt, at: Place, conditional: bool) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value, node, at, conditional)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._assign(node.target, node.value, node, at, conditional)
        elif isinstance(node, ast.AugAssign) or (
            isinstance(node, ast.AnnAssign) and at.owner and at.scope == at.owner
        ):
            self._store(node.target, Bound(node, at, "unknown"), at)
        elif isinstance(node, ast.For | ast.AsyncFor):
            named = dict.fromkeys(ast.unparse(target) for target in _stored(node.target))
            for name, bound in _pairs(node.target, node.iter, at, node):
                named.pop(name, None)
                self._name(name, bound, at)
            for target in _stored(node.target):
                if ast.unparse(target) in named:
                    self._store(target, Bound(node, at, "unknown"), at)
        elif isinstance(node, ast.Delete):
            for part in node.targets:
                for target in _stored(part):
                    self._store(target, Bound(node, at, "unknown"), at)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                self._name(name, Bound(node, at, "unknown"), at)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            for name in node.names:
                self._name(name, Bound(node, at, "unknown"), at)

    def _assign(
        self, target: ast.expr, value: ast.expr, node: ast.stmt, at: Place, conditional: bool
    ) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            paired = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
            starred = any(isinstance(part, ast.Starred) for part in target.elts)
            if paired and not starred and isinstance(value, ast.Tuple | ast.List):
                # In a swap the right side is read before: what a name was then is not known.
                stored = {ast.unparse(part) for part in target.elts}
                swaps = any(ast.unparse(part) in stored for part in value.elts)
                for part, one in zip(target.elts, value.elts, strict=True):
                    if swaps:
                        self._store(part, Bound(node, at, "unknown"), at)
                    else:
                        self._assign(part, one, node, at, conditional)
                return
            for part in _stored(target):
                self._store(part, Bound(node, at, "unknown"), at)
            return
        seen = replace(at, node=value)
        self._store(target, Bound(node, seen, "is", value, conditional=conditional), at)

    def _store(self, target: ast.expr, bound: Bound, at: Place) -> None:
        if isinstance(target, ast.Name):
            self._name(target.id, bound, at)
        elif isinstance(target, ast.Attribute):
            mine = isinstance(target.value, ast.Name) and target.value.id == at.self_name
            owner = at.owner if mine and at.self_name else "?"
            self._attributes.setdefault(target.attr, []).append((owner, bound))
        elif isinstance(target, ast.Subscript):
            # An element is put in its place: the whole is not what its first binding says.
            self._store(target.value, replace(bound, how="unknown", value=None), at)
        elif isinstance(target, ast.Starred):
            self._store(target.value, replace(bound, how="unknown", value=None), at)

    def _name(self, name: str, bound: Bound, at: Place) -> None:
        self._local.setdefault((at.scope, name), []).append(bound)

    def _expression(self, node: ast.expr, at: Place) -> None:
        if isinstance(node, _WITHOUT_PARTS):
            return
        if isinstance(node, ast.Call):
            self._calls.append(replace(at, node=node))
        elif isinstance(node, ast.NamedExpr):
            bound = Bound(node, replace(at, node=node.value), "is", node.value, conditional=True)
            self._store(node.target, bound, at)
        elif isinstance(node, ast.Lambda):
            # Its parameters hide names; what a lambda is called with is not followed.
            for argument in parameters(node):
                self._name(argument.arg, Bound(node, at, "unknown"), at)
                at = replace(at, self_name="") if argument.arg == at.self_name else at
        inner = at.inside(node)
        if isinstance(node, ast.IfExp):
            self._expression(node.test, inner)
            below = replace(inner, tests=(*at.tests, node.test))
            self._expression(node.body, below)
            self._expression(node.orelse, below)
            return
        for child in children(node):
            if isinstance(child, ast.expr):
                self._expression(child, inner)
            elif isinstance(child, ast.keyword):
                self._expression(child.value, inner)
            elif isinstance(child, ast.comprehension):
                below = replace(inner, tests=(*at.tests, *child.ifs))
                for part in (child.iter, *child.ifs):
                    self._expression(part, below)


def _stored(target: ast.expr) -> Iterator[ast.expr]:
    """Yield the names, attributes and items that a target stores to."""
    if isinstance(target, ast.Tuple | ast.List):
        for part in target.elts:
            yield from _stored(part)
    elif isinstance(target, ast.Starred):
        yield from _stored(target.value)
    else:
        yield target


def _pairs(
    target: ast.expr, iterable: ast.expr, at: Place, statement: ast.AST
) -> Iterator[tuple[str, Bound]]:
    """Yield what each name of a loop's target is of the thing that is looped over."""
    name = (
        iterable.func.id
        if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Name)
        else ""
    )
    arguments = iterable.args if isinstance(iterable, ast.Call) else []
    parts = target.elts if isinstance(target, ast.Tuple | ast.List) else []
    starred = any(isinstance(part, ast.Starred) for part in [*arguments, *parts])
    if starred:
        return
    if name == "zip" and parts and len(parts) == len(arguments):
        for part, argument in zip(parts, arguments, strict=True):
            yield from _pairs(part, argument, at, statement)
    elif name == "enumerate" and len(parts) == 2 and arguments:
        yield from _pairs(parts[1], arguments[0], at, statement)
    elif name in _SAME_ELEMENTS and len(arguments) == 1:
        yield from _pairs(target, arguments[0], at, statement)
    elif isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Attribute):
        of = replace(at, node=iterable.func.value)
        if iterable.args:
            return
        if iterable.func.attr == "values" and isinstance(target, ast.Name):
            yield target.id, Bound(statement, of, "value", iterable.func.value)
        elif iterable.func.attr == "items" and len(parts) == 2 and isinstance(parts[1], ast.Name):
            yield parts[1].id, Bound(statement, of, "value", iterable.func.value)
    elif isinstance(target, ast.Name):
        yield target.id, Bound(statement, replace(at, node=iterable), "element", iterable)
