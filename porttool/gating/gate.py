"""Put the experiment's seeds behind the switch, the least invasive way that works.

**Guard**: construct plain, bind optimizers, re-bind under `if config.compile.trainer.enabled:`.
**Call**: where there is nothing to re-bind (a returned value, an argument), a small function that
gives back the very object when the switch is off. What neither can do is for a person to decide.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping, Sequence

from porttool.deciding.edits import respelled_statement
from porttool.deciding.sites import Decision, PlacedSeed, site_key
from porttool.frozen import dataclass
from porttool.gating.config_scope import Unclear, config_expression, config_spellings
from porttool.gating.flat import read_flat, shaped_like_a_read
from porttool.gating.idioms.values import SwitchRead
from porttool.gating.placement import common_block, leave_loops, room_for_guard, used_between
from porttool.gating.rebinding import (
    Rebinding,
    Wrap,
    added_lines,
    as_written,
    call_text,
    fresh_name,
    guards,
    plain_call,
    rebinding_line,
    safely_imported,
    shape_of,
)
from porttool.learning.lesson import Lesson
from porttool.plan.switch import FlatSwitch, Switch, SwitchPlan
from porttool.proving.fold import GATED_FORMS
from porttool.proving.patterns import plain_reads
from porttool.source.imports import import_module, import_names
from porttool.source.inserts import insert_definition
from porttool.source.layout import DEFAULT_LINE_LENGTH, exploded
from porttool.source.nodes import nodes_of, walk
from porttool.source.scopes import Function, bound_names, identifiers, local_names
from porttool.source.syntax import (
    Names,
    Source,
    TextEdit,
    indent_of,
    line_start,
    parents,
    same_tree,
    span_of,
    statement_span,
)

Runs = Function | ast.Module  # what runs a statement

# How calls start that wrap what is in a container, and not the container itself.
_ELEMENTWISE = ("[", "{", "list(")


class _Ask(Exception):
    """A seed that only a person can gate."""


@dataclass(frozen=True)
class _Item:
    """One object to be wrapped: what it is bound to, how, and by which statement."""

    placed: PlacedSeed
    binding: ast.stmt
    value: ast.expr
    wrap: Wrap


@dataclass(frozen=True)
class _Reading:
    """How a function reads the switch, and the config, which has the wrapper's options."""

    test: str
    from_line: int
    config: str = ""


def gate_edits(
    source: Source,
    placed: Sequence[PlacedSeed],
    switch: Switch,
    lesson: Lesson,
    *,
    line_length: int = DEFAULT_LINE_LENGTH,
    sources: Mapping[str, Source] | None = None,
) -> tuple[tuple[TextEdit, ...], tuple[Decision, ...]]:
    """Return the edits that gate one file's seeds, and a question for each seed that has to ask.

    Edits are inserts, so they go together with edits of sites in the same file; a seed that the
    file wraps already, without a gate, is unwrapped. One that is gated is left alone. `sources` are
    the files among which a flat switch's settings are looked for.
    """
    gate = _Gate(source, switch, lesson, line_length, sources or {source.path: source})
    groups: dict[Runs, list[_Item]] = {}
    for seed in placed:
        try:
            if seed.kind == "statement" or gate.decorates_at_import(seed):
                gate.added(seed)
                continue
            function, item = gate.locate(seed)
        except _Ask as question:
            gate.ask(seed, str(question))
            continue
        if item is not None:
            groups.setdefault(function, []).append(item)
    gate.with_options |= any(item.wrap.options for items in groups.values() for item in items)
    for function, items in groups.items():
        gate.function(function, items)
    return tuple(gate.edits), tuple(gate.asks)


