"""One file, indexed in a single walk: scopes, what binds each name, where names are used.

Evaluation asks for few expressions; everything that needs a walk over the whole file is here.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import field
from functools import lru_cache
from typing import Literal

from porttool.frozen import dataclass
from porttool.source.nodes import KEPT
from porttool.source.syntax import Source

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
BindingKind = Literal[
    "assign", "for", "aug", "with", "param", "import", "function", "class", "caught", "matched"
]


@dataclass(frozen=True, slots=True)
class Taken:
    """What a pattern of `match` takes by a key, an attribute, or a position in a class pattern."""

    how: Literal["key", "attribute", "position"]
    name: str | bytes | int | float | complex | None

    def key(self) -> ast.Constant:
        """Return the key as it would be written in a subscript."""
        return ast.Constant(self.name)


# A route says which part of a value a target takes: positions from the left (or, behind a star,
# from the right), "*" for the rest.
Part = int | str | Taken
Route = tuple[Part, ...]

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LEAVES = (ast.Constant, ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop)


@dataclass(eq=False, slots=True)
class Scope:
    """A module, class, function, lambda or comprehension, and the names bound in it."""

    node: ast.AST
    kind: Literal["module", "class", "function", "comprehension"]
    name: str
    above: Scope | None
    file: FileIndex
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    declared: dict[str, str] = field(default_factory=dict)
    returns: list[ast.expr] = field(default_factory=list)
    yields: list[ast.Yield | ast.YieldFrom] = field(default_factory=list)

    @property
    def qualname(self) -> str:
        """The dotted names of the classes and functions down to this one; "" for a module."""
        names = []
        here: Scope | None = self
        while here is not None:
            if here.kind in ("class", "function"):
                names.append(here.name)
            here = here.above
        return ".".join(reversed(names))

    @property
    def home(self) -> Scope:
        """The scope whose statements run it: comprehensions run in the one around them."""
        here = self
        while here.kind == "comprehension" and here.above is not None:
            here = here.above
        return here

    @property
    def owner(self) -> Scope | None:
        """The class that a method is written in."""
        above = self.above
        return above if self.kind == "function" and above and above.kind == "class" else None


@dataclass(eq=False, slots=True)
class Binding:
    """What gives a name, an attribute or an item its value: `target` takes `route` of `value`.

    `value` is the assigned expression, the iterable of a loop, the expression of a `with`; None
    for the other kinds, whose `node` says it all.
    """

    kind: BindingKind
    target: ast.AST
    node: ast.AST
    value: ast.expr | None
    route: Route
    scope: Scope

    @property
    def line(self) -> int:
        """The line of the target."""
        return int(getattr(self.target, "lineno", getattr(self.node, "lineno", 0)))


@lru_cache(maxsize=KEPT)
def index_of(source: Source) -> FileIndex:
    """Return the index of a file, the same for the same source."""
    return FileIndex(source)


class FileIndex:
    """The index of one file; read-only once it is built."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.path = source.path
        self.shown = source.path  # how reasons name the file
        self.above: dict[ast.AST, ast.AST] = {}
        self.scope_at: dict[ast.AST, Scope] = {}  # of every loaded name and every call
        self.scopes: dict[ast.AST, Scope] = {}  # by the node that opens it
        self.names: dict[str, list[ast.Name]] = defaultdict(list)  # loads
        self.attributes: dict[str, list[ast.Attribute]] = defaultdict(list)  # loads
        self.stores: dict[str, list[Binding]] = defaultdict(list)  # of attributes, by name
        self.items: list[Binding] = []  # stores to subscripts
        self.augmented: list[Binding] = []  # `thing.attribute += ...`
        self.calls: dict[str, list[ast.Call]] = defaultdict(list)  # by the callee's last name
        self.statements: list[tuple[ast.Expr, Scope]] = []
        self.stars: list[ast.ImportFrom] = []
        self.aliases: dict[str, list[str]] = defaultdict(list)  # `from m import name as alias`
        self.binding_at: dict[tuple[ast.AST, str], Binding] = {}
        self.module = Scope(source.tree, "module", "", None, self)
        self.scopes[source.tree] = self.module
        for statement in source.tree.body:
            self.above[statement] = source.tree
            self._visit(statement, self.module)

    def _bind(self, name: str, binding: Binding) -> None:
        scope = binding.scope
        while scope.kind == "comprehension" and isinstance(binding.node, ast.NamedExpr):
            assert scope.above is not None  # a comprehension always stands in something
            scope = scope.above
        declared = scope.declared.get(name)
        if declared == "global":
            scope = self.module
        elif declared == "nonlocal":
            outer = scope.above
            while outer is not None and name not in outer.bindings:
                outer = outer.above
            scope = outer or scope
        scope.bindings.setdefault(name, []).append(binding)
        self.binding_at[binding.target, name] = binding

    def _target(
        self,
        target: ast.AST,
        kind: BindingKind,
        node: ast.AST,
        value: ast.expr | None,
        scope: Scope,
        *,
        route: Route = (),
    ) -> None:
        if isinstance(target, ast.Name):
            self._bind(target.id, Binding(kind, target, node, value, route, scope))
        elif isinstance(target, ast.Tuple | ast.List):
            starred = next(
                (i for i, item in enumerate(target.elts) if isinstance(item, ast.Starred)), None
            )
            for i, item in enumerate(target.elts):
                self.above[item] = target
                if isinstance(item, ast.Starred):
                    self._target(item.value, kind, node, value, scope, route=(*route, "*"))
                else:
                    behind = starred is not None and i > starred
                    part = i - len(target.elts) if behind else i
                    self._target(item, kind, node, value, scope, route=(*route, part))
        elif isinstance(target, ast.Attribute):
            store = Binding(kind, target, node, value, route, scope)
            self.stores[target.attr].append(store)
            if kind == "aug":
                self.augmented.append(store)
            self.above[target.value] = target
            self._visit(target.value, scope)
        elif isinstance(target, ast.Subscript):
            self.items.append(Binding(kind, target, node, value, route, scope))
            for child in (target.value, target.slice):
                self.above[child] = target
                self._visit(child, scope)

    def _open(self, node: ast.AST, kind: str, name: str, scope: Scope) -> Scope:
        opened = Scope(node, kind, name, scope, self)  # type: ignore[arg-type]
        self.scopes[node] = opened
        return opened

    def _children(self, nodes: Iterator[ast.AST], above: ast.AST, scope: Scope) -> None:
        for node in nodes:
            self.above[node] = above
            self._visit(node, scope)

    def _visit(self, node: ast.AST, scope: Scope) -> None:
        visit: _Visit | None = _VISITS.get(type(node))
        if visit is not None:
            visit(self, node, scope)
            return
        above, visit_one = self.above, self._visit
        for name in node._fields:
            child = getattr(node, name, None)
            if isinstance(child, list):
                for item in child:
                    if isinstance(item, ast.AST) and not isinstance(item, _LEAVES):
                        above[item] = node
                        visit_one(item, scope)
                    elif isinstance(item, ast.Constant):
                        above[item] = node
            elif isinstance(child, ast.AST):
                if not isinstance(child, _LEAVES):
                    above[child] = node
                    visit_one(child, scope)
                elif isinstance(child, ast.Constant):
                    above[child] = node

    def _name(self, node: ast.Name, scope: Scope) -> None:
        self.scope_at[node] = scope
        self.names[node.id].append(node)

    def _attribute(self, node: ast.Attribute, scope: Scope) -> None:
        self.attributes[node.attr].append(node)
        self.above[node.value] = node
        self._visit(node.value, scope)

    def _call(self, node: ast.Call, scope: Scope) -> None:
        self.scope_at[node] = scope
        function = node.func
        if isinstance(function, ast.Attribute):
            self.calls[function.attr].append(node)
        elif isinstance(function, ast.Name):
            self.calls[function.id].append(node)
        self.above[function] = node
        self._visit(function, scope)
        self._children(iter(node.args), node, scope)
        for keyword in node.keywords:
            self.above[keyword] = node
            self.above[keyword.value] = keyword
            self._visit(keyword.value, scope)

    def _assign(self, node: ast.Assign, scope: Scope) -> None:
        self._children(iter([node.value]), node, scope)
        for target in node.targets:
            self.above[target] = node
            self._target(target, "assign", node, node.value, scope)

    def _annotated(self, node: ast.AnnAssign, scope: Scope) -> None:
        self._children(iter([node.annotation]), node, scope)
        if node.value is not None:
            self._children(iter([node.value]), node, scope)
        self.above[node.target] = node
        self._target(node.target, "assign", node, node.value, scope)

    def _augmented(self, node: ast.AugAssign, scope: Scope) -> None:
        self._children(iter([node.value]), node, scope)
        self.above[node.target] = node
        self._target(node.target, "aug", node, node.value, scope)
        if isinstance(node.target, ast.Name):
            self.scope_at[node.target] = scope  # it is read, too
            self.augmented.append(self.binding_at[node.target, node.target.id])

    def _walrus(self, node: ast.NamedExpr, scope: Scope) -> None:
        self._children(iter([node.value]), node, scope)
        self.above[node.target] = node
        self._target(node.target, "assign", node, node.value, scope)

    def _for(self, node: ast.For | ast.AsyncFor, scope: Scope) -> None:
        self._children(iter([node.iter]), node, scope)
        self.above[node.target] = node
        self._target(node.target, "for", node, node.iter, scope)
        self._children(iter([*node.body, *node.orelse]), node, scope)

    def _with(self, node: ast.With | ast.AsyncWith, scope: Scope) -> None:
        for item in node.items:
            self.above[item] = node
            self._children(iter([item.context_expr]), item, scope)
            if item.optional_vars is not None:
                self.above[item.optional_vars] = item
                self._target(item.optional_vars, "with", node, item.context_expr, scope)
        self._children(iter(node.body), node, scope)

    def _comprehension(self, node: ast.expr, scope: Scope) -> None:
        inner = self._open(node, "comprehension", "", scope)
        generators: list[ast.comprehension] = node.generators  # type: ignore[attr-defined]
        for i, generator in enumerate(generators):
            self.above[generator] = node
            self._children(iter([generator.iter]), generator, scope if i == 0 else inner)
            self.above[generator.target] = generator
            self._target(generator.target, "for", generator, generator.iter, inner)
            self._children(iter(generator.ifs), generator, inner)
        parts = ("key", "value") if isinstance(node, ast.DictComp) else ("elt",)
        self._children(iter([getattr(node, part) for part in parts]), node, inner)

    def _arguments(self, node: Function, scope: Scope, inner: Scope) -> None:
        arguments = node.args
        self.above[arguments] = node
        defaults = [*arguments.defaults, *(d for d in arguments.kw_defaults if d is not None)]
        self._children(iter(defaults), arguments, scope)
        for argument in parameters(node):
            self.above[argument] = arguments
            if argument.annotation is not None:
                self._children(iter([argument.annotation]), argument, scope)
            self._bind(argument.arg, Binding("param", argument, node, None, (), inner))

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> None:
        self._bind(node.name, Binding("function", node, node, None, (), scope))
        self._children(iter(node.decorator_list), node, scope)
        if node.returns is not None:
            self._children(iter([node.returns]), node, scope)
        inner = self._open(node, "function", node.name, scope)
        for statement in _own_statements(node.body):
            if isinstance(statement, ast.Global | ast.Nonlocal):
                word = "global" if isinstance(statement, ast.Global) else "nonlocal"
                inner.declared.update(dict.fromkeys(statement.names, word))
        self._arguments(node, scope, inner)
        self._children(iter(node.body), node, inner)

    def _lambda(self, node: ast.Lambda, scope: Scope) -> None:
        inner = self._open(node, "function", "<lambda>", scope)
        self._arguments(node, scope, inner)
        inner.returns.append(node.body)
        self._children(iter([node.body]), node, inner)

    def _class(self, node: ast.ClassDef, scope: Scope) -> None:
        self._bind(node.name, Binding("class", node, node, None, (), scope))
        self._children(iter(node.decorator_list), node, scope)
        self._children(iter(node.bases), node, scope)
        self._children(iter([keyword.value for keyword in node.keywords]), node, scope)
        inner = self._open(node, "class", node.name, scope)
        self._children(iter(node.body), node, inner)

    def _import(self, node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
        for alias in node.names:
            if alias.name == "*" and isinstance(node, ast.ImportFrom):
                self.stars.append(node)
                continue
            name = alias.asname or alias.name.partition(".")[0]
            if isinstance(node, ast.ImportFrom):
                name = alias.asname or alias.name
                if alias.asname and alias.asname != alias.name:
                    self.aliases[alias.name].append(alias.asname)
            self._bind(name, Binding("import", alias, node, None, (), scope))

    def _return(self, node: ast.Return, scope: Scope) -> None:
        if node.value is not None:
            scope.home.returns.append(node.value)
            self._children(iter([node.value]), node, scope)

    def _yield(self, node: ast.Yield | ast.YieldFrom, scope: Scope) -> None:
        scope.home.yields.append(node)
        if node.value is not None:
            self._children(iter([node.value]), node, scope)

    def _expression(self, node: ast.Expr, scope: Scope) -> None:
        self.statements.append((node, scope))
        self._children(iter([node.value]), node, scope)

    def _handler(self, node: ast.ExceptHandler, scope: Scope) -> None:
        if node.name:
            self._bind(node.name, Binding("caught", node, node, node.type, (), scope))
        if node.type is not None:
            self._children(iter([node.type]), node, scope)
        self._children(iter(node.body), node, scope)

    def _match(self, node: ast.Match, scope: Scope) -> None:
        self._children(iter([node.subject]), node, scope)
        for case in node.cases:
            self.above[case] = node
            self._children(iter([case.pattern]), case, scope)
            self._pattern(case.pattern, node, (), scope)
            if case.guard is not None:
                self._children(iter([case.guard]), case, scope)
            self._children(iter(case.body), case, scope)

    def _pattern(self, node: ast.pattern, match: ast.Match, route: Route, scope: Scope) -> None:
        """Bind what a pattern captures, each with the way to it from the subject."""

        def capture(name: str | None, taken: Route) -> None:
            if name:
                self._bind(name, Binding("matched", node, match, match.subject, taken, scope))

        inner: list[tuple[ast.pattern, Route]] = []
        if isinstance(node, ast.MatchAs):
            capture(node.name, route)
            inner = [(node.pattern, route)] if node.pattern is not None else []
        elif isinstance(node, ast.MatchStar):
            capture(node.name, (*route[:-1], "*"))
        elif isinstance(node, ast.MatchMapping):
            keys = [_written(key) for key in node.keys]
            inner = [
                (pattern, (*route, Taken("key", key)))
                for key, pattern in zip(keys, node.patterns, strict=True)
            ]
            capture(node.rest, route)
        elif isinstance(node, ast.MatchClass):
            # `case dict(x)` and the like take the whole; they are too rare to matter.
            inner = [(p, (*route, Taken("position", i))) for i, p in enumerate(node.patterns)]
            inner += [
                (pattern, (*route, Taken("attribute", name)))
                for name, pattern in zip(node.kwd_attrs, node.kwd_patterns, strict=True)
            ]
        elif isinstance(node, ast.MatchSequence):
            stars = [i for i, p in enumerate(node.patterns) if isinstance(p, ast.MatchStar)]
            for i, pattern in enumerate(node.patterns):
                behind = bool(stars) and i > stars[0]
                inner.append((pattern, (*route, i - len(node.patterns) if behind else i)))
        elif isinstance(node, ast.MatchOr):
            inner = [(pattern, route) for pattern in node.patterns]
        for pattern, taken in inner:
            self._pattern(pattern, match, taken, scope)

    def _delete(self, node: ast.Delete, scope: Scope) -> None:
        for target in node.targets:
            if not isinstance(target, ast.Name):
                self._children(iter([target]), node, scope)


_Visit = Callable[..., None]
_VISITS: dict[type[ast.AST], _Visit] = {
    ast.Name: FileIndex._name,
    ast.Attribute: FileIndex._attribute,
    ast.Call: FileIndex._call,
    ast.Assign: FileIndex._assign,
    ast.AnnAssign: FileIndex._annotated,
    ast.AugAssign: FileIndex._augmented,
    ast.NamedExpr: FileIndex._walrus,
    ast.For: FileIndex._for,
    ast.AsyncFor: FileIndex._for,
    ast.With: FileIndex._with,
    ast.AsyncWith: FileIndex._with,
    **dict.fromkeys(_COMPREHENSIONS, FileIndex._comprehension),
    ast.FunctionDef: FileIndex._function,
    ast.AsyncFunctionDef: FileIndex._function,
    ast.Lambda: FileIndex._lambda,
    ast.ClassDef: FileIndex._class,
    ast.Import: FileIndex._import,
    ast.ImportFrom: FileIndex._import,
    ast.Return: FileIndex._return,
    ast.Yield: FileIndex._yield,
    ast.YieldFrom: FileIndex._yield,
    ast.Expr: FileIndex._expression,
    ast.ExceptHandler: FileIndex._handler,
    ast.Match: FileIndex._match,
    ast.Delete: FileIndex._delete,
}


def unpacked(node: ast.expr, route: Route) -> tuple[str, ast.expr]:
    """Follow an unpacking into a written-out tuple; else say that the target is a part of it."""
    while route and isinstance(node, ast.Tuple | ast.List):
        part = route[0]
        plain = not any(isinstance(item, ast.Starred) for item in node.elts)
        if not (plain and isinstance(part, int) and -len(node.elts) <= part < len(node.elts)):
            break
        node, route = node.elts[part], route[1:]
    return ("is a part of" if route else "is"), node


def _written(key: ast.expr) -> str | bytes | int | float | complex | None:
    value = key.value if isinstance(key, ast.Constant) else None
    return value if not isinstance(value, type(...)) else None


def parameters(node: Function) -> list[ast.arg]:
    """Return all parameters in the order of the signature, starred ones included."""
    arguments = node.args
    stars = [arguments.vararg] if arguments.vararg else []
    rest = [arguments.kwarg] if arguments.kwarg else []
    return [*arguments.posonlyargs, *arguments.args, *stars, *arguments.kwonlyargs, *rest]


def _own_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a function, those of inner functions and classes left out."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for name in ("body", "orelse", "finalbody"):
            yield from _own_statements(getattr(statement, name, []))
        for handler in getattr(statement, "handlers", []):
            yield from _own_statements(handler.body)
