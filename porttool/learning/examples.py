"""Edits of expressions as examples of rules: which part of the code an edit is about."""

from __future__ import annotations

import ast
import re

from porttool.errors import CannotLearn, UnparsableSource
from porttool.learning.change import Change, ChangedFile, unexplained
from porttool.learning.exprdiff import Edit
from porttool.learning.generalise import NotGeneral, Pattern, generalise
from porttool.learning.lesson import Example
from porttool.learning.rewriting import pattern_expression
from porttool.learning.seeds import place_of
from porttool.source.expressions import one_line
from porttool.source.syntax import line_of, span_of, text_of


def rule_change(file: ChangedFile, edit: Edit) -> Change | None:
    """Return an edit of an expression as an example of a rule, or why it is none.

    An edit of a bare receiver or argument says too little (`x` becomes `getattr(x, ...)`); there
    the call or attribute access around it becomes the rule's pattern.
    """
    old, new = edit.before, edit.after
    if not isinstance(old, ast.expr) or not isinstance(new, ast.expr):
        return None
    before, after = text_of(file.old.source, old), text_of(file.new.source, new)
    about: str | None = None
    site: ast.expr = old
    if not isinstance(old, ast.Call) or _unwraps(file, new, old):
        about = before
        grown = _grown(file, old, new)
        if grown is not None:
            site, holder = grown
            after = text_of(file.new.source, holder)
            span, own = span_of(file.new.source, new), span_of(file.new.source, holder)
            head = file.new.source.text[own.start : span.start]
            tail = file.new.source.text[span.end : own.end]
            plain = isinstance(old, ast.Name | ast.Attribute | ast.Subscript | ast.Call)
            before = f"{head}{before if plain else f'({before})'}{tail}"
        elif not isinstance(old, ast.Attribute):
            return unexplained(edit, "the expression stands alone: no call or attribute to go by")
        else:
            about = None
    places = place_of(file.old, old), place_of(file.new, new)
    try:
        pattern = generalise(before, after, about, *places)
    except (SyntaxError, UnparsableSource, ValueError):
        return unexplained(edit, "the edit is no expression of its own")
    if isinstance(pattern, NotGeneral):
        return unexplained(edit, pattern.reason)
    if not _about_wrapping(file, pattern):
        return unexplained(edit, "it is not about the wrapper")
    example = Example(
        path=file.path,
        line=line_of(site),
        before=one_line(text_of(file.old.source, site)),
        after=one_line(after),
        column=site.col_offset,
    )
    span = span_of(file.old.source, site)
    return Change(edit, "rule", "", "place", span, pattern=pattern, site=site, example=example)


def _unwraps(file: ChangedFile, new: ast.expr, old: ast.expr) -> bool:
    """Tell whether `new` is `old` itself, unwrapped, rather than something made of it."""
    text = ast.unparse(old)
    for node in ast.walk(new):
        taken: ast.expr | None = None
        if isinstance(node, ast.Attribute) and node.attr == file.wrapper.unwrap:
            taken = node.value
        elif isinstance(node, ast.Call) and len(node.args) >= 2:
            name = node.args[1]
            if isinstance(name, ast.Constant) and name.value == file.wrapper.unwrap:
                taken = node.args[0]
        if taken is not None and ast.unparse(taken) == text:
            return True
    return False


def _grown(file: ChangedFile, old: ast.expr, new: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """Return the call or attribute access around a bare edit, on both sides."""
    above, holder = file.old.above.get(old), file.new.above.get(new)
    if isinstance(above, ast.keyword) and isinstance(holder, ast.keyword):
        above, holder = file.old.above.get(above), file.new.above.get(holder)
    if isinstance(above, ast.Attribute) and isinstance(holder, ast.Attribute):
        call, other = file.old.above.get(above), file.new.above.get(holder)
        if isinstance(call, ast.Call) and isinstance(other, ast.Call) and call.func is above:
            return call, other
        return above, holder
    if isinstance(above, ast.Call) and isinstance(holder, ast.Call):
        return above, holder
    return None


def _about_wrapping(file: ChangedFile, pattern: Pattern) -> bool:
    """Tell whether a rewrite has to do with the wrapper, itself or through what it calls."""
    marks = [
        re.compile(rf"\b{re.escape(mark.removesuffix('.'))}\b")
        for mark in (file.wrapper.unwrap, file.wrapper.prefix)
        if mark
    ]
    before = pattern_expression(pattern.before)
    method = before.func if isinstance(before, ast.Call) else None
    if isinstance(method, ast.Attribute) and method.attr in file.wrapper.methods:
        return True
    waiting, seen = [pattern.after], {""}
    while waiting:
        text = waiting.pop()
        if any(mark.search(text) for mark in marks):
            return True
        for name in re.findall(r"\w+", text):
            if name not in seen and name in file.definitions:
                waiting.append(ast.unparse(file.definitions[name]))
            seen.add(name)
    return False


def refuse_overlaps(file: ChangedFile) -> None:
    """Refuse two edits that grew to one and the same expression."""
    taken: dict[ast.AST, Change] = {}
    for change in file.changes:
        if change.site is None:
            continue
        other = taken.setdefault(change.site, change)
        if other is not change:
            old = file.old.source
            parts = [text_of(old, one.edit.before) for one in (other, change) if one.edit.before]
            raise CannotLearn(
                f"two edits overlap in `{text_of(old, change.site)}`",
                where=f"{file.path}:{line_of(change.site)}",
                why=f"both `{parts[0]}` and `{parts[1]}` are rewritten in one call",
                next="split the experiment's commit so that each of them stands alone",
            )
