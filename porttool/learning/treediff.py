"""What an experiment changed in one file, as minimal edits between two syntax trees.

Every edit also knows the text that would realise it alone, so that unexplained edits can be
applied to the parent's file without the explained ones.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence

from porttool.learning.align import Entry, align
from porttool.learning.exprdiff import (
    Edit,
    EditKind,
    Inseparable,
    Sides,
    align_items,
    entries,
    expression_edits,
    field_edits,
    inside_edits,
    shapes,
)
from porttool.source.syntax import Source, Span, indent_of, line_start, span_of, statement_span

__all__ = ["Edit", "diff_sources"]

_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def diff_sources(
    old: Source,
    new: Source,
    wrapped_before: Callable[[ast.expr], ast.expr | None] = lambda _: None,
    wrapped_after: Callable[[ast.expr], ast.expr | None] = lambda _: None,
    wrapping_decorator: Callable[[ast.expr], bool] = lambda _: False,
) -> tuple[Edit, ...]:
    """Return the edits that make `new` of `old`, in the order of their spans, and the shapes of
    both trees.

    `wrapped_*` give the wrapped expression of a call of the wrapper on that side, else None.
    """
    shape = shapes(old.tree, new.tree)
    sides = Sides(old, new, shape, wrapped_before, wrapped_after, wrapping_decorator)
    if shape[old.tree] == shape[new.tree]:
        return ()
    try:
        edits = _block(sides, old.tree.body, new.tree.body)
    except Inseparable:
        edits = None
    if edits is None:
        whole = Span(0, len(old.text))
        edits = [Edit("replace", old.tree, new.tree, whole, new.text, added=(new.tree,))]
    return tuple(sorted(edits, key=lambda edit: (edit.span.start, -edit.span.end)))


def _block(s: Sides, old: Sequence[ast.stmt], new: Sequence[ast.stmt]) -> list[Edit] | None:
    if not old or not new:
        return None
    edits: list[Edit] = []
    position = 0
    for i, j in align(entries(s, old), entries(s, new), _statement_cost):
        if i is not None and j is not None:
            edits += _statement(s, old[i], new[j])
        elif i is not None:
            edits.append(_delete_statement(s, old, i))
        elif j is not None:
            edits.append(_insert_statement(s, old, position, new, j))
        position = i + 1 if i is not None else position
    return edits


def _lines(source: Source, statement: ast.stmt) -> Span:
    span = statement_span(source, statement)
    if span.start != line_start(source, span.start) or (
        span.end < len(source.text) and source.text[span.end - 1] not in "\r\n"
    ):
        raise Inseparable
    return span


def _delete_statement(s: Sides, old: Sequence[ast.stmt], i: int) -> Edit:
    span = _lines(s.old, old[i])
    start = _lines(s.old, old[i - 1]).end if i else span.start
    return Edit("delete", old[i], None, Span(start, span.end), "")


def _insert_statement(
    s: Sides, old: Sequence[ast.stmt], position: int, new: Sequence[ast.stmt], j: int
) -> Edit:
    own = _lines(s.new, new[j])
    start = _lines(s.new, new[j - 1]).end if j else own.start
    at = _lines(s.old, old[position - 1]).end if position else _lines(s.old, old[0]).start
    if position and j:
        following = _lines(s.old, old[position]).start if position < len(old) else at
        shared = _shared_comments(s.old.text[at:following], s.new.text[start : own.start])
        start, at = start + shared, at + shared
    text = s.new.text[start : own.end]
    here, there = indent_of(s.old, old[0]), indent_of(s.new, new[j])
    if here != there:
        text = re.sub(rf"(?m)^{re.escape(there)}", here, text)
    if at == len(s.old.text) and not s.old.text.endswith(("\n", "\r")):
        text = "\n" + text
    if not text.endswith(("\n", "\r")):
        text += "\n"
    return Edit("insert", None, new[j], Span(at, at), text, added=(new[j],))


def _shared_comments(old: str, new: str) -> int:
    """Return the length of the lines that both gaps open with, where a comment is among them."""
    length = 0
    for left, right in zip(old.splitlines(True), new.splitlines(True), strict=False):
        if left != right:
            break
        length += len(left)
    return length if "#" in old[:length] else 0


def _statement(s: Sides, old: ast.stmt, new: ast.stmt) -> list[Edit]:
    if s.shape[old] == s.shape[new]:
        return []
    try:
        edits = _inside_statement(s, old, new)
    except Inseparable:
        edits = None
    if edits is not None:
        return edits
    if getattr(old, "decorator_list", []) or getattr(new, "decorator_list", []):
        before, after = statement_span(s.old, old), statement_span(s.new, new)
    else:
        before, after = span_of(s.old, old), span_of(s.new, new)
    text = s.new.text[after.start : after.end]
    return [Edit("replace", old, new, before, text, added=(new,))]


def _inside_statement(s: Sides, old: ast.AST, new: ast.AST) -> list[Edit] | None:
    if type(old) is not type(new):
        return None
    if not hasattr(old, "body"):
        simple = not isinstance(old, ast.Import | ast.ImportFrom)
        return inside_edits(s, old, new) if simple else None
    edits: list[Edit] = []
    header: list[Edit] | None = []
    for name, left in ast.iter_fields(old):
        right = getattr(new, name)
        if name in _BLOCKS:
            if isinstance(left, list):
                part = _part(s, name, old, new)
                if part is None:
                    return None
                edits += part
        elif name == "decorator_list":
            edits += _decorators(s, old, new)
        elif header is not None and (part := field_edits(s, left, right)) is not None:
            header += part
        else:
            header = None
    if header is None:
        header = _header(s, old, new)
    return None if header is None else [*header, *edits]


def _part(s: Sides, name: str, old: ast.AST, new: ast.AST) -> list[Edit] | None:
    """Compare one block of a compound statement."""
    left, right = getattr(old, name), getattr(new, name)
    if name in ("handlers", "cases"):
        if len(left) != len(right):
            return None
        edits: list[Edit] = []
        for one, other in zip(left, right, strict=True):
            inside = _inside_statement(s, one, other)
            if inside is None:
                return None
            edits += inside
        return edits
    if not left and not right:
        return []
    if left and right:
        return _block(s, left, right)
    before, after = _tail(s.old, old, name), _tail(s.new, new, name)
    text = s.new.text[after.start : after.end]
    return [Edit("replace", None, None, before, text, added=tuple(right))]


def _tail(source: Source, statement: ast.AST, name: str) -> Span:
    """Return the span of an `else` or `finally` with its keyword; empty where there is none."""
    order = [block for block in _BLOCKS if getattr(statement, block, None)]
    ahead = [block for block in order if _BLOCKS.index(block) < _BLOCKS.index(name)]
    last = getattr(statement, ahead[-1])[-1]
    if isinstance(last, ast.ExceptHandler | ast.match_case):
        last = last.body[-1]
    start = _lines(source, last).end
    block = getattr(statement, name)
    return Span(start, _lines(source, block[-1]).end if block else start)


def _header(s: Sides, old: ast.AST, new: ast.AST) -> list[Edit] | None:
    """Replace everything from a compound statement's keyword to its first inner line."""
    left = s.old.text[span_of(s.old, old).start : _lines(s.old, old.body[0]).start]  # type: ignore[attr-defined]
    right = s.new.text[span_of(s.new, new).start : _lines(s.new, new.body[0]).start]  # type: ignore[attr-defined]
    keywords = [re.match(r"(async\s+)?\w+", text) for text in (left, right)]
    if not all(keywords) or keywords[0].group() != keywords[1].group():  # type: ignore[union-attr]
        return None
    start = span_of(s.old, old).start
    added = tuple(
        value
        for name, value in ast.iter_fields(new)
        if isinstance(value, ast.AST) and name not in _BLOCKS
    )
    return [Edit("replace", old, new, Span(start, start + len(left)), right, added=added)]


