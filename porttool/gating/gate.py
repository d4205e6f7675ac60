"""Put the experiment's seeds behind the switch, the least invasive way that works.

**Guard**: construct plain, bind optimizers, re-bind under `if config.compile.trainer.enabled:`.
**Call**: where there is nothing to re-bind (a returned value, an argument), a small function that
gives back the very object when the switch is off. What neither can do is for a person to decide.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Sequence
from dataclasses import dataclass

from porttool.deciding.sites import Decision, PlacedSeed, site_key
from porttool.gating.config_scope import Unclear, config_expression, config_spellings
from porttool.gating.placement import CHAINABLE, Block, common_block, leave_loops, room_for_guard
from porttool.learning.lesson import Lesson
from porttool.plan.plan import SwitchPlan
from porttool.proving.fold import GATED_FORMS
from porttool.proving.patterns import plain_reads
from porttool.source.layout import DEFAULT_LINE_LENGTH, bracketed, exploded
from porttool.source.scopes import Function, bound_names, identifiers, local_names
from porttool.source.syntax import (
    Names,
    Source,
    Span,
    TextEdit,
    indent_of,
    insert_definition,
    line_start,
    parents,
    same_tree,
    span_of,
    statement_span,
    text_of,
)

_RECEIVER = "__receiver"


class _Ask(Exception):
    """A seed that only a person can gate."""


@dataclass(frozen=True)
class _Wrap:
    """How the experiment calls the wrapper: the callee's text and the site's own options."""

    callee: str
    options: tuple[str, ...]


@dataclass(frozen=True)
class _Item:
    """One object to be wrapped: what it is bound to, how, and by which statement."""

    placed: PlacedSeed
    binding: ast.stmt
    value: ast.expr
    wrap: _Wrap


@dataclass(frozen=True)
class _Rebinding:
    """One line of a guard: `target` wrapped whole, or element by element."""

    target: str
    shape: str  # "object", "list", "dict"
    wrap: _Wrap
    block: Block
    best: int
    last: int


def gate_edits(
    source: Source,
    placed: Sequence[PlacedSeed],
    switch: SwitchPlan,
    lesson: Lesson,
    *,
    line_length: int = DEFAULT_LINE_LENGTH,
) -> tuple[tuple[TextEdit, ...], tuple[Decision, ...]]:
    """Return the edits that gate one file's seeds, and a question for each seed that has to ask.

    Edits are inserts, so they go together with edits of sites in the same file; a seed that the
    file wraps already, without a gate, is unwrapped. One that is gated is left alone.
    """
    gate = _Gate(source, switch, lesson, line_length)
    groups: dict[ast.AST, list[_Item]] = {}
    for seed in placed:
        try:
            function, item = gate.locate(seed)
        except _Ask as question:
            gate.ask(seed, str(question))
            continue
        if item is not None:
            groups.setdefault(function, []).append(item)
    for function, items in groups.items():
        if isinstance(function, Function):
            gate.function(function, items)
    return tuple(gate.edits), tuple(gate.asks)


class _Gate:
    """One file while its seeds are gated; holds what they have in common."""

    def __init__(
        self, source: Source, switch: SwitchPlan, lesson: Lesson, line_length: int
    ) -> None:
        self._source = source
        self._switch = switch
        self._callee = lesson.wrapper.callee
        self._width = line_length
        self._above = parents(source.tree)
        self._names = Names(source.tree)
        self._module_names = bound_names(source.tree.body)
        self._statements = {
            span: node
            for node in ast.walk(source.tree)
            if isinstance(node, ast.stmt)
            for span in (span_of(source, node), statement_span(source, node))
        }
        self._helper: str | None = None
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

    def locate(self, seed: PlacedSeed) -> tuple[ast.AST, _Item | None]:
        """Find a seed's function, statement and value; no item where it is gated already."""
        binding = self._statements.get(seed.binding)
        if binding is None:
            raise _Ask("the statement that binds it is not where it was found")
        if seed.kind in ("decorator", "statement"):
            raise _Ask(f"a seed of the kind {seed.kind} has no value that could be left plain")
        function: ast.AST = binding
        while function in self._above and not isinstance(function, Function):
            function = self._above[function]
        if not isinstance(function, Function):
            raise _Ask("it runs at import, before there is a config")
        value = self._value(seed, binding)
        if self._is_gated(function, seed.target, value):
            return function, None
        return function, _Item(seed, binding, value, self._wrap(seed))

    def _value(self, seed: PlacedSeed, binding: ast.stmt) -> ast.expr:
        for node in ast.walk(binding):
            if isinstance(node, ast.expr) and span_of(self._source, node) == seed.value:
                return node
        raise _Ask("the value that it wraps is not an expression of its own")

    def _is_gated(self, function: Function, target: str | None, value: ast.expr) -> bool:
        """Tell whether the wrapper is called on the object behind the gate already."""
        for node in ast.walk(function):
            if not isinstance(node, ast.If | ast.IfExp) or not self._reads_gate(node.test):
                continue
            branches = node.body if isinstance(node.body, list) else [node.body]
            for branch in branches:
                calls = [call for call in ast.walk(branch) if self._is_wrapper(call)]
                if calls and target and target in map(_text, ast.walk(branch)):
                    return True
                if any(value in ast.walk(call) for call in calls):
                    return True
        here: ast.AST = value
        while here in self._above and not isinstance(here, ast.stmt):
            here = self._above[here]
            if isinstance(here, ast.Call) and any(self._reads_gate(arg) for arg in here.args):
                return True
        return False

    def _reads_gate(self, test: ast.expr) -> bool:
        return any(
            isinstance(node, ast.Attribute) and ast.unparse(node).endswith(f".{self._switch.gate}")
            for node in ast.walk(test)
        )

    def _is_wrapper(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and self._names.qualified(node.func) == self._callee

    def _wrap(self, seed: PlacedSeed) -> _Wrap:
        """Read the wrapping call; raises _Ask where the config's options cannot go into it."""
        tree = ast.parse(seed.call.replace("$X", _RECEIVER), mode="eval").body
        if isinstance(tree, ast.ListComp) and ast.unparse(tree.generators[0].iter) == _RECEIVER:
            element = ast.unparse(tree.generators[0].target)
            tree = ast.parse(
                re.sub(rf"\b{element}\b", _RECEIVER, ast.unparse(tree.elt)), mode="eval"
            ).body
        if not isinstance(tree, ast.Call) or [ast.unparse(a) for a in tree.args] != [_RECEIVER]:
            raise _Ask(f"`{seed.call}` is not a plain call of the wrapper")
        if any(word.arg is None for word in tree.keywords):
            raise _Ask(f"the options behind ** in `{seed.call}` cannot be seen")
        options = []
        for word in tree.keywords:
            if word.arg in self._switch.options:
                continue  # the config decides
            if {word.arg, *self._switch.options} >= {"mode", "options"}:
                raise _Ask(
                    "`mode` and `options` exclude each other, and the config gives the other"
                )
            if not plain_reads(ast.walk(word.value)):
                raise _Ask(f"the option `{ast.unparse(word)}` is computed at the call")
            options.append(ast.unparse(word))
        return _Wrap(ast.unparse(tree.func), tuple(options))

    def function(self, function: Function, items: list[_Item]) -> None:
        """Gate the seeds of one function."""
        config = config_expression(self._source, function, self._switch)
        if isinstance(config, Unclear):
            for item in items:
                self.ask(item.placed, *config.reasons)
            return
        known = config_spellings(self._source, function, self._switch)
        from_line = next(spelling.from_line for spelling in known if spelling.text == config)
        owner = self._above.get(function)
        owner = owner if isinstance(owner, ast.ClassDef) else None
        rebindings: list[tuple[_Rebinding, list[_Item]]] = []
        by_target: dict[str | None, list[_Item]] = {}
        for item in items:
            by_target.setdefault(item.placed.target, []).append(item)
        for target, group in by_target.items():
            rebinding = self._rebinding(target, group, owner) if target else None
            if rebinding is None:
                for item in group:
                    self._call(item, config, from_line)
            else:
                rebindings.append((rebinding, group))
        for group_of_guard in _guards([rebinding for rebinding, _ in rebindings]):
            inside = [item for r, group in rebindings if r in group_of_guard for item in group]
            self._guard(function, group_of_guard, inside, config, from_line)

    def _rebinding(
        self, target: str, group: list[_Item], owner: ast.ClassDef | None
    ) -> _Rebinding | None:
        """Return how a guard re-binds a target; None where only the call form can do it."""
        wraps = {item.wrap for item in group}
        shapes = {self._shape(target, item, group) for item in group}
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
                for node in ast.walk(block[index])
                if isinstance(getattr(node, "ctx", None), ast.Store)
            )
            if stores != len(bindings):
                return None
        room = room_for_guard(block, max(places), target, owner)
        return _Rebinding(target, shape, wraps.pop(), block, room.best, room.last)

    def _shape(self, target: str, item: _Item, group: list[_Item]) -> str | None:
        """Return what kind of thing the target is bound to at a seed, None if no guard fits."""
        binding, value = item.binding, item.value
        if isinstance(binding, ast.Expr) and isinstance(binding.value, ast.Call):
            call = binding.value
            appended = ast.unparse(call.func) == f"{target}.append" and call.args == [value]
            return "list" if appended else None
        if isinstance(binding, ast.Assign) and len(binding.targets) == 1:
            bound: ast.expr = binding.targets[0]
        elif isinstance(binding, ast.AnnAssign):
            bound = binding.target
        else:
            return None
        if ast.unparse(bound) != target:
            return None
        whole = binding.value
        if item.placed.seed.call.startswith("["):
            return "list"
        values = {other.value for other in group}
        if whole is not None and _stages(whole) & values:
            return "object"
        if isinstance(whole, ast.ListComp | ast.List):
            elements = [whole.elt] if isinstance(whole, ast.ListComp) else whole.elts
            return "list" if all(_stages(element) & values for element in elements) else None
        if isinstance(whole, ast.DictComp | ast.Dict):
            elements = [whole.value] if isinstance(whole, ast.DictComp) else whole.values
            return "dict" if all(_stages(element) & values for element in elements) else None
        return None

    def _guard(
        self,
        function: Function,
        rebindings: list[_Rebinding],
        items: list[_Item],
        config: str,
        from_line: int,
    ) -> None:
        """Insert one guard for several objects."""
        block = rebindings[0].block
        behind = block[max(rebinding.best for rebinding in rebindings) - 1]
        span = statement_span(self._source, behind)
        own_line = self._source.text[: span.start].endswith(("\n", "\r")) or span.start == 0
        if not own_line or behind.lineno < from_line:
            why = (
                f"`{config}` is not there yet behind line {behind.lineno}"
                if own_line
                else f"line {behind.lineno} holds several statements"
            )
            for item in items:
                self.ask(item.placed, why)
            return
        for item in items:
            self._unwrap(item)
        taken = local_names(function) | self._module_names
        indent = indent_of(self._source, behind)
        lines = [f"{indent}if {config}.{self._switch.gate}:"]
        inner = indent + "    "
        star: tuple[str, ...] = ()
        if self._switch.options:
            used = taken | identifiers(function) | set(dir(builtins))
            stem = self._callee.rpartition(".")[2]
            name = _fresh((f"{stem}_kwargs", f"{stem}_options", f"{stem}_arguments"), used)
            options = [f"{name}={self._option(config, name)}" for name in self._switch.options]
            lines.append(exploded(f"{name} = dict(", options, ")", indent=inner))
            star = (f"**{name}",)
        lines += [self._line(rebinding, star, inner, taken) for rebinding in rebindings]
        opening = "" if self._source.text[: span.end].endswith(("\n", "\r")) else "\n"
        text = opening + "\n".join(lines) + "\n"
        self.edits.append(TextEdit(span.end, span.end, text))

    def _option(self, config: str, name: str) -> str:
        return f"{config}.{self._switch.key}.{self._switch.section.key}.{name}"

    def _line(
        self, rebinding: _Rebinding, star: tuple[str, ...], indent: str, taken: set[str]
    ) -> str:
        target, wrap = rebinding.target, rebinding.wrap
        rest = (*wrap.options, *star)
        if rebinding.shape == "object":
            head = f"{target} = {wrap.callee}("
            return bracketed(head, [target, *rest], ")", indent=indent, width=self._width)
        element = _fresh(_element_names(target), taken)
        call = f"{wrap.callee}({', '.join([element, *rest])})"
        if rebinding.shape == "list":
            opening, clauses, closing = "[", [call, f"for {element} in {target}"], "]"
        else:
            key = _fresh(("key", "name", "label"), taken | {element})
            loop = f"for {key}, {element} in {target}.items()"
            opening, clauses, closing = "{", [f"{key}: {call}", loop], "}"
        head = f"{target} = {opening}"
        return bracketed(head, clauses, closing, indent=indent, width=self._width, comma=False)

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

    def _call(self, item: _Item, config: str, from_line: int) -> None:
        """Hand the value through the gate function where it stands."""
        if item.binding.lineno < from_line:
            self.ask(item.placed, f"`{config}` is not there yet on line {item.binding.lineno}")
            return
        options = [f"{name}={self._option(config, name)}" for name in self._switch.options]
        options += item.wrap.options
        if self._helper is None:
            self._helper = self._gate_function()
        outer = span_of(self._source, item.value)
        inner = self._inner(item)
        kept = outer if inner is None else span_of(self._source, inner)
        head, tail = self._call_text(item, kept, options, config)
        self.edits.append(TextEdit(outer.start, kept.start, head))
        self.edits.append(TextEdit(kept.end, outer.end, tail))

    def _call_text(
        self, item: _Item, kept: Span, options: list[str], config: str
    ) -> tuple[str, str]:
        """Return what goes in front of the value and behind it, broken as a formatter would."""
        value = self._source.text[kept.start : kept.end]
        arguments = [item.wrap.callee, value, f"{config}.{self._switch.gate}", *options]
        start = line_start(self._source, span_of(self._source, item.value).start)
        statement = text_of(self._source, item.binding)
        lead = self._source.text[start : span_of(self._source, item.value).start]
        alone = statement.endswith(text_of(self._source, item.value)) and "\n" not in value
        if alone and isinstance(item.binding, ast.Return | ast.Assign | ast.AnnAssign):
            indent = indent_of(self._source, item.binding)
            opening = lead.removeprefix(indent) + f"{self._helper}("
            # A stand-in of the value's width: the value itself may occur in other arguments.
            arguments[1] = "\0" * len(value)
            laid = bracketed(opening, arguments, ")", indent=indent, width=self._width)
            before, _, after = laid[len(lead) :].partition(arguments[1])
            return before, after
        return (
            f"{self._helper}({item.wrap.callee}, ",
            f", {', '.join(arguments[2:])})",
        )

    def _gate_function(self) -> str:
        """Return the name of the file's gate function, inserting it where there is none."""
        with_options = bool(self._switch.options)
        form = GATED_FORMS[1 if with_options else 0]
        wanted = ast.parse(form).body[0]
        for node in self._source.tree.body:
            if isinstance(node, ast.FunctionDef) and same_tree(node, wanted):
                return node.name
        name = _fresh(("_gated", "_gated_call", "_behind_switch"), identifiers(self._source.tree))
        self.edits.append(insert_definition(self._source, form.replace("_gated", name)))
        return name


