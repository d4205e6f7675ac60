"""Take the switch to be off: put False where the code reads it and fold what follows from that.

Only what the switch decides is folded; a constant that was there before stays as it is. Code that
falls away must not have mattered by merely standing there, as `yield` and assignments do inside a
function: whatever did is a problem, and a problem means that nothing is proven.
"""

from __future__ import annotations

import ast
import copy
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

from porttool.frozen import dataclass
from porttool.gating.config_scope import config_spellings
from porttool.gating.flat import flat_reads
from porttool.plan.switch import FlatSwitch, Switch, SwitchPlan
from porttool.source.nodes import children, nodes_of, walk
from porttool.source.scopes import Function, bound_names, identifiers, local_names, own_nodes
from porttool.source.syntax import SCOPES, Source, enclosing_scope, parents, same_tree

_Position = tuple[int, int, int | None, int | None]
_Node = TypeVar("_Node", bound=ast.AST)
_READS = (ast.Attribute, ast.Name)

# What a call form may look like: it gives back the very object when it is off.
GATED_FORMS = (
    "def _gated(wrap, module, enabled):\n    return wrap(module) if enabled else module\n",
    "def _gated(wrap, module, enabled, **options):\n"
    "    return wrap(module, **options) if enabled else module\n",
)


@dataclass(frozen=True)
class Problem:
    """Something at a line that stands against the proof."""

    line: int
    text: str


@dataclass(frozen=True)
class Folded:
    """A file's tree as it is when the switch is off."""

    tree: ast.Module
    problems: tuple[Problem, ...]
    roots: tuple[str, ...]  # "`config` at line 80": what was taken to be the config
    pure: frozenset[_Position]  # reads of the switch's own options, which have no effect


def switch_paths(switch: SwitchPlan) -> dict[tuple[str, ...], object]:
    """Return every option of the switch as a path of keys, with its default."""
    return {
        (switch.key, section.key, field.name): field.default
        for section in switch.sections
        for field in section.fields
    }


def fold(
    source: Source, switch: Switch | None, sources: Mapping[str, Source] | None = None
) -> Folded:
    """Return the tree with every gate of the switch off, and what speaks against trusting it.

    `sources` are the files among which a flat switch's settings are looked for.
    """
    if switch is None:
        return Folded(source.tree, (), (), frozenset())
    if isinstance(switch, FlatSwitch):
        reads = _flat(source, switch, sources or {source.path: source})
    else:
        nested = _Reads(source, switch)
        nested.find()
        reads = nested
    if not reads.off:
        return Folded(source.tree, tuple(reads.problems), (), frozenset(reads.pure))
    folder = _Folder(reads, _gate_functions(source.tree))
    tree = folder.visit(source.tree)
    problems = [*reads.problems, *folder.problems]
    problems += _scope_problems(folder.removed)
    return Folded(tree, tuple(problems), tuple(dict.fromkeys(reads.roots)), frozenset(reads.pure))


def position(node: ast.AST) -> _Position:
    """Return where a node stands; two parses of one text agree on it."""
    expression = node if isinstance(node, ast.expr | ast.stmt) else ast.Pass(lineno=0, col_offset=0)
    return (
        expression.lineno,
        expression.col_offset,
        getattr(expression, "end_lineno", None),
        getattr(expression, "end_col_offset", None),
    )


@dataclass
class _Found:
    """Where a file reads the switch."""

    off: set[_Position]
    pure: set[_Position]
    problems: list[Problem]
    roots: list[str]


def _flat(source: Source, switch: FlatSwitch, sources: Mapping[str, Source]) -> _Found:
    """Note every read of a flat switch, and what looks like one and is not known to be."""
    found = _Found(set(), set(), [], [])
    for node, why in flat_reads(sources, source, switch):
        if why is not None:
            found.problems.append(Problem(node.lineno, why))
            continue
        found.off.add(position(node))
        found.pure.add(position(node))
        found.roots.append(f"`{ast.unparse(node)}` at {source.path}:{node.lineno}")
    return found


