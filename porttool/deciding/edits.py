"""The ungated port of one file as text edits: seeds wrapped, sites rewritten, helpers added."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from porttool.deciding.sites import Decision, PlacedSeed
from porttool.errors import NeedsPerson
from porttool.frozen import dataclass
from porttool.learning.definitions import helper_edits, helpers_at_home, import_statements
from porttool.learning.lesson import Lesson, Rule, is_name_of
from porttool.learning.rewriting import edited_text, names_of, rewrite
from porttool.learning.spelling import respelled, way_to_write
from porttool.source.nodes import KEPT, nodes_of
from porttool.source.syntax import (
    Names,
    Source,
    Span,
    TextEdit,
    indent_of,
    line_at,
    line_start,
    span_of,
    statement_span,
)

_ADDED = ("rebind", "statement")
_COMPOUND = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match)


@dataclass(frozen=True)
class _Change:
    """One change of an expression; what lies inside it is changed first."""

    span: Span
    rule: Rule | None = None
    seed: PlacedSeed | None = None


def port_edits(
    source: Source,
    decisions: Collection[Decision],
    placed: Collection[PlacedSeed],
    lesson: Lesson,
    gated: Iterable[PlacedSeed] = (),
) -> tuple[TextEdit, ...]:
    """Return the edits of one file without any gate; of `gated` seeds only what they import.

    Of other files' decisions and seeds it counts which helpers they need: this may be their home.

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
    everywhere = {
        name
        for d in decisions
        if d.action == "rewrite" and d.rule
        for name in rules[d.rule].requires
    }
    everywhere |= {name for seed in placed for name in seed.seed.requires}
    needed = dict.fromkeys(helpers_at_home(source, lesson, everywhere))
    needed |= dict.fromkeys(_imported_on(source, lesson, everywhere))
    free = (helper.name for helper in lesson.helpers if helper.free and helper.path == source.path)
    needed |= dict.fromkeys(free)
    imports = (*seed_imports(source, [*seeds, *gated]), *_unexplained_imports(source, lesson))
    if not changes and not seeds and not needed and not imports:
        return ()
    for change in changes:
        if change.rule is not None:
            needed |= dict.fromkeys(_not_there_yet(source, change.span, change.rule, lesson))
    for seed in seeds:
        # What is imported is spelled, and imported, as the place needs it.
        imported = {origin for origin, _ in seed.seed.spelled}
        needed |= dict.fromkeys(name for name in seed.seed.requires if name not in imported)
    # Inserts at one place keep their order: imports stand in front of definitions.
    edits = [*_expressions(source, changes), *_statements(source, seeds)]
    edits += helper_edits(source, lesson, needed, imports)
    return tuple(dict.fromkeys(edits))


def _imported_on(source: Source, lesson: Lesson, called: Iterable[str]) -> list[str]:
    """Return the called helpers that the experiment imports here for other files alone."""
    own = {example.path for rule in lesson.rules for example in rule.examples}
    if source.path in own | {seed.path for seed in lesson.seeds}:
        return []
    names = tuple(called)
    added = [one.statement for one in lesson.imports if one.path == source.path]
    return [
        helper.name
        for helper in lesson.helpers
        if source.path in helper.through
        and any(helper.name in import_statements(ast.parse(text).body[0]) for text in added)
        and any(is_name_of(helper, name) for name in names)
    ]


def _not_there_yet(source: Source, span: Span, rule: Rule, lesson: Lesson) -> list[str]:
    """Return what a rule requires, without the imported names that its place can write already.

    What is called through a module of another name is in that module, not here.
    """
    names, at = names_of(source.tree), expression_at(source, span)
    helpers = {helper.name for helper in lesson.helpers}
    return [
        name
        for name in rule.requires
        if "." not in name or name in helpers or name.partition(".")[0] not in rule.requires
        if "." not in name
        or name in helpers
        or way_to_write(names, name, at, rule.spelled).statement is not None
    ]


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
    # Only a node that starts on the span's own line is worth its offset.
    for node in _by_line(source.tree).get(line_at(source, span.start), ()):
        if span_of(source, node) == span:
            return node
    raise ValueError(f"{source.path}: no expression at characters {span.start} to {span.end}")


@lru_cache(maxsize=KEPT)
def _by_line(tree: ast.Module) -> Mapping[int, Sequence[ast.expr]]:
    """Map each line to the expressions that start on it, outer ones first."""
    found: dict[int, list[ast.expr]] = {}
    for node in nodes_of(tree):
        if isinstance(node, ast.expr):
            found.setdefault(node.lineno, []).append(node)
    return found


def _statements(source: Source, seeds: list[PlacedSeed]) -> list[TextEdit]:
    """Add the statements and decorators that the experiment added."""
    edits = []
    for placed in seeds:
        text = placed.seed.statement
        if placed.kind not in (*_ADDED, "decorator") or text is None:
            continue
        text = respelled_statement(text.strip("\n"), placed)
        statement = _statement_at(source, placed.binding)
        indent = indent_of(source, statement)
        block = "".join(f"{indent}{line}\n" if line else "\n" for line in text.split("\n"))
        if placed.kind == "decorator":
            start = _decorator_place(source, placed, statement)
            edits.append(TextEdit(start, start, block))
            continue
        if placed.ahead:
            edits.append(_in_front(source, placed, statement, block, text))
            continue
        end = placed.binding.end
        if source.text[:end].endswith(("\n", "\r")):
            edits.append(TextEdit(end, end, block))
        elif not source.text[end:].strip(" \t\f") and not _shares_its_line(source, statement):
            edits.append(TextEdit(end, end, "\n" + block.rstrip("\n")))
        elif "\n" not in text and not isinstance(ast.parse(text).body[0], _COMPOUND):
            # A line of its own would leave the one-line block that the statement is in.
            edits.append(TextEdit(end, end, f"; {text}"))
        else:
            raise _no_line(source, placed, text)
    return edits


