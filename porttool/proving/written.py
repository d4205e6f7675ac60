"""Hold a written port against what was decided: every place done, and nothing else.

Written apart from what writes: trees are turned back (`undo`) and counted, scope by scope. With a
switch the off-proof shows that nothing else changed; without one, the tree turned back has to be
onto's, but for helpers, imports and the statements that the experiment added.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import PurePosixPath

from porttool.frozen import dataclass
from porttool.learning.lesson import Lesson, Rule
from porttool.proving.guards import Wrap, gate_faults
from porttool.proving.patterns import parse_pattern
from porttool.proving.undo import Event, Undone, fill, instantiate, last_name, parse_part, templates
from porttool.source.nodes import KEPT, children, nodes_of
from porttool.source.scopes import bound_anywhere, bound_names, imported_names
from porttool.source.syntax import Names, Source, Span, dump, line_at, same_tree, span_of

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Rewrite:
    """A place that was decided to be rewritten, by which rule."""

    path: str
    span: Span
    text: str
    rule: str


@dataclass(frozen=True)
class Fault:
    """Something that was written and not decided, or decided and not written."""

    path: str
    line: int
    text: str


class WrittenAudit:
    """Holds written ports against what was decided; onto's files are turned back once for all."""

    def __init__(
        self,
        onto: Mapping[str, Source],
        lesson: Lesson,
        rewrites: Sequence[Rewrite],
        wraps: Sequence[Wrap],
    ) -> None:
        self._lesson = lesson
        self._files = [_Onto(path, onto[path], lesson, rewrites, wraps) for path in onto]

    @property
    def paths(self) -> list[str]:
        """The files that matter to the port."""
        return [onto.path for onto in self._files]

    def faults(self, written: Mapping[str, Source], gate: str | None) -> tuple[Fault, ...]:
        """Return what is wrong with the written files, which hold all of `paths`.

        `gate` is how the switch is read, None without a switch.
        """
        found = [
            fault
            for onto in self._files
            for fault in _File(onto, written[onto.path], gate).faults()
        ]
        return (*found, *_imported_helpers(written, self._lesson))


@dataclass(frozen=True, eq=False)
class _TurnedBack:
    """One file of onto turned back: what was found, the tree, and what is expected of a port."""

    undone: Undone
    tree: ast.Module
    rewrites: Mapping[Event, list[ast.expr]]
    wraps: Counter[Event]
    plain: Mapping[Event, ast.expr]
    faults: Sequence[Fault]


