"""Make the experiment again from its parent and the lesson; what does not come out was not
learned.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence

from porttool.errors import CannotLearn
from porttool.learning.lesson import Lesson, Step
from porttool.learning.rewriting import (
    edited_text,
    expand,
    imported_names,
    instantiate,
    match,
    names_of,
    pattern_expression,
)
from porttool.learning.treediff import diff_sources
from porttool.source.nodes import nodes_of
from porttool.source.syntax import (
    Source,
    Span,
    TextEdit,
    apply_edits,
    line_at,
    line_of,
    parse_source,
    same_tree,
    span_of,
    text_of,
)

Files = Mapping[str, bytes]


def moved(span: Span, edits: Iterable[TextEdit]) -> Span:
    """Return where a span of the text stands after edits to it.

    What is inserted at either end of a span that is not empty counts as outside of it; what is
    inserted at an empty span counts as ahead of it.
    """
    start = end = 0
    for edit in edits:
        growth = len(edit.text) - (edit.end - edit.start)
        start += growth if edit.end <= span.start else 0
        outside = edit.start == edit.end == span.end > span.start
        end += growth if edit.end <= span.end and not outside else 0
    return Span(span.start + start, span.end + end)


def replay(lesson: Lesson, parent: Files) -> dict[str, bytes]:
    """Return the touched files as parent, residual, helpers, seeds and rules make them.

    Rules and seeds are carried out from their patterns, at the places where the experiment has
    them. A file that the experiment deletes is left out.

    Raises:
        CannotLearn: when a rule does not match at one of its own places.
    """
    made: dict[str, bytes] = {}
    for path in lesson.touched:
        data = lesson.residual.get(path, parent.get(path))
        if data is None:
            continue
        steps = [step for step in lesson.steps if step.path == path]
        made[path] = _carried_out(lesson, path, data, steps) if steps else data
    return made


def _carried_out(lesson: Lesson, path: str, data: bytes, steps: Sequence[Step]) -> bytes:
    source = parse_source(path, data)
    # Word-for-word text first: an import among it decides how a template is spelled.
    texts = [
        TextEdit(step.start, step.end, _native(source, step.text))
        for step in steps
        if step.kind == "text"
    ]
    data = apply_edits(source, texts)
    places = [
        (moved(Span(step.start, step.end), texts), step) for step in steps if step.kind != "text"
    ]
    source = parse_source(path, data)
    lines = {line_at(source, span.start) for span, _ in places}
    by_span: dict[Span, list[ast.expr]] = {}
    for node in nodes_of(source.tree):
        # Only a node that starts on the line of a place is worth its span.
        if isinstance(node, ast.expr) and node.lineno in lines:
            by_span.setdefault(span_of(source, node), []).append(node)
    places.sort(key=lambda place: (place[0].start, -place[0].end, place[1].kind == "rule"))

    def text(span: Span, step: Step, inner: Sequence[TextEdit]) -> str:
        nodes = by_span.get(span, [])
        return (_seed_text if step.kind == "seed" else _rule_text)(
            lesson, source, step, nodes, inner
        )

    return apply_edits(source, _composed(places, text))


def _native(source: Source, text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", source.newline)


def _composed(
    places: Sequence[tuple[Span, Step]], text: Callable[[Span, Step, Sequence[TextEdit]], str]
) -> list[TextEdit]:
    """Turn nested places into edits side by side: inner ones first, then what holds them."""
    edits: list[TextEdit] = []
    index = 0
    while index < len(places):
        span, step = places[index]
        inside = index + 1
        while inside < len(places) and span.contains(places[inside][0]):
            inside += 1
        inner = _composed(places[index + 1 : inside], text)
        edits.append(TextEdit(span.start, span.end, text(span, step, inner)))
        index = inside
    return edits


def _rule_text(
    lesson: Lesson, source: Source, step: Step, nodes: Sequence[ast.expr], inner: Sequence[TextEdit]
) -> str:
    rule = next(rule for rule in lesson.rules if rule.name == step.by)
    names = names_of(source.tree)
    for node in nodes:
        pattern = pattern_expression(rule.before)
        bindings = match(pattern, node, names, imported_names(rule.requires))
        if bindings is not None:
            return expand(source, rule, node, bindings, inner)
    raise CannotLearn(
        f"the rule {rule.name} does not match one of its own places",
        where=f"{source.path}:{line_at(source, step.start)}",
        why=f"`{source.text[step.start : step.end]}` is not of the form `{rule.before}`",
        next="split the experiment's commit so that this edit stands alone",
    )


def _seed_text(
    lesson: Lesson, source: Source, step: Step, nodes: Sequence[ast.expr], inner: Sequence[TextEdit]
) -> str:
    seed = lesson.seeds[int(step.by)]
    if not nodes:
        raise CannotLearn(
            f"the place where {seed.target or 'an object'} is wrapped was not found again",
            where=f"{source.path}:{seed.line} (experiment)",
            why=f"`{source.text[step.start : step.end]}` is no expression of its own",
            next="split the experiment's commit so that this edit stands alone",
        )
    node = nodes[0]
    text = edited_text(source, span_of(source, node), inner)
    names = names_of(source.tree)
    imported = imported_names(seed.requires)
    texts = {"X": (text, node)}
    return instantiate(seed.call, texts, names, node, imported, like=seed.spelled)


def check_replay(lesson: Lesson, parent: Files, experiment: Files) -> None:
    """Hold the lesson against the experiment, file for file.

    Raises:
        CannotLearn: at the first place where the replay has another tree than the experiment (or
            other bytes, in a file that is not Python).
    """
    made = replay(lesson, parent)
    for path in lesson.touched:
        wanted, got = experiment.get(path), made.get(path)
        if wanted == got:
            continue
        if wanted is None or got is None or not path.endswith((".py", ".pyi")):
            raise CannotLearn(
                f"{path} does not come out as in the experiment",
                where=path,
                next="report this: a whole file should have been carried over as it is",
            )
        replayed, real = parse_source(path, got), parse_source(path, wanted)
        if not same_tree(replayed.tree, real.tree):
            raise _difference(replayed, real)


def _difference(replayed: Source, real: Source) -> CannotLearn:
    edits = diff_sources(replayed, real)
    first = next((edit.after for edit in edits if edit.after is not None), None)
    line, wanted = 1, "the text of the experiment"
    if isinstance(first, ast.stmt | ast.expr):
        line, wanted = line_of(first), text_of(real, first)
    got = replayed.text[edits[0].span.start : edits[0].span.end] if edits else ""
    return CannotLearn(
        f"{real.path} does not come out of the learned rules as the experiment has it",
        where=f"{real.path}:{line} (experiment)",
        why=f"the experiment has `{wanted}`, the replay `{got}`",
        next="split the experiment's commit so that this edit stands alone",
    )