class _Reads(_Found):
    """Where a file reads the switch, through the config or a local name for a part of it."""

    def __init__(self, source: Source, switch: SwitchPlan) -> None:
        super().__init__(set(), set(), [], [])
        self._source = source
        self._switch = switch
        self._above = parents(source.tree)
        self._options = switch_paths(switch)
        self._known: dict[ast.AST, frozenset[str]] = {}
        self._aliases: dict[ast.AST, dict[str, ast.Assign]] = {}

    def find(self) -> None:
        """Note every read of a gate, and every read of an option or a section."""
        prefixes = {path[:end] for path in self._options for end in (1, 2, 3)}
        gate_name = self._switch.enabled.name
        # An alias and what it stands for are in one scope, so a read has its scope name the key.
        scopes = {
            enclosing_scope(node, self._above)
            for node in nodes_of(self._source.tree)
            if isinstance(node, ast.Attribute) and node.attr == self._switch.key
        }
        if not scopes:
            return
        inside = {node for scope in scopes for node in _directly_in(scope)}
        for node in nodes_of(self._source.tree):
            if not isinstance(node, _READS) or not isinstance(node.ctx, ast.Load):
                continue
            if node not in inside:
                continue
            chain = self._chain(node)
            if chain is None:
                continue
            base, path = chain
            if path not in prefixes:
                continue
            if base not in self._roots_at(node):
                if isinstance(node, ast.Attribute) and path in self._options:
                    text = ast.unparse(node)
                    self.problems.append(
                        Problem(
                            node.lineno,
                            f"`{base}` in `{text}` is not known to be a {self._switch.root}",
                        )
                    )
                continue
            self.pure.add(position(node))
            is_gate = len(path) == 3 and path[-1] == gate_name and self._options[path] is False
            if is_gate:
                self.off.add(position(node))
                self.roots.append(f"`{base}` at {self._source.path}:{node.lineno}")

    def _roots_at(self, node: ast.AST) -> frozenset[str]:
        """Return the spellings of the config that hold at a node."""
        scope = enclosing_scope(node, self._above)
        if scope not in self._known:
            found = config_spellings(self._source, scope, self._switch)
            self._known[scope] = frozenset(
                f"{spelling.text}\n{spelling.from_line}" for spelling in found
            )
        line = getattr(node, "lineno", 0)
        pairs = (entry.split("\n") for entry in self._known[scope])
        return frozenset(text for text, start in pairs if int(start) <= line)

    def _chain(self, node: ast.expr) -> tuple[str, tuple[str, ...]] | None:
        """Split `config.compile.trainer.mode` into base and path, seeing through local names."""
        tail: list[str] = []
        seen: set[str] = set()
        here = node
        while True:
            while isinstance(here, ast.Attribute):
                tail.insert(0, here.attr)
                here = here.value
            if not isinstance(here, ast.Name):
                return None
            value = None if here.id in seen else self._alias(here)
            if value is None:
                break
            seen.add(here.id)
            here = value
        words = [here.id, *tail]
        if self._switch.key not in words[1:]:
            return None
        cut = words.index(self._switch.key, 1)
        return ".".join(words[:cut]), tuple(words[cut:])

    def _alias(self, name: ast.Name) -> ast.expr | None:
        """Return what a local name stands for when one top-level assignment above gave it."""
        scope = enclosing_scope(name, self._above)
        if not isinstance(scope, Function):
            return None
        if scope not in self._aliases:
            self._aliases[scope] = _single_assignments(scope)
        statement = self._aliases[scope].get(name.id)
        return statement.value if statement and statement.lineno < name.lineno else None


