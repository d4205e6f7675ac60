"""The text of a gate: the lines of a guard, which of them share one, and calls through one."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Sequence

from porttool.deciding.edits import seed_imports
from porttool.deciding.sites import PlacedSeed
from porttool.frozen import dataclass
from porttool.gating.placement import CHAINABLE, Block
from porttool.learning.lesson import Seed
from porttool.learning.seeds import mapped_call
from porttool.source.layout import bracketed
from porttool.source.nodes import walk
from porttool.source.scopes import bound_names, imported_modules
from porttool.source.syntax import Source, Span, indent_of, line_start, span_of, text_of

_RECEIVER = "__receiver"


@dataclass(frozen=True)
class Wrap:
    """How the experiment calls the wrapper: the callee's text and the site's own options."""

    callee: str
    options: tuple[str, ...]


@dataclass(frozen=True)
class Rebinding:
    """One line of a guard: `target` wrapped whole, or element by element."""

    target: str
    shape: str  # "object", "list", "dict"
    wrap: Wrap
    block: Block
    best: int
    last: int


def plain_call(call: str) -> ast.Call | None:
    """Return the call that wraps one object, of an experiment's wrapping of it or of its elements.

    None where it is no plain call of one argument.
    """
    tree = ast.parse(call.replace("$X", _RECEIVER), mode="eval").body
    if isinstance(tree, ast.ListComp) and ast.unparse(tree.generators[0].iter) == _RECEIVER:
        tree = _of_receiver(tree.elt, tree.generators[0].target)
    if isinstance(tree, ast.DictComp):
        loop = tree.generators[0]
        every = ast.unparse(loop.iter) == f"{_RECEIVER}.items()"
        if every and isinstance(loop.target, ast.Tuple):
            tree = _of_receiver(tree.value, loop.target.elts[-1])
    mapped = mapped_call(tree)
    if mapped is not None and ast.unparse(mapped[1]) == _RECEIVER:
        tree = ast.Call(mapped[0], [mapped[1]], [])
    plain = isinstance(tree, ast.Call) and [ast.unparse(a) for a in tree.args] == [_RECEIVER]
    return tree if plain and isinstance(tree, ast.Call) else None


def as_written(call: str, word: ast.keyword) -> str:
    """Return an option as the experiment spells it in a call, its quotes above all."""
    text, wanted = call.replace("$X", _RECEIVER), ast.unparse(word)
    for node in ast.walk(ast.parse(text, mode="eval")):
        if isinstance(node, ast.keyword) and ast.unparse(node) == wanted:
            spelled = ast.get_source_segment(text, node) or wanted
            return wanted if "\n" in spelled else spelled
    return wanted


def safely_imported(source: Source, seed: PlacedSeed) -> set[str]:
    """Return the names that a seed's call needs imported, from modules that a file loads anyway."""
    brought = [ast.parse(text).body[0] for text in seed_imports(source, [seed])]
    loaded = imported_modules(source.tree)
    return bound_names(
        [one for one in brought if imported_modules(ast.Module([one], [])) <= loaded]
    )


def _of_receiver(made: ast.expr, element: ast.expr) -> ast.expr:
    """Return what is made of an element, said of the whole."""
    text = re.sub(rf"\b{ast.unparse(element)}\b", _RECEIVER, ast.unparse(made))
    return ast.parse(text, mode="eval").body


def rebinding_line(
    rebinding: Rebinding, star: tuple[str, ...], indent: str, taken: set[str], width: int
) -> str:
    """Return the line of a guard that wraps a target; `star` are further arguments."""
    target, wrap = rebinding.target, rebinding.wrap
    rest = (*wrap.options, *star)
    if rebinding.shape == "object":
        head = f"{target} = {wrap.callee}("
        return bracketed(head, [target, *rest], ")", indent=indent, width=width)
    element = fresh_name(element_names(target), taken)
    call = f"{wrap.callee}({', '.join([element, *rest])})"
    if rebinding.shape == "list":
        opening, clauses, closing = "[", [call, f"for {element} in {target}"], "]"
    else:
        key = fresh_name(("key", "name", "label"), taken | {element})
        loop = f"for {key}, {element} in {target}.items()"
        opening, clauses, closing = "{", [f"{key}: {call}", loop], "}"
    head = f"{target} = {opening}"
    return bracketed(head, clauses, closing, indent=indent, width=width, comma=False)