def _in_front(
    source: Source, placed: PlacedSeed, statement: ast.stmt, block: str, text: str
) -> TextEdit:
    """Add a statement in front of another one."""
    start = span_of(source, statement).start
    if not _shares_its_line(source, statement):
        start = placed.binding.start
        return TextEdit(start, start, block)
    if "\n" in text or isinstance(ast.parse(text).body[0], _COMPOUND):
        raise _no_line(source, placed, text)
    return TextEdit(start, start, f"{text}; ")


def _no_line(source: Source, placed: PlacedSeed, text: str) -> NeedsPerson:
    return NeedsPerson(
        f"{source.path} has other code on the line behind which the experiment adds more",
        where=f"{source.path}:{placed.line}",
        why=f"`{text.splitlines()[0]}` cannot stand on one line with it",
        next="give the statement a line of its own on the branch that it is ported to",
    )


def _decorator_place(source: Source, placed: PlacedSeed, statement: ast.stmt) -> int:
    """Return where a decorator goes: behind those that the experiment has above it."""
    above = (placed.seed.follows or "").split("\n")
    above = above[: above.index("")] if "" in above else above
    there = [one for one in getattr(statement, "decorator_list", ()) if ast.unparse(one) in above]
    if not there:
        return placed.binding.start
    return source.line_starts[line_at(source, span_of(source, there[-1]).end)]


def _shares_its_line(source: Source, statement: ast.stmt) -> bool:
    head = source.text[line_start(source, span_of(source, statement).start) :]
    bare = span_of(source, statement).start - line_start(source, span_of(source, statement).start)
    return bool(head[:bare].strip(" \t\f"))


def respelled_statement(text: str, placed: PlacedSeed) -> str:
    """Carry the file's spelling of the wrapper from the call into the whole added statement."""
    if placed.seed.call in text:
        return text.replace(placed.seed.call, placed.call)
    for theirs, ours in _both_spellings(placed.seed.call, placed.call):
        for written in (theirs, *(way for origin, way in placed.seed.spelled if origin == theirs)):
            text = respelled(text, written, ours)
    return text


def _both_spellings(theirs: str, ours: str) -> list[tuple[str, str]]:
    """Return the names in calls of two spellings of one expression, each as both write it."""
    names = [
        [
            ast.unparse(name)
            for call in ast.walk(tree)
            if isinstance(call, ast.Call)
            for name in (call.func, *call.args)
            if isinstance(name, ast.Name | ast.Attribute)
        ]
        for tree in (ast.parse(text.replace("$X", "_"), mode="eval") for text in (theirs, ours))
    ]
    return [*dict.fromkeys(zip(*names, strict=True))]


def _statement_at(source: Source, span: Span) -> ast.stmt:
    for node in nodes_of(source.tree):
        if isinstance(node, ast.stmt) and statement_span(source, node) == span:
            return node
    raise ValueError(f"{source.path}: no statement at characters {span.start} to {span.end}")


def _unexplained_imports(source: Source, lesson: Lesson) -> Iterator[str]:
    """Yield the experiment's imports that code of it needs which was merged in as it stands."""
    names = names_of(source.tree)
    for added in lesson.imports:
        if added.path != source.path:
            continue
        (alias,) = ast.parse(added.statement).body[0].names  # type: ignore[attr-defined]
        if isinstance(alias, ast.alias) and "." in alias.name and alias.asname is None:
            used = (n for n in nodes_of(source.tree) if isinstance(n, ast.Attribute))
            if alias.name in map(ast.unparse, used) and added.statement not in source.text:
                yield added.statement
            continue
        name = alias.asname or alias.name
        reads = (n for n in nodes_of(source.tree) if isinstance(n, ast.Name) and n.id == name)
        if any(isinstance(node.ctx, ast.Load) and not names.binds(name, node) for node in reads):
            yield added.statement


def seed_imports(source: Source, seeds: Iterable[PlacedSeed]) -> tuple[str, ...]:
    """Return the imports, a statement each, that the calls of placed seeds need in a file.

    Raises NeedsPerson where the name that such a call starts with is taken by something else.
    """
    names = Names(source.tree)
    statements: dict[str, None] = {}
    for placed in seeds:
        at = _statement_at(source, placed.binding)
        for origin, _ in placed.seed.spelled:
            way = way_to_write(names, origin, at, placed.seed.spelled)
            if way.statement is None or way.written not in placed.call:
                continue
            if way.taken:
                root = way.written.partition(".")[0]
                raise NeedsPerson(
                    f"{source.path} has something else by the name `{root}` where "
                    f"{placed.target or 'an object'} is to be wrapped",
                    where=f"{source.path}:{placed.line}",
                    why=f"`{placed.call}` would not call {origin} there",
                    next=f"rename that `{root}` on the branch that it is ported to, commit, and "
                    "run the same command again",
                )
            statements[way.statement] = None
    return tuple(statements)
