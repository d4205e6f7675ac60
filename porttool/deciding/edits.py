"""The ungated port of one file as text edits: seeds wrapped, sites rewritten, helpers added."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from porttool.deciding.sites import Decision, PlacedSeed
from porttool.learning.learn import helper_edits
from porttool.learning.lesson import Lesson, Rule
from porttool.learning.rewriting import edited_text, rewrite
from porttool.source.syntax import (
    Names,
    Source,
    Span,
    TextEdit,
    indent_of,
    insert_import,
    line_at,
    span_of,
    statement_span,
)

_ADDED = ("rebind", "statement")


@dataclass(frozen=True)
class _Change:
    """One change of an expression; what lies inside it is changed first."""

    span: Span
    rule: Rule | None = None
    seed: PlacedSeed | None = None


def port_edits(
    source: Source,
    decisions: Iterable[Decision],
    placed: Iterable[PlacedSeed],
    lesson: Lesson,
) -> tuple[TextEdit, ...]:
    """Return the edits of one file without any gate; other files' decisions and seeds are ignored.

    Raises:
        NeedsPerson: when a helper's name is taken by something else in this file.
    """
    rules = {rule.name: rule for rule in lesson.rules}
    seeds = [seed for seed in placed if seed.path == source.path]
    changes = [
        _Change(decision.span, rule=rules[decision.rule])
        for decision in decisions
        if decision.path == source.path and decision.action == "rewrite" and decision.rule
    ]
    changes += [_Change(s.value, seed=s) for s in seeds if s.kind not in (*_ADDED, "decorator")]
    if not changes and not seeds:
        return ()
    needed: dict[str, None] = {}
    for change in changes:
        if change.rule is not None:
            needed |= dict.fromkeys(change.rule.requires)
    for seed in seeds:
        needed |= dict.fromkeys(seed.seed.requires)
    edits = [*_expressions(source, changes), *_statements(source, seeds)]
    edits += helper_edits(source, lesson, needed)
    return (*edits, *_missing_import(source, seeds, lesson, edits))


def _expressions(source: Source, changes: list[_Change]) -> list[TextEdit]:
    """Compose the changes of expressions, inner ones first."""
    done: list[TextEdit] = []
    ordered = sorted(set(changes), key=lambda c: (c.span.end - c.span.start, c.rule is None))
    for change in ordered:
        span = change.span
        inner = [e for e in done if span.start <= e.start and e.end <= span.end]
        done = [edit for edit in done if edit not in inner]
        if change.seed is not None:
            wrapped = change.seed.call.replace("$X", edited_text(source, span, inner))
            done.append(TextEdit(span.start, span.end, wrapped))
        elif change.rule is not None:
            node = expression_at(source, span)
            done.append(TextEdit(span.start, span.end, rewrite(source, change.rule, node, inner)))
    return done


def expression_at(source: Source, span: Span) -> ast.expr:
    """Return the outermost expression that covers exactly a span; raises ValueError."""
    line = line_at(source, span.start)
    for node in ast.walk(source.tree):
        # Only a node that starts on the span's own line is worth its offset.
        if isinstance(node, ast.expr) and node.lineno == line and span_of(source, node) == span:
            return node
    raise ValueError(f"{source.path}: no expression at characters {span.start} to {span.end}")


def _statements(source: Source, seeds: list[PlacedSeed]) -> list[TextEdit]:
    """Add the statements and decorators that the experiment added."""
    edits = []
    for placed in seeds:
        text = placed.seed.statement
        if placed.kind not in (*_ADDED, "decorator") or text is None:
            continue
        text = text.strip("\n")
        if placed.seed.call in text:
            text = text.replace(placed.seed.call, placed.call)
        else:
            text = _respelled(text, placed)
        statement = _statement_at(source, placed.binding)
        indent = indent_of(source, statement)
        block = "".join(f"{indent}{line}\n" if line else "\n" for line in text.split("\n"))
        if placed.kind == "decorator":
            edits.append(TextEdit(placed.binding.start, placed.binding.start, block))
            continue
        end = placed.binding.end
        if source.text[:end].endswith(("\n", "\r")):
            edits.append(TextEdit(end, end, block))
        else:
            edits.append(TextEdit(end, end, "\n" + block.rstrip("\n")))
    return edits


def _respelled(text: str, placed: PlacedSeed) -> str:
    """Carry the file's spelling of the wrapper from the call into the whole statement."""
    ours, theirs = placed.call.partition("(")[0], placed.seed.call.partition("(")[0]
    return text.replace(theirs, ours) if theirs != ours else text


def _statement_at(source: Source, span: Span) -> ast.stmt:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.stmt) and statement_span(source, node) == span:
            return node
    raise ValueError(f"{source.path}: no statement at characters {span.start} to {span.end}")


def _missing_import(
    source: Source, seeds: list[PlacedSeed], lesson: Lesson, edits: list[TextEdit]
) -> list[TextEdit]:
    """Import the wrapper's package where a seed was placed in a file that does not."""
    callee = lesson.wrapper.callee
    if not any(callee in seed.call for seed in seeds):
        return []
    if Names(source.tree).spelling(callee, source.tree) is not None:
        return []
    module = callee.rpartition(".")[0]
    written = f"import {module}"
    if not module or any(written in edit.text for edit in edits):
        return []
    edit = insert_import(source, written)
    return [edit] if edit is not None else []