def _directly_in(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes whose innermost module, class, function or lambda is `scope`."""
    todo = children(scope)
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, SCOPES):
            todo += children(node)


def _single_assignments(function: Function) -> dict[str, ast.Assign]:
    """Return the assignments of plain names and attributes to locals that get no other value."""
    stores: Counter[str] = Counter(
        node.id
        for node in own_nodes(function.body)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    )
    scoped = bound_names(function.body)
    found = {}
    for statement in function.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            once = stores[name] == 1 and name in scoped and len(statement.targets) == 1
            if once and isinstance(statement.value, ast.Attribute | ast.Name):
                found[name] = statement
    return found


def _gate_functions(tree: ast.Module) -> frozenset[str]:
    """Return the functions that hand back their second argument when the third is False."""
    found = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.decorator_list:
            nameless = _nameless(node)
            if any(same_tree(form, nameless) for form in _gated_forms()):
                found.add(node.name)
    return frozenset(name for name in found if bound_once(tree, name))


@cache
def _gated_forms() -> tuple[ast.FunctionDef, ...]:
    forms = [ast.parse(form).body[0] for form in GATED_FORMS]
    return tuple(_nameless(form) for form in forms if isinstance(form, ast.FunctionDef))


def bound_once(tree: ast.Module, name: str) -> bool:
    """Tell whether one top-level statement binds a name and no function has such a local."""
    top = sum(name in bound_names([statement]) for statement in tree.body)
    inner = any(
        name in local_names(node)
        for node in walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return top == 1 and not inner


def _nameless(node: ast.FunctionDef) -> ast.FunctionDef:
    """Return a function without its name and docstring."""
    bare = ast.FunctionDef(**{field: getattr(node, field) for field in node._fields})
    bare.name = ""
    bare.body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return bare


@dataclass(frozen=True)
class _Removed:
    function: Function | None
    nodes: tuple[ast.AST, ...]
    line: int


class _Folder(ast.NodeTransformer):
    def __init__(self, reads: _Found, gate_functions: frozenset[str]) -> None:
        self._reads = reads
        self._gates = gate_functions
        self._lines = sorted({line for line, *_ in reads.off})
        self._function: list[Function | None] = [None]
        self._made: set[ast.AST] = set()  # constants that stand for the switch
        self.removed: list[_Removed] = []
        self.problems: list[Problem] = []

    def _off(self, at: ast.AST, value: bool) -> ast.Constant:
        constant = ast.copy_location(ast.Constant(value), at)
        self._made.add(constant)
        return constant

    def _decided(self, node: ast.AST) -> bool | None:
        """Return what the switch makes of a test, None when it does not decide it."""
        if isinstance(node, ast.Constant) and node in self._made:
            return bool(node.value)
        return None

    def _drop(self, nodes: Iterable[ast.AST]) -> None:
        gone = tuple(nodes)
        if gone:
            line = int(getattr(gone[0], "lineno", 0))
            self.removed.append(_Removed(self._function[-1], gone, line))

    def visit(self, node: ast.AST) -> Any:
        """Return a node folded, and leave it itself as it is: others read the same tree.

        Goes into a statement only where the switch is read on one of its lines.
        """
        if isinstance(node, ast.stmt):
            first, last = node.lineno, node.end_lineno or node.lineno
            for decorator in getattr(node, "decorator_list", ()):
                first = min(first, decorator.lineno)
            at = bisect_left(self._lines, first)
            if at == len(self._lines) or self._lines[at] > last:
                return node
        if node._fields:
            own = copy.copy(node)
            for name, value in ast.iter_fields(node):
                if isinstance(value, list):
                    setattr(own, name, [*value])
            node = own
        return super().visit(node)

    def _scoped(self, node: _Node, function: Function | None) -> _Node:
        self._function.append(function)
        try:
            self.generic_visit(node)
        finally:
            self._function.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._scoped(node, node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._scoped(node, node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._scoped(node, None)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.ctx, ast.Load) and position(node) in self._reads.off:
            return self._off(node, False)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if isinstance(node.ctx, ast.Load) and position(node) in self._reads.off:
            return self._off(node, False)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        return self._off(node, False) if self._is_read(node) else self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        return self._off(node, False) if self._is_read(node) else self.generic_visit(node)

    def _is_read(self, node: ast.expr) -> bool:
        return position(node) in self._reads.off

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        value = self._decided(node.operand)
        if value is not None and isinstance(node.op, ast.Not):
            return self._off(node, not value)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        stops = isinstance(node.op, ast.Or)  # the value that ends the evaluation
        kept = list(node.values)
        while kept:
            value = self._decided(kept[0])
            if value is None:
                break
            if value == stops:
                self._drop(kept[1:])
                return self._off(node, stops)
            kept = kept[1:]
        if not kept:
            return self._off(node, not stops)
        if len(kept) == 1:
            return kept[0]
        node.values = kept
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        value = self._decided(node.test)
        if value is None:
            return node
        self._drop([node.orelse if value else node.body])
        return node.body if value else node.orelse

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        value = self._decided(node.test)
        if value is None:
            return node
        self._drop(node.orelse if value else node.body)
        return node.body if value else node.orelse

    def visit_While(self, node: ast.While) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        if self._decided(node.test) is False:
            self._drop(node.body)
            return node.orelse
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if self._is_read(node):
            return self._off(node, False)
        self.generic_visit(node)
        if (
            isinstance(node.func, ast.Name)
            and node.func.id in self._gates
            and len(node.args) == 3
            and self._decided(node.args[2]) is False
            and self._is_plain(node.args[0])
            and all(word.arg and self._is_plain(word.value) for word in node.keywords)
        ):
            return node.args[1]
        return node

    def _is_plain(self, node: ast.expr) -> bool:
        """Tell whether evaluating an expression does nothing: constants, names, option reads."""
        if position(node) in self._reads.pure or isinstance(node, ast.Constant):
            return True
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name)


def _scope_problems(removed: Sequence[_Removed]) -> list[Problem]:
    """Return what removed code did to its function by merely standing in it."""
    problems = []
    for part in removed:
        inside = list(own_nodes(part.nodes))
        if part.function is None:
            continue
        if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in inside) and not any(
            isinstance(node, ast.Yield | ast.YieldFrom) for node in own_nodes(part.function.body)
        ):
            problems.append(Problem(part.line, "a `yield` behind the switch makes a generator"))
        if any(isinstance(node, ast.Global | ast.Nonlocal) for node in inside):
            problems.append(Problem(part.line, "a scope declaration stands behind the switch"))
        gone = bound_names(part.nodes)
        if not gone:
            continue
        surviving = ast.Module(body=list(part.function.body), type_ignores=[])
        orphans = (gone - local_names(part.function)) & identifiers(surviving)
        for name in sorted(orphans):
            problems.append(
                Problem(part.line, f"`{name}` is bound behind the switch and read outside of it")
            )
    return problems