class _Gate:
    """One file while its seeds are gated; holds what they have in common."""

    def __init__(
        self,
        source: Source,
        switch: Switch,
        lesson: Lesson,
        line_length: int,
        sources: Mapping[str, Source],
    ) -> None:
        self._source = source
        self._sources = sources
        self._switch = switch
        self._wrapper = lesson.wrapper
        self._imports = lesson.imports
        self._width = line_length
        self._above = parents(source.tree)
        self._names = Names(source.tree)
        self._module_names = bound_names(source.tree.body)
        self._statements = {
            span: node
            for node in nodes_of(source.tree)
            if isinstance(node, ast.stmt)
            for span in (span_of(source, node), statement_span(source, node))
        }
        self._helper: str | None = None
        self.with_options = bool(switch.options)  # whether a call may hand options on
        self._counts: dict[tuple[str, str], int] = {}
        self.edits: list[TextEdit] = []
        self.asks: list[Decision] = []

    def ask(self, seed: PlacedSeed, *reasons: str) -> None:
        """Note a question about a seed."""
        text = self._source.text[seed.value.start : seed.value.end]
        place = (seed.scope, text)
        self._counts[place] = self._counts.get(place, 0) + 1
        column = seed.value.start - line_start(self._source, seed.value.start)
        self.asks.append(
            Decision(
                key=site_key(self._source.path, seed.scope, text, self._counts[place]),
                path=self._source.path,
                line=seed.line,
                column=column,
                text=text,
                action="ask",
                rule=None,
                reasons=reasons,
                span=seed.value,
            )
        )

    def locate(self, seed: PlacedSeed) -> tuple[Runs, _Item | None]:
        """Find a seed's function, statement and value; no item where it is gated already."""
        binding = self._statements.get(seed.binding)
        if binding is None:
            raise _Ask("the statement that binds it is not where it was found")
        if seed.kind == "decorator":
            raise _Ask(f"a seed of the kind {seed.kind} has no value that could be left plain")
        function = self._function_around(binding)
        value = self._value(seed, function)
        binding = self._built_by(value, seed, binding)
        if self._is_gated(function, seed.target, value):
            return function, None
        return function, _Item(seed, binding, value, self._wrap(seed))

    def _function_around(self, binding: ast.stmt) -> Runs:
        """Return the function that runs a statement; the module where that can read the switch."""
        here: ast.AST = binding
        while here in self._above and not isinstance(here, Function):
            here = self._above[here]
        if isinstance(here, ast.Module) and isinstance(self._switch, FlatSwitch):
            return here
        if not isinstance(here, Function):
            raise _Ask("it runs at import, before there is a config")
        return here

    def decorates_at_import(self, seed: PlacedSeed) -> bool:
        """Tell whether a seed is the only decorator, and the switch can be read where it stands."""
        node = self._statements.get(seed.binding)
        alone = isinstance(node, Function) and not node.decorator_list
        by_environment = isinstance(self._switch, FlatSwitch) and self._switch.idiom == "env"
        return seed.kind == "decorator" and alone and by_environment

    def added(self, seed: PlacedSeed) -> None:
        """Put a statement that the experiment added behind the switch, where it stands there."""
        binding = self._statements.get(seed.binding)
        text = seed.seed.statement
        if seed.kind == "decorator":
            text = f"{seed.target} = {seed.call.replace('$X', seed.target or '')}"
        if binding is None or text is None:
            raise _Ask("the statement next to which it is added is not where it was found")
        function = self._function_around(binding)
        reading = self._reading(function, binding)
        if not isinstance(reading, _Reading):
            return self.ask(seed, *reading)
        at = seed.binding.start if seed.ahead else seed.binding.end
        behind = self._source.text[:at]
        if seed.binding.start and not behind[: seed.binding.start].endswith(("\n", "\r")):
            raise _Ask(f"line {binding.lineno} holds several statements")
        if binding.lineno < reading.from_line + seed.ahead:
            raise _Ask(f"`{reading.test}` is not there yet behind line {binding.lineno}")
        indent = indent_of(self._source, binding)
        inner, lines = f"{indent}    ", [f"{indent}if {reading.test}:"]
        star = self._options_first(lines, inner, identifiers(function), reading)
        text = respelled_statement(text.strip("\n"), seed)
        last, options = self._wrapper.callee.rpartition(".")[2], self._switch.options
        body = added_lines(text, last, options, star, indent=inner, width=self._width)
        if body is None:
            raise _Ask(f"the config's options cannot go into `{text.splitlines()[0]}`")
        opening = "" if behind.endswith(("\n", "\r")) or not behind else "\n"
        if seed.kind == "decorator":
            opening += "\n" if indent else "\n\n"
        self.edits.append(TextEdit(at, at, opening + "\n".join([*lines, *body]) + "\n"))

    def _options_first(
        self, lines: list[str], indent: str, taken: set[str], reading: _Reading
    ) -> tuple[str, ...]:
        """Add the line that collects the config's options; return what hands them on."""
        if not self._switch.options:
            return ()
        stem = self._wrapper.callee.rpartition(".")[2]
        names = (f"{stem}_kwargs", f"{stem}_options", f"{stem}_arguments")
        name = fresh_name(names, taken | self._module_names | set(dir(builtins)))
        lines.append(exploded(f"{name} = dict(", self._options(reading), ")", indent=indent))
        return (f"**{name}",)

    def _built_by(self, value: ast.expr, seed: PlacedSeed, behind: ast.stmt) -> ast.stmt:
        """Return the statement that builds a value; the experiment may wrap it further on."""
        built: ast.AST = value
        while not isinstance(built, ast.stmt):
            built = self._above[built]
        line = used_between(self._above[built], built, behind, seed.target)
        if line is not None:
            raise _Ask(f"line {line} uses it ahead of the place where the experiment wraps it")
        return built

    def _value(self, seed: PlacedSeed, function: Runs) -> ast.expr:
        for node in walk(function):
            if isinstance(node, ast.expr) and span_of(self._source, node) == seed.value:
                return node
        raise _Ask("the value that it wraps is not an expression of its own")

    def _is_gated(self, function: Runs, target: str | None, value: ast.expr) -> bool:
        """Tell whether the wrapper is called on the object behind the gate already."""
        for node in walk(function):
            if not isinstance(node, ast.If | ast.IfExp) or not self._reads_gate(node.test):
                continue
            branches = node.body if isinstance(node.body, list) else [node.body]
            for branch in branches:
                calls = [call for call in walk(branch) if self._is_wrapper(call)]
                if calls and target and target in map(_text, walk(branch)):
                    return True
                if any(value in walk(call) for call in calls):
                    return True
        here: ast.AST = value
        while here in self._above and not isinstance(here, ast.stmt):
            here = self._above[here]
            if isinstance(here, ast.Call) and any(self._reads_gate(arg) for arg in here.args):
                return True
        return False

    def _reads_gate(self, test: ast.expr) -> bool:
        switch = self._switch
        if isinstance(switch, FlatSwitch):
            return any(shaped_like_a_read(node, switch) for node in walk(test))
        return any(
            isinstance(node, ast.Attribute) and ast.unparse(node).endswith(f".{switch.gate}")
            for node in walk(test)
        )

    def _is_wrapper(self, node: ast.AST) -> bool:
        if not isinstance(node, ast.Call):
            return False
        if self._wrapper.is_called(self._names.qualified(node.func)):
            return True
        here = isinstance(node.func, ast.Name) and node.func.id in self._module_names
        return here and self._wrapper.is_defined(self._source.path, ast.unparse(node.func))

    def _wrap(self, seed: PlacedSeed) -> Wrap:
        """Read the wrapping call; raises _Ask where the config's options cannot go into it."""
        tree = plain_call(seed.call)
        if tree is None:
            raise _Ask(f"`{seed.call}` is not a plain call of the wrapper")
        if any(word.arg is None for word in tree.keywords):
            raise _Ask(f"the options behind ** in `{seed.call}` cannot be seen")
        name = ast.unparse(tree.func).partition(".")[0]
        bound = self._names.binds(name, self._statements[seed.binding])
        if not bound and name not in safely_imported(self._source, seed):
            raise _Ask(self._not_imported(ast.unparse(tree.func)))
        options = []
        for word in tree.keywords:
            if word.arg in self._switch.options:
                continue  # the config decides
            if {word.arg, *self._switch.options} >= {"mode", "options"}:
                raise _Ask(
                    "`mode` and `options` exclude each other, and the config gives the other"
                )
            if not plain_reads(walk(word.value)):
                raise _Ask(f"the option `{ast.unparse(word)}` is computed at the call")
            options.append(as_written(seed.call, word))
        return Wrap(ast.unparse(tree.func), tuple(options))

    def _not_imported(self, callee: str) -> str:
        """Return why a wrapper that only the experiment imports cannot be gated."""
        here = [one.statement for one in self._imports if one.path == self._source.path]
        there = [text for text in here if bound_names(ast.parse(text).body) & {*callee.split(".")}]
        why = "is not imported in this file, and importing it may do something, on or off"
        return f"`{callee}` {why}" + (f"; with `{there[0]}` on onto it could" if there else "")

    def function(self, function: Runs, items: list[_Item]) -> None:
        """Gate the seeds of one function."""
        first = min((item.binding for item in items), key=lambda node: node.lineno)
        reading = self._reading(function, first)
        if not isinstance(reading, _Reading):
            for item in items:
                self.ask(item.placed, *reading)
            return
        owner = self._above.get(function)
        owner = owner if isinstance(owner, ast.ClassDef) else None
        rebindings: list[tuple[Rebinding, list[_Item]]] = []
        by_target: dict[str | None, list[_Item]] = {}
        for item in items:
            by_target.setdefault(item.placed.target, []).append(item)
        for target, group in by_target.items():
            rebinding = self._rebinding(target, group, owner) if target else None
            if rebinding is None:
                for item in group:
                    if item.placed.seed.call.startswith(_ELEMENTWISE):
                        why = f"it wraps the elements of `{target}`, which may be more than a list"
                        self.ask(item.placed, why)
                    else:
                        self._call(item, reading)
            else:
                rebindings.append((rebinding, group))
        for group_of_guard in guards([rebinding for rebinding, _ in rebindings]):
            inside = [item for r, group in rebindings if r in group_of_guard for item in group]
            self._guard(function, group_of_guard, inside, reading)

    def _reading(self, function: Runs, first: ast.stmt) -> _Reading | tuple[str, ...]:
        """Return how a function reads the switch, or why nobody can tell."""
        if isinstance(self._switch, FlatSwitch):
            found = read_flat(self._sources, self._source.path, first, self._switch)
            if not isinstance(found, SwitchRead):
                return found.reasons
            for module, name in found.imports:
                edit = (
                    import_names(self._source, module, [name], line_length=self._width)
                    if name
                    else import_module(self._source, module)
                )
                if edit not in self.edits:
                    self.edits.append(edit)
            return _Reading(found.expression, found.from_line)
        assert isinstance(function, Function)  # see `_function_around`
        config = config_expression(self._source, function, self._switch)
        if isinstance(config, Unclear):
            return config.reasons
        known = config_spellings(self._source, function, self._switch)
        from_line = next(spelling.from_line for spelling in known if spelling.text == config)
        return _Reading(f"{config}.{self._switch.gate}", from_line, config)

    def _rebinding(
        self, target: str, group: list[_Item], owner: ast.ClassDef | None
    ) -> Rebinding | None:
        """Return how a guard re-binds a target; None where only the call form can do it."""
        wraps = {item.wrap for item in group}
        values = {item.value for item in group}
        shapes = {shape_of(target, i.placed.seed, i.binding, i.value, values) for i in group}
        if len(wraps) != 1 or len(shapes) != 1 or None in shapes:
            return None
        shape = shapes.pop() or ""
        bindings = list(dict.fromkeys(item.binding for item in group))
        if shape != "object":
            bindings = [leave_loops(binding, self._above) for binding in bindings]
        block, places = common_block(bindings, self._above)
        if shape == "object" and len(bindings) > 1:
            stores = sum(
                ast.unparse(node) == target
                for index in set(places)
                for node in walk(block[index])
                if isinstance(getattr(node, "ctx", None), ast.Store)
            )
            if stores != len(bindings):
                return None
        room = room_for_guard(block, max(places), target, owner)
        return Rebinding(target, shape, wraps.pop(), block, room.best, room.last)

    def _guard(
        self,
        function: Runs,
        rebindings: list[Rebinding],
        items: list[_Item],
        reading: _Reading,
    ) -> None:
        """Insert one guard for several objects."""
        block = rebindings[0].block
        behind = block[max(rebinding.best for rebinding in rebindings) - 1]
        span = statement_span(self._source, behind)
        own_line = self._source.text[: span.start].endswith(("\n", "\r")) or span.start == 0
        if not own_line or behind.lineno < reading.from_line:
            why = (
                f"`{reading.config or reading.test}` is not there yet behind line {behind.lineno}"
                if own_line
                else f"line {behind.lineno} holds several statements"
            )
            for item in items:
                self.ask(item.placed, why)
            return
        for item in items:
            self._unwrap(item)
        local = local_names(function) if isinstance(function, Function) else set()
        taken, indent = local | self._module_names, indent_of(self._source, behind)
        lines = [f"{indent}if {reading.test}:"]
        inner = indent + "    "
        star = self._options_first(lines, inner, taken | identifiers(function), reading)
        lines += [
            rebinding_line(rebinding, star, inner, taken, self._width) for rebinding in rebindings
        ]
        opening = "" if self._source.text[: span.end].endswith(("\n", "\r")) else "\n"
        text = opening + "\n".join(lines) + "\n"
        self.edits.append(TextEdit(span.end, span.end, text))

    def _options(self, reading: _Reading) -> list[str]:
        """Return the wrapper's options that the config gives, as keyword arguments."""
        if not isinstance(self._switch, SwitchPlan):
            return []
        section = f"{reading.config}.{self._switch.key}.{self._switch.section.key}"
        return [f"{name}={section}.{name}" for name in self._switch.options]

    def _inner(self, item: _Item) -> ast.expr | None:
        """Return what an ungated wrapper call in the file itself wraps, else None."""
        value = item.value
        wrapped = isinstance(value, ast.Call) and self._is_wrapper(value) and value.args
        return value.args[0] if wrapped and isinstance(value, ast.Call) else None

    def _unwrap(self, item: _Item) -> None:
        inner = self._inner(item)
        if inner is not None:
            outer, kept = span_of(self._source, item.value), span_of(self._source, inner)
            self.edits.append(TextEdit(outer.start, kept.start, ""))
            self.edits.append(TextEdit(kept.end, outer.end, ""))

    def _call(self, item: _Item, reading: _Reading) -> None:
        """Hand the value through the gate function where it stands."""
        if item.binding.lineno < reading.from_line:
            what = reading.config or reading.test
            self.ask(item.placed, f"`{what}` is not there yet on line {item.binding.lineno}")
            return
        options = [*self._options(reading), *item.wrap.options]
        if self._helper is None:
            self._helper = self._gate_function()
        outer = span_of(self._source, item.value)
        inner = self._inner(item)
        kept = outer if inner is None else span_of(self._source, inner)
        arguments = (item.wrap.callee, reading.test, *options)
        parts = (item.value, item.binding, kept)
        head, tail = call_text(self._source, parts, self._helper, arguments, self._width)
        self.edits.append(TextEdit(outer.start, kept.start, head))
        self.edits.append(TextEdit(kept.end, outer.end, tail))

    def _gate_function(self) -> str:
        """Return the name of the file's gate function, inserting it where there is none."""
        form = GATED_FORMS[1 if self.with_options else 0]
        wanted = ast.parse(form).body[0]
        for node in self._source.tree.body:
            if isinstance(node, ast.FunctionDef) and same_tree(node, wanted):
                return node.name
        name = fresh_name(
            ("_gated", "_gated_call", "_behind_switch"), identifiers(self._source.tree)
        )
        self.edits.append(insert_definition(self._source, form.replace("_gated", name)))
        return name


def _text(node: ast.AST) -> str:
    return ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""
