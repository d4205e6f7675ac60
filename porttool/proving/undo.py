"""Turn a written port back: rewritten calls into what they were, wrapped objects into plain ones.

What is turned back is counted by the scope it stands in, so that it can be held against what was
decided. Works by names, and leaves the trees as they are; nothing of what wrote the port is used.
"""

from __future__ import annotations

import ast
import copy
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace

from porttool.frozen import dataclass
from porttool.learning.lesson import Rule
from porttool.proving.patterns import Bindings, Tail, match, parse_pattern
from porttool.source.scopes import top_level_name
from porttool.source.syntax import Names, dump

_VARIABLE = "__metavariable_"
_NO_CODE = ("ctx", "op")
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

Event = tuple[str, str]  # the scope by its dotted names, and the expression as `ast.unparse` has it


@dataclass(frozen=True)
class Template:
    """What a rule turns into what, as trees, and the name by which its result is recognised."""

    before: ast.expr
    after: ast.expr
    name: str | None


def templates(rules: Collection[Rule]) -> tuple[Template, ...]:
    """Return the rules as trees, the longest results first."""
    found = []
    for rule in rules:
        before, after = parse_pattern(rule.before), parse_pattern(rule.after)
        found.append(Template(before, after, last_name(after)))
    return tuple(sorted(found, key=lambda t: -len(ast.unparse(t.after))))


def parse_part(text: str) -> ast.expr:
    """Parse an expression that was cut out of a file; raises SyntaxError."""
    return ast.parse(f"({text}\n)", mode="eval").body


def last_name(node: ast.AST) -> str | None:
    """Return the last name of what a node calls, or is: "compile" of `th.compile(x)`."""
    node = node.func if isinstance(node, ast.Call) else node
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


@dataclass(frozen=True)
class GatedCall:
    """A call that hands an object through the gate: `_gated(torch.compile, net, config.on)`."""

    scope: str
    wrapper: str
    value: str
    test: str
    text: str


