"""Edits between two expressions, and the numbers that tell equal trees.

Where the old expression survives whole inside the new one, that is one edit and nothing below it
is looked at: a wrapping is a wrapping, however much is written around it. Everything else is taken
apart as far as both sides have the same shape.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from typing import Literal

from porttool.frozen import dataclass
from porttool.learning.align import Entry, Pairing, align
from porttool.learning.rewriting import arguments
from porttool.source.nodes import walk
from porttool.source.syntax import Source, Span, span_of, text_of

EditKind = Literal["expression", "seed", "decorator", "insert", "delete", "replace"]


@dataclass(frozen=True)
class Edit:
    """One change: `text` in place of the parent's characters at `span`.

    expression: `before` became `after`. seed: `after` wraps, and `inner` (inside `after`) is what
    `before` became; its own changes are edits of their own, so `text` is empty. decorator: a
    wrapping decorator `after` was added to the definition `before`. insert, delete, replace: whole
    statements or items; `added` holds the experiment's roots of whatever code is new in `text`.
    """

    kind: EditKind
    before: ast.AST | None
    after: ast.AST | None
    span: Span
    text: str
    inner: ast.expr | None = None
    added: tuple[ast.AST, ...] = ()


@dataclass(frozen=True)
class Sides:
    """Both files, a number for each distinct tree in them, and what counts as wrapping."""

    old: Source
    new: Source
    shape: dict[ast.AST, int]
    wrapped_before: Callable[[ast.expr], ast.expr | None]
    wrapped_after: Callable[[ast.expr], ast.expr | None]
    wrapping_decorator: Callable[[ast.expr], bool]


class Inseparable(Exception):
    """Statements that share a line cannot be edited one by one; the statement around them is
    replaced.
    """


def shapes(*trees: ast.AST, table: dict[object, int] | None = None) -> dict[ast.AST, int]:
    """Number all nodes: equal numbers are equal trees, positions and load or store apart."""
    numbers: dict[object, int] = {} if table is None else table
    found: dict[ast.AST, int] = {}

    def key(value: object) -> object:
        if isinstance(value, ast.AST):
            return found[value]
        if isinstance(value, list):
            return ("list", *(key(item) for item in value))
        kind = value.__class__
        # Numbers are told apart as they are written: 0.0 is not -0.0, and nan is nan.
        return (kind, repr(value) if kind in (float, complex) else value)

    for tree in trees:
        # Breadth first, backwards: children come before what holds them, without recursion.
        for node in reversed(walk(tree)):
            fields = [key(getattr(node, name, None)) for name in node._fields if name != "ctx"]
            found[node] = numbers.setdefault((node.__class__, *fields), len(numbers))
    return found


def expression_edits(s: Sides, old: ast.expr, new: ast.expr) -> list[Edit]:
    """Return the edits that make one expression of another."""
    if s.shape[old] == s.shape[new]:
        return []
    inner = s.wrapped_after(new)
    if inner is not None and s.wrapped_before(old) is None:
        seed = Edit("seed", old, new, span_of(s.old, old), "", inner=inner)
        return [seed, *expression_edits(s, old, inner)]
    survivor = next((node for node in walk(new) if s.shape[node] == s.shape[old]), None)
    if isinstance(survivor, ast.expr):
        if any(isinstance(node, ast.expr) and s.wrapped_after(node) for node in walk(new)):
            return [Edit("seed", old, new, span_of(s.old, old), "", inner=survivor)]
    else:
        edits = inside_edits(s, old, new)
        if edits is not None:
            return edits
    return [_replace_expression(s, old, new)]


def _replace_expression(s: Sides, old: ast.expr, new: ast.expr) -> Edit:
    span = span_of(s.old, old)
    return Edit("expression", old, new, span, _operand(s, old, new), added=(new,))


def _operand(s: Sides, old: ast.expr, new: ast.expr) -> str:
    """Return the text of `new`, in parentheses of its own where it had some and the old place has
    none.
    """
    text = text_of(s.new, new)
    atoms = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant, ast.Starred)
    enclosed = _in_parentheses(s.new, new)
    if not isinstance(new, atoms) and enclosed and not _in_parentheses(s.old, old):
        return f"({text})"
    if "\n" in text and enclosed and not isinstance(new, ast.Starred):
        try:
            ast.parse(text, mode="eval")
        except SyntaxError:
            return f"({text})"
    return text


def _in_parentheses(source: Source, node: ast.expr) -> bool:
    span = span_of(source, node)
    head, tail = source.text[: span.start].rstrip(), source.text[span.end :].lstrip()
    return head.endswith("(") and tail.startswith(")")


def inside_edits(s: Sides, old: ast.AST, new: ast.AST) -> list[Edit] | None:
    """Return the edits below two nodes of one kind; None when the nodes themselves differ."""
    if type(old) is not type(new) or isinstance(old, ast.JoinedStr | ast.arguments):
        return None
    if isinstance(old, ast.Call) and isinstance(new, ast.Call):
        return _inside_call(s, old, new)
    if isinstance(old, ast.List | ast.Set | ast.Tuple):
        return _items(s, old, new, old.elts, new.elts)  # type: ignore[attr-defined]
    if isinstance(old, ast.Dict) and isinstance(new, ast.Dict):
        return _items(s, old, new, _pairs(old), _pairs(new))
    edits: list[Edit] = []
    for name, left in ast.iter_fields(old):
        part = field_edits(s, left, getattr(new, name))
        if part is None:
            return None
        edits += part
    return edits


def field_edits(s: Sides, left: object, right: object) -> list[Edit] | None:
    """Return the edits between two values of a node's field; None when they differ as a whole."""
    if isinstance(left, ast.expr_context):
        return []
    if isinstance(left, ast.expr) and isinstance(right, ast.expr):
        return expression_edits(s, left, right)
    if isinstance(left, ast.AST) and isinstance(right, ast.AST):
        return [] if s.shape[left] == s.shape[right] else inside_edits(s, left, right)
    if isinstance(left, list) and isinstance(right, list):
        if len(left) != len(right):
            return None
        parts = [field_edits(s, one, other) for one, other in zip(left, right, strict=True)]
        return [edit for part in parts for edit in part or []] if None not in parts else None
    return [] if type(left) is type(right) and left == right else None