def _stages(expression: ast.expr) -> set[ast.expr]:
    """Return `build().to(device)` and `build()`: calls that hand the very object on."""
    found = {expression}
    while (
        isinstance(expression, ast.Call)
        and isinstance(expression.func, ast.Attribute)
        and expression.func.attr in CHAINABLE
        and isinstance(expression.func.value, ast.Call)
    ):
        expression = expression.func.value
        found.add(expression)
    return found


def _text(node: ast.AST) -> str:
    return ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""


def _guards(rebindings: list[_Rebinding]) -> list[list[_Rebinding]]:
    """Group what one guard can re-bind: the same block, and a place that suits all."""
    groups: list[list[_Rebinding]] = []
    for rebinding in sorted(rebindings, key=lambda r: (r.block[0].lineno, r.best)):
        group = groups[-1] if groups else None
        if (
            group is not None
            and group[0].block is rebinding.block
            and rebinding.best <= min(other.last for other in [*group, rebinding])
        ):
            group.append(rebinding)
        else:
            groups.append([rebinding])
    return groups


def _fresh(wanted: Sequence[str], taken: set[str]) -> str:
    """Return the first name that means nothing yet."""
    for name in wanted:
        if name not in taken:
            return name
    number = 2
    while f"{wanted[0]}_{number}" in taken:
        number += 1
    return f"{wanted[0]}_{number}"


def _element_names(target: str) -> list[str]:
    """Return names for an element of a collection, from the collection's own name."""
    word = target.rpartition(".")[2].strip("_").rpartition("_")[2].lower()
    if word in ("networks", "nets"):
        return ["net", "network", "module"]
    single = word[:-1] if word.endswith("s") and not word.endswith("ss") else word
    same = single == word or not single.isidentifier()
    return [*([] if same else [single]), "module", "element", "item"]