@dataclass
class Undone:
    """What was found while a tree was turned back; `expected` says what a result stood for.

    `routed` counts the results of rules, `wraps` the calls and mentions of a wrapper.
    """

    templates: tuple[Template, ...]
    wrappers: Collection[str]
    mentioned: Callable[[str | None], bool]  # whether a name in full is the wrapper's
    names: Names
    aliases: Collection[str]
    helpers: Collection[str] = ()  # trees of learned definitions, which hold calls of their own
    helper_names: Collection[str] = ()
    marked: Sequence[int] | None = None  # the lines that hold a word of interest; None for all
    expected: Mapping[Event, ast.expr] = field(default_factory=dict)
    wrapped: Mapping[Event, ast.expr] = field(default_factory=dict)
    gated: bool = False
    gates: list[GatedCall] = field(default_factory=list)
    routed: Counter[Event] = field(default_factory=Counter)
    wraps: Counter[Event] = field(default_factory=Counter)
    lines: dict[Event, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        texts = {text for _, text in self.wrapped}
        self.wrapped_types = {type(ast.parse(text, mode="eval").body) for text in texts}

    def afresh(self) -> Undone:
        """Return the same with nothing counted, for an expression beside the tree."""
        return replace(self, marked=None, routed=Counter(), wraps=Counter(), lines={}, gates=[])

    def module(self, tree: ast.Module) -> ast.Module:
        """Return a whole tree turned back; the tree itself stays as it is."""
        turned = self._turned(tree, "")
        assert isinstance(turned, ast.Module)
        return turned

    def statement(self, node: ast.stmt, scope: str) -> ast.AST:
        """Return one statement of a scope turned back."""
        return self._turned(node, scope)

    def expression(self, node: ast.expr, scope: str) -> ast.expr:
        """Return an expression turned back."""
        for template in self.templates:
            if not self._may_be(template, node):
                continue
            bindings = match(template.after, node, self.names)
            if bindings is not None and _agree(bindings):
                return self._routed(template, bindings, node, scope)
        is_wrapper = self._is_wrapper(node)
        turned = self._turned(node, scope)
        assert isinstance(turned, ast.expr)
        if self.gated and isinstance(turned, ast.Call) and self._is_gate_call(node):
            wrapper, value, test = (ast.unparse(argument) for argument in turned.args[:3])
            self.gates.append(GatedCall(scope, wrapper, value, test, ast.unparse(turned)))
            return turned.args[1]
        if is_wrapper:
            event = (scope, ast.unparse(turned))
            self.wraps[event] += 1
            self.lines.setdefault(event, node.lineno)
        if self.wrapped and type(turned) in self.wrapped_types:
            return self.wrapped.get((scope, ast.unparse(turned)), turned)
        return turned

    def _is_wrapper(self, node: ast.expr) -> bool:
        """Tell whether a node calls something of the wrapper's name, or mentions the wrapper."""
        if isinstance(node, ast.Call):
            return last_name(node) in self.wrappers
        return isinstance(node, ast.Name | ast.Attribute) and self._is_mention(node)

    def _is_mention(self, node: ast.expr) -> bool:
        return last_name(node) in self.wrappers and self.mentioned(self.names.qualified(node))

    def _is_gate_call(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and len(node.args) >= 3 and self._is_mention(node.args[0])

    def _may_be(self, template: Template, node: ast.expr) -> bool:
        """Tell cheaply whether a node can be a template's result, before it is matched."""
        if type(template.after) is not type(node):
            return False
        name = last_name(node)
        return template.name is None or name == template.name or name in self.aliases

    def _routed(
        self, template: Template, bindings: Bindings, node: ast.expr, scope: str
    ) -> ast.expr:
        found = {
            name: self._tail(values[0], scope)
            if isinstance(values[0], Tail)
            else self.expression(values[0], scope)
            for name, values in bindings.found.items()
        }
        event = (scope, ast.unparse(instantiate(template.after, found)))
        self.routed[event] += 1
        self.lines.setdefault(event, node.lineno)
        return self.expected.get(event) or instantiate(template.before, found)

    def _is_helper(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
        # The text of a tree begins with its kind and name; the whole is made for a likely one only.
        head = f"{type(node).__name__}({node.name!r},"
        return any(helper.startswith(head) for helper in self.helpers) and (
            dump(node) in self.helpers
        )

    def _tail(self, tail: Tail, scope: str) -> Tail:
        words = [
            ast.keyword(arg=word.arg, value=self.expression(word.value, scope))
            for word in tail.keywords
        ]
        return Tail(tuple(self.expression(arg, scope) for arg in tail.args), tuple(words))

    def _turned(self, node: ast.AST, scope: str) -> ast.AST:
        """Return a node with all below it turned back; the very node where nothing changes."""
        named = isinstance(node, ast.stmt) and top_level_name(node) in self.helper_names
        if named and dump(node) in self.helpers:
            return node
        if isinstance(node, _DEFINITIONS):
            scope = f"{scope}.{node.name}" if scope else node.name
        changed: dict[str, object] = {}
        for name in node._fields:
            value = getattr(node, name, None)
            if value.__class__ is list:
                parts = [self._part(part, scope) for part in value]
                if any(new is not old for new, old in zip(parts, value, strict=True)):
                    changed[name] = parts
            elif isinstance(value, ast.AST) and name not in _NO_CODE:
                # What is called is counted with its call.
                called = name == "func" and isinstance(value, ast.Name | ast.Attribute)
                part = self._turned(value, scope) if called else self._part(value, scope)
                if part is not value:
                    changed[name] = part
        if not changed:
            return node
        turned = copy.copy(node)
        for name, value in changed.items():
            setattr(turned, name, value)
        return turned

    def _part(self, node: object, scope: str) -> object:
        if isinstance(node, ast.expr):
            return self.expression(node, scope)
        if isinstance(node, ast.stmt) and not self._may_hold(node):
            return node
        return self._turned(node, scope) if isinstance(node, ast.AST) else node

    def _may_hold(self, node: ast.stmt) -> bool:
        """Tell cheaply whether anything of interest stands on the lines of a statement."""
        if self.marked is None:
            return True
        decorators = getattr(node, "decorator_list", None)
        first = decorators[0].lineno if decorators else node.lineno
        index = bisect_left(self.marked, first)
        return index < len(self.marked) and self.marked[index] <= (node.end_lineno or first)


def _agree(bindings: Bindings) -> bool:
    """Tell whether a metavariable that a template has twice stands for the same both times."""
    return all(
        dump(other) == dump(values[0])
        for values in bindings.found.values()
        for other in values[1:]
        if isinstance(values[0], ast.AST) and isinstance(other, ast.AST)
    )


def instantiate(pattern: ast.expr, found: Mapping[str, ast.expr | Tail]) -> ast.expr:
    """Return a pattern's tree with its metavariables filled in."""
    result = _Filled(found).visit(copy.deepcopy(pattern))
    assert isinstance(result, ast.expr)
    return result


def fill(pattern: ast.expr, node: ast.expr, names: Names, template: ast.expr) -> ast.expr | None:
    """Return what a template becomes for a node that a pattern matches; None where it does not."""
    bindings = match(pattern, node, names)
    if bindings is None:
        return None
    return instantiate(template, {name: values[0] for name, values in bindings.found.items()})


class _Filled(ast.NodeTransformer):
    def __init__(self, found: Mapping[str, ast.expr | Tail]) -> None:
        self._found = found

    def visit_Name(self, node: ast.Name) -> ast.AST:
        value = self._found.get(node.id.removeprefix(_VARIABLE))
        if node.id.startswith(_VARIABLE) and isinstance(value, ast.expr):
            return copy.deepcopy(value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        last = node.args[-1] if node.args else None
        name = last.id.removeprefix(_VARIABLE) if isinstance(last, ast.Name) else ""
        tail = self._found.get(name)
        if isinstance(tail, Tail):
            node.args = [*node.args[:-1], *copy.deepcopy(tail.args)]
            node.keywords = [*node.keywords, *copy.deepcopy(tail.keywords)]
        self.generic_visit(node)
        return node
