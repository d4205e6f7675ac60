"""The lines of a guard: what each re-binds, which lines share a guard, and names for elements."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from porttool.frozen import dataclass
from porttool.gating.placement import CHAINABLE, Block
from porttool.source.layout import bracketed


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