def _decorators(s: Sides, old: ast.AST, new: ast.AST) -> list[Edit]:
    left: list[ast.expr] = old.decorator_list  # type: ignore[attr-defined]
    right: list[ast.expr] = new.decorator_list  # type: ignore[attr-defined]
    edits: list[Edit] = []
    position = 0
    for i, j in align_items(s, left, right):
        if i is not None and j is not None:
            edits += expression_edits(s, left[i], right[j])
        elif i is not None:
            edits.append(Edit("delete", left[i], None, _decorator_lines(s.old, left[i]), ""))
        elif j is not None:
            start = (
                _decorator_lines(s.old, left[position]).start
                if position < len(left)
                else line_start(s.old, span_of(s.old, old).start)
            )
            lines = _decorator_lines(s.new, right[j])
            kind: EditKind = "decorator" if s.wrapping_decorator(right[j]) else "insert"
            text = s.new.text[lines.start : lines.end]
            edits.append(Edit(kind, old, right[j], Span(start, start), text, added=(right[j],)))
        position = i + 1 if i is not None else position
    return edits


def _decorator_lines(source: Source, decorator: ast.expr) -> Span:
    span = span_of(source, decorator)
    start = line_start(source, source.text.rindex("@", 0, span.start))
    end = re.compile(r"[^\r\n]*(\r\n|\r|\n)?").match(source.text, span.end)
    if end is None:  # the expression matches everywhere; this is for the type checker alone
        raise Inseparable
    return Span(start, end.end())


def _statement_cost(left: Entry, right: Entry, cost: float, common: int) -> float:
    old, new = left.node, right.node
    least, most = sorted((left.bag.total(), right.bag.total()))
    if type(old) is not type(new):
        return float("inf")
    if isinstance(old, _DEFINITIONS) and isinstance(new, _DEFINITIONS):
        if old.name == new.name:
            return cost / 2
        return cost if common > 0.7 * most else float("inf")
    if isinstance(old, ast.Assign) and isinstance(new, ast.Assign):
        targets = [[ast.dump(target) for target in node.targets] for node in (old, new)]
        if targets[0] == targets[1]:
            return cost / 2
    return cost if common > 0.5 * least else float("inf")