class _Onto:
    """One file before, with what was decided about it."""

    def __init__(
        self,
        path: str,
        source: Source,
        lesson: Lesson,
        rewrites: Sequence[Rewrite],
        wraps: Sequence[Wrap],
    ) -> None:
        self.path = path
        self.source = source
        self.lesson = lesson
        self.rules = {rule.name: rule for rule in lesson.rules}
        self.rewrites = [rewrite for rewrite in rewrites if rewrite.path == path]
        self.wraps = [wrap for wrap in wraps if wrap.path == path]
        self.helpers = {dump(ast.parse(helper.text).body[0]) for helper in lesson.helpers}
        self._templates = templates(lesson.rules)
        self._wrappers = {name.rpartition(".")[2] for name in lesson.wrapper.names}
        for wrap in self.wraps:
            call = parse_pattern(wrap.call)
            # What goes over a container is no wrapper: `$X.items()`, `list(map(wrap, $X))`.
            made = [node for node in ast.walk(call) if isinstance(node, ast.Call) and node.args]
            called = {last_name(node) for node in made} - {"list", "map"}
            self._wrappers |= {name for name in called if name}

    @cached_property
    def turned_back(self) -> _TurnedBack:
        """What it is turned back, worked out where something was decided or is changed."""
        undone = self.undo(self.source)
        rewrites, faults = self._expected(undone)
        wraps, plain = self._expected_wraps(undone)
        tree = undone.module(self.source.tree)
        return _TurnedBack(undone, tree, rewrites, wraps, plain, faults)

    def undo(self, source: Source) -> Undone:
        """Return what turns a side of the file back, with nothing found yet."""
        tree = source.tree
        aliases = {
            alias.asname
            for node in nodes_of(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
            if alias.asname
        }
        names = {template.name for template in self._templates}
        marked = None
        if None not in names:
            words = {*self._wrappers, *aliases, *(name for name in names if name)}
            pattern = re.compile("|".join(map(re.escape, sorted(words))))
            found = pattern.finditer(source.text)
            marked = sorted({line_at(source, at.start()) for at in found})
        return Undone(
            templates=self._templates,
            wrappers=self._wrappers,
            mentioned=self.lesson.wrapper.is_called,
            names=Names(tree),
            aliases=aliases,
            helpers=self.helpers,
            helper_names={helper.name.rpartition(".")[2] for helper in self.lesson.helpers},
            marked=marked,
        )

    def _expected(self, onto: Undone) -> tuple[dict[Event, list[ast.expr]], list[Fault]]:
        """Return each rewrite as the text that it gives in its scope, and what that stood for."""
        found: dict[Event, list[ast.expr]] = {}
        faults = []
        places = _places(self.source, self.rewrites)
        for rewrite in self.rewrites:
            line = line_at(self.source, rewrite.span.start)
            rule, place = self.rules.get(rewrite.rule), places.get(rewrite.span)
            done = self._done(rule, *place, onto) if rule and place else None
            if done is None or place is None:
                faults.append(
                    Fault(self.path, line, f"`{_flat(rewrite.text)}` cannot be told apart")
                )
                continue
            text, node = done
            found.setdefault((place[0], text), []).append(node)
        return found, faults

    def _done(
        self, rule: Rule, scope: str, there: ast.expr, onto: Undone
    ) -> tuple[str, ast.expr] | None:
        undone = onto.afresh()
        node = undone.expression(there, scope)
        before, after = parse_pattern(rule.before), parse_pattern(rule.after)
        result = fill(before, node, undone.names, after)
        return None if result is None else (ast.unparse(result), node)

    def _expected_wraps(self, onto: Undone) -> tuple[Counter[Event], dict[Event, ast.expr]]:
        """Return the wrapper calls that the seeds add, and what each wrapped text stands for."""
        wanted: Counter[Event] = Counter()
        plain: dict[Event, ast.expr] = {}
        for wrap in self.wraps:
            if wrap.statement is not None:
                undone = onto.afresh()
                decorates = f"def {wrap.target}(): ..." if wrap.kind == "decorator" else ""
                for statement in ast.parse(wrap.statement + decorates).body:
                    undone.statement(statement, wrap.scope)
                wanted += undone.wraps
                continue
            undone = onto.afresh()
            value = undone.expression(parse_part(wrap.value), wrap.scope)
            whole = instantiate(parse_pattern(wrap.call), {"X": value})
            around = onto.afresh()
            around.expression(whole, wrap.scope)
            wanted += around.wraps - undone.wraps
            plain[wrap.scope, ast.unparse(whole)] = value
        return wanted, plain

    def added_statements(self) -> Iterator[str]:
        """Yield the statements that the experiment added, as trees."""
        for wrap in self.wraps:
            if wrap.statement is not None and wrap.kind != "decorator":
                yield from map(dump, ast.parse(wrap.statement).body)


class _File:
    """One file before and after."""

    def __init__(self, onto: _Onto, written: Source, gate: str | None) -> None:
        self._onto, self._written, self._gate = onto, written, gate

    def faults(self) -> Iterator[Fault]:
        """Yield what is wrong with this file."""
        onto = self._onto
        same = onto.source.data == self._written.data
        if same and not onto.rewrites and not onto.wraps:
            return
        back = onto.turned_back
        yield from back.faults
        after = replace(
            onto.undo(self._written),
            expected={event: nodes[0] for event, nodes in back.rewrites.items()},
            wrapped={} if self._gate else back.plain,
            gated=self._gate is not None,
        )
        new = after.module(self._written.tree)
        before = back.undone
        wanted = Counter({event: len(nodes) for event, nodes in back.rewrites.items()})
        yield from self._counted(wanted, before.routed, after.routed, after, "rewritten")
        if self._gate is None:
            yield from self._counted(back.wraps, before.wraps, after.wraps, after, "wrapped")
            yield from self._block(back.tree.body, new.body, Counter(onto.added_statements()))
        else:
            found = gate_faults(
                self._gate, onto.source.tree, self._written.tree, onto.wraps, (before, after)
            )
            yield from (self._fault(line, text) for line, text in found)
        yield from self._required()
        yield from self._unresolved()

    def _fault(self, line: int, text: str) -> Fault:
        return Fault(self._onto.path, line, text)

    def _counted(
        self,
        wanted: Counter[Event],
        before: Counter[Event],
        after: Counter[Event],
        undone: Undone,
        word: str,
    ) -> Iterator[Fault]:
        for event in sorted({*wanted, *before, *after}):
            found = after[event] - before[event]
            if found == wanted[event]:
                continue
            scope, text = event
            where = f" in {scope}" if scope else ""
            line = undone.lines.get(event, 1)
            if found < wanted[event]:
                yield self._fault(line, f"`{text}` should be there{where}, and is not {word}")
            else:
                yield self._fault(line, f"`{text}` is {word}{where}, and nobody decided that")

    def _block(
        self, old: Sequence[ast.stmt], new: Sequence[ast.stmt], added: Counter[str]
    ) -> Iterator[Fault]:
        """Yield the first place where a block, turned back, is not onto's."""
        index = 0
        for statement in new:
            mine = old[index] if index < len(old) else None
            if mine is not None and same_tree(mine, statement):
                index += 1
                continue
            if self._is_added(statement, added):
                continue
            found = list(self._statement(mine, statement, added))
            yield from found
            if found:
                return
            index += 1
        if index < len(old):
            yield self._fault(1, f"onto's `{_head(old[index])}` is lost")

    def _statement(
        self, old: ast.stmt | None, new: ast.stmt, added: Counter[str]
    ) -> Iterator[Fault]:
        changed = f"`{_head(new)}` is not what onto has there, and nobody decided that"
        if old is None or type(old) is not type(new):
            yield self._fault(new.lineno, changed)
            return
        if isinstance(old, ast.ImportFrom) and isinstance(new, ast.ImportFrom):
            names = {(a.name, a.asname) for a in old.names} <= {
                (a.name, a.asname) for a in new.names
            }
            if not names or (old.module, old.level) != (new.module, new.level):
                yield self._fault(new.lineno, changed)
            return
        for name, value in ast.iter_fields(old):
            other = getattr(new, name)
            blocks = isinstance(value, list) and any(
                isinstance(v, ast.stmt) for v in [*value, *other]
            )
            if blocks:
                yield from self._block(value, other, added)
            elif name == "decorator_list":
                kept = [part for part in other if not self._is_decorator(part)]
                if [dump(part) for part in value] not in (
                    [dump(p) for p in other],
                    [dump(p) for p in kept],
                ):
                    yield self._fault(new.lineno, changed)
            elif isinstance(value, list) and value and isinstance(value[0], ast.AST):
                yield from self._parts(value, other, added, new.lineno, changed)
            elif _as_text(value) != _as_text(other):
                yield self._fault(new.lineno, changed)

    def _parts(
        self,
        old: Sequence[ast.AST],
        new: Sequence[ast.AST],
        added: Counter[str],
        line: int,
        changed: str,
    ) -> Iterator[Fault]:
        """Compare handlers and cases, which hold blocks without being statements."""
        if len(old) != len(new):
            yield self._fault(line, changed)
            return
        for one, other in zip(old, new, strict=True):
            bodies = getattr(one, "body", None), getattr(other, "body", None)
            if isinstance(bodies[0], list) and isinstance(bodies[1], list):
                yield from self._block(bodies[0], bodies[1], added)
            elif not same_tree(one, other):
                yield self._fault(line, changed)

    def _is_added(self, statement: ast.stmt, added: Counter[str]) -> bool:
        """Tell whether the port adds a statement: helpers, imports, what the experiment added."""
        text = dump(statement)
        if added[text] > 0:
            added[text] -= 1
            return True
        if isinstance(statement, ast.Import | ast.ImportFrom):
            # One that something reads now, and that the file did not have at its top before.
            names, file = imported_names(statement), Names(self._onto.source.tree)
            bound = any(file.binds(name, self._onto.source.tree) for name in names)
            return names <= _read(self._written.tree) and not bound
        return text in self._onto.helpers

    def _is_decorator(self, node: ast.expr) -> bool:
        return any(
            wrap.kind == "decorator" and wrap.statement and ast.unparse(node) in wrap.statement
            for wrap in self._onto.wraps
        )

    def _required(self) -> Iterator[Fault]:
        """Yield helpers that the rewritten places need and that the file does not have once."""
        rules = {rewrite.rule for rewrite in self._onto.rewrites}
        needed = {
            name
            for rule in rules
            if rule in self._onto.rules
            for name in self._onto.rules[rule].requires
        }
        for name in sorted(needed):
            if "." in name:
                yield from self._method(name)
                continue
            old = [node for node in self._onto.source.tree.body if name in bound_names([node])]
            new = [node for node in self._written.tree.body if name in bound_names([node])]
            if len(new) != max(len(old), 1):
                yield self._fault(1, f"{name} is there {len(new)} times, expected once")
            learned = any(helper.name == name for helper in self._onto.lesson.helpers) and not old
            for node in new if learned else ():
                if isinstance(node, _DEFINITIONS) and dump(node) not in self._onto.helpers:
                    yield self._fault(node.lineno, f"{name} is not the one that was learned")

    def _method(self, name: str) -> Iterator[Fault]:
        """Yield why the class of a learned method, where it is in this file, does not have it."""
        owner, _, method = name.rpartition(".")
        learned = any(helper.name == name for helper in self._onto.lesson.helpers)
        for node in self._written.tree.body if learned else ():
            if isinstance(node, ast.ClassDef) and node.name == owner:
                found = sum(method in bound_names([one]) for one in node.body)
                if found != 1:
                    yield self._fault(node.lineno, f"{name} is there {found} times, expected once")

    def _unresolved(self) -> Iterator[Fault]:
        """Yield names that the written file reads and nothing gives it."""
        old, new = _unbound(self._onto.source.tree), _unbound(self._written.tree)
        for name in sorted(new.keys() - old.keys()):
            yield self._fault(new[name], f"the name {name} means nothing in this file")


def _imported_helpers(written: Mapping[str, Source], lesson: Lesson) -> Iterator[Fault]:
    """Yield imports of helpers from files that do not define them."""
    helpers = {helper.name for helper in lesson.helpers if "." not in helper.name}
    for path, source in written.items():
        for node in nodes_of(source.tree) if any(name in source.text for name in helpers) else ():
            if not isinstance(node, ast.ImportFrom):
                continue
            stem = (node.module or "").rpartition(".")[2]
            homes = [home for home in written if PurePosixPath(home).stem == stem and stem]
            for name in sorted(imported_names(node) & helpers):
                if homes and not any(
                    name in bound_names(written[home].tree.body) for home in homes
                ):
                    yield Fault(path, node.lineno, f"{name} is imported from where it is not")


def _places(source: Source, rewrites: Sequence[Rewrite]) -> dict[Span, tuple[str, ast.expr]]:
    """Return each place's scope, by dotted names, and the expression that stands there."""
    lines = {line_at(source, rewrite.span.start) for rewrite in rewrites}
    spans = {rewrite.span for rewrite in rewrites}
    found: dict[Span, tuple[str, ast.expr]] = {}
    stack: list[tuple[ast.AST, str]] = [(source.tree, "")]
    while stack:
        node, scope = stack.pop()
        if isinstance(node, _DEFINITIONS):
            scope = f"{scope}.{node.name}" if scope else node.name
        elif isinstance(node, ast.expr) and node.lineno in lines:
            span = span_of(source, node)
            if span in spans:
                found.setdefault(span, (scope, node))
        stack += [(child, scope) for child in children(node)]
    return found


@lru_cache(maxsize=KEPT)
def _unbound(tree: ast.Module) -> dict[str, int]:
    """Return the names that a file reads and nowhere binds, with the line of the first.

    What a star import gives counts as not bound: the port must not begin to rely on it.
    """
    bound = bound_anywhere(tree)
    found: dict[str, int] = {}
    for node in nodes_of(tree):
        if isinstance(node, ast.Name) and node.id not in bound and not hasattr(builtins, node.id):
            found.setdefault(node.id, node.lineno)
    return found


def _read(tree: ast.Module) -> set[str]:
    return {node.id for node in nodes_of(tree) if isinstance(node, ast.Name)}


def _as_text(value: object) -> str:
    return dump(value) if isinstance(value, ast.AST) else repr(value)


def _head(node: ast.AST) -> str:
    return ast.unparse(node).split("\n")[0]


def _flat(text: str) -> str:
    return " ".join(text.split())