def shape_of(
    target: str, seed: Seed, binding: ast.stmt, value: ast.expr, values: set[ast.expr]
) -> str | None:
    """Return what kind of thing a target is bound to at a seed, None if no guard fits.

    `values` are what all seeds of the target wrap.
    """
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
    if seed.call.startswith(("[", "list(")):
        # A loop wraps in place: only where a plain list is bound is a new one the same.
        loop = (seed.statement or "").startswith("for ")
        return None if loop and not isinstance(whole, ast.ListComp | ast.List) else "list"
    if seed.call.startswith("{"):
        return "dict" if isinstance(whole, ast.DictComp | ast.Dict) else None
    if whole is not None and stages(whole) & values:
        return "object"
    if isinstance(whole, ast.ListComp | ast.List):
        elements = [whole.elt] if isinstance(whole, ast.ListComp) else whole.elts
        return "list" if all(stages(element) & values for element in elements) else None
    if isinstance(whole, ast.DictComp | ast.Dict):
        elements = [whole.value] if isinstance(whole, ast.DictComp) else whole.values
        return "dict" if all(stages(element) & values for element in elements) else None
    return None


def stages(expression: ast.expr) -> set[ast.expr]:
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


def added_lines(
    text: str,
    wrapper: str,
    decided: Collection[str],
    star: tuple[str, ...],
    *,
    indent: str,
    width: int,
) -> list[str] | None:
    """Return the lines of a guard that hold an added statement.

    `star` hands the options that the config decides (`decided`) on to its one call of the wrapper,
    whose last name is given; None where there is not just one.
    """
    if star:
        statement = ast.parse(text).body[0]
        found = [call for call in walk(statement) if _last_name(call) == wrapper]
        call = found[0] if len(found) == 1 else None
        old = ast.get_source_segment(text, call) if call is not None else None
        if not isinstance(call, ast.Call) or old is None or text.count(old) != 1:
            return None
        words = [ast.unparse(word) for word in call.keywords if word.arg not in decided]
        arguments = [*map(ast.unparse, call.args), *words, *star]
        head = f"{ast.unparse(call.func)}("
        lead, _, tail = text.partition(old)
        if lead + tail == lead and "\n" not in lead:
            return [bracketed(lead + head, arguments, ")", indent=indent, width=width)]
        text = f"{lead}{head}{', '.join(arguments)}){tail}"
    return [f"{indent}{line}" if line else line for line in text.split("\n")]


def _last_name(call: ast.AST) -> str:
    function = call.func if isinstance(call, ast.Call) else None
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def call_text(
    source: Source,
    parts: tuple[ast.expr, ast.stmt, Span],
    helper: str,
    arguments: tuple[str, ...],
    width: int,
) -> tuple[str, str]:
    """Return what goes in front of a value and behind it, so that it is handed through a function.

    `parts` are the value, its statement, and the span of it that is kept; `arguments` what stands
    around it: the first in front. Broken as a formatter would.
    """
    node, binding, kept = parts
    value = source.text[kept.start : kept.end]
    first, *rest = arguments
    start = line_start(source, span_of(source, node).start)
    lead = source.text[start : span_of(source, node).start]
    alone = text_of(source, binding).endswith(text_of(source, node)) and "\n" not in value
    if alone and isinstance(binding, ast.Return | ast.Assign | ast.AnnAssign):
        indent = indent_of(source, binding)
        opening = lead.removeprefix(indent) + f"{helper}("
        # A stand-in of the value's width: the value itself may occur in other arguments.
        inside = "\0" * len(value)
        laid = bracketed(opening, [first, inside, *rest], ")", indent=indent, width=width)
        before, _, after = laid[len(lead) :].partition(inside)
        return before, after
    return f"{helper}({first}, ", f", {', '.join(rest)})"


def guards(rebindings: list[Rebinding]) -> list[list[Rebinding]]:
    """Group what one guard can re-bind: the same block, and a place that suits all."""
    groups: list[list[Rebinding]] = []
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


def fresh_name(wanted: Sequence[str], taken: set[str]) -> str:
    """Return the first name that means nothing yet."""
    for name in wanted:
        if name not in taken:
            return name
    number = 2
    while f"{wanted[0]}_{number}" in taken:
        number += 1
    return f"{wanted[0]}_{number}"


def element_names(target: str) -> list[str]:
    """Return names for an element of a collection, from the collection's own name."""
    word = target.rpartition(".")[2].strip("_").rpartition("_")[2].lower()
    if word in ("networks", "nets"):
        return ["net", "network", "module"]
    single = word[:-1] if word.endswith("s") and not word.endswith("ss") else word
    same = single == word or not single.isidentifier()
    return [*([] if same else [single]), "module", "element", "item"]