def _inside_call(s: Sides, old: ast.Call, new: ast.Call) -> list[Edit] | None:
    edits: list[Edit] = []
    if s.shape[old.func] != s.shape[new.func]:
        left, right = old.func, new.func
        if not (isinstance(left, ast.Attribute) and isinstance(right, ast.Attribute)):
            return None
        if left.attr != right.attr:
            return None
        edits = expression_edits(s, left.value, right.value)
    items = _items(s, old, new, arguments(old), arguments(new))
    return None if items is None else [*edits, *items]


@dataclass(frozen=True, eq=False)
class _Pair:
    """One `key: value` of a dict display; the key is None behind `**`."""

    key: ast.expr | None
    value: ast.expr


_Item = ast.AST | _Pair


def _pairs(display: ast.Dict) -> list[_Pair]:
    return [_Pair(key, value) for key, value in zip(display.keys, display.values, strict=True)]


def _item_span(source: Source, item: _Item) -> Span:
    if not isinstance(item, _Pair):
        return span_of(source, item)
    value = span_of(source, item.value)
    if item.key is None:
        return Span(source.text.rindex("**", 0, value.start), value.end)
    return Span(span_of(source, item.key).start, value.end)


def _items(
    s: Sides, old: ast.AST, new: ast.AST, left: Sequence[_Item], right: Sequence[_Item]
) -> list[Edit] | None:
    """Compare the items of two displays or argument lists; None when text cannot move item by
    item.
    """
    edits: list[Edit] = []
    aligned = list(align_items(s, left, right))
    kept = [pair for pair in aligned if None not in pair]
    if len(kept) != len(aligned):
        one_item = isinstance(old, ast.Tuple) and len(right) < 2
        if not kept or one_item or any(isinstance(item, ast.GeneratorExp) for item in left):
            return None
    position = 0
    for i, j in aligned:
        if i is not None and j is not None:
            part = _item(s, left[i], right[j])
            if part is None:
                return None
            edits += part
        elif i is not None:
            first = not any(pair[0] is not None and pair[0] < i for pair in kept)
            cut = _cut(s.old, left, i, first)
            if cut is None:
                return None
            edits.append(Edit("delete", None, None, cut, ""))
        elif j is not None:
            cut = _cut(s.new, right, j, position == 0)
            if cut is None:
                return None
            at = (
                _item_span(s.old, left[position - 1]).end
                if position
                else _item_span(s.old, left[0]).start
            )
            item = right[j]
            roots = tuple(
                node
                for node in ((item.key, item.value) if isinstance(item, _Pair) else (item,))
                if node is not None
            )
            text = s.new.text[cut.start : cut.end]
            edits.append(Edit("insert", None, roots[-1], Span(at, at), text, added=roots))
        position = i + 1 if i is not None else position
    return edits


def _cut(source: Source, items: Sequence[_Item], index: int, first: bool) -> Span | None:
    """Return an item's span with the comma that joins it to its neighbour; None if more than that
    is between.
    """
    here = _item_span(source, items[index])
    if first:
        if index + 1 == len(items):
            return None
        cut = Span(here.start, _item_span(source, items[index + 1]).start)
        gap = source.text[here.end : cut.end]
    else:
        cut = Span(_item_span(source, items[index - 1]).end, here.end)
        gap = source.text[cut.start : here.start]
    blank = r"(?:\s|#[^\n]*\n)*"
    return cut if re.fullmatch(f"{blank},{blank}", gap) else None


def _item(s: Sides, left: _Item, right: _Item) -> list[Edit] | None:
    if isinstance(left, _Pair) and isinstance(right, _Pair):
        key = field_edits(s, left.key, right.key)
        value = expression_edits(s, left.value, right.value)
        return None if key is None else [*key, *value]
    if isinstance(left, ast.expr) and isinstance(right, ast.expr):
        return expression_edits(s, left, right)
    if isinstance(left, ast.keyword) and isinstance(right, ast.keyword):
        return inside_edits(s, left, right)
    return None


def entries(s: Sides, items: Sequence[_Item]) -> list[Entry]:
    """Return items as entries to align."""
    found = []
    for item in items:
        if isinstance(item, _Pair):
            shape = (item.key and s.shape[item.key], s.shape[item.value])
            parts = (item.value,) if item.key is None else (item.key, item.value)
            found.append(Entry(item.value, shape, parts))
        else:
            found.append(Entry(item, s.shape[item], (item,)))
    return found


def align_items(s: Sides, old: Sequence[_Item], new: Sequence[_Item]) -> Pairing:
    """Pair the items of two displays, argument lists or decorator lists."""
    return align(entries(s, old), entries(s, new), _item_cost)


def _item_cost(left: Entry, right: Entry, cost: float, common: int) -> float:
    old, new = left.node, right.node
    if isinstance(old, ast.keyword) and isinstance(new, ast.keyword):
        return cost / 2 if old.arg == new.arg else float("inf")
    if isinstance(old, ast.keyword) or isinstance(new, ast.keyword):
        return float("inf")
    return cost if common > 0.3 * min(left.bag.total(), right.bag.total()) else float("inf")
