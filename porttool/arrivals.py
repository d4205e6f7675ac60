"""Files that an experiment adds and that wrap objects: they come along whole, and are asked about.

What is learned is what changed in files that were there. Where an object goes that a new file
wraps is not followed, so that a leak behind it would be silent.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from porttool.deciding.sites import Decision, site_key
from porttool.learning.lesson import Lesson
from porttool.source.syntax import Names, Source, line_start, span_of, text_of
from porttool.wrappers import Wrapper


def new_wrappings(
    sources: Mapping[str, Source],
    before: Mapping[str, Source],
    lesson: Lesson,
    answers: Mapping[str, str],
) -> tuple[Decision, ...]:
    """Return a question for each wrapping in a file that the experiment adds and others name.

    `sources` are onto's files with the new ones among them, `before` those of the experiment's
    parent. Nothing can be rewritten there: the answer `skip` takes the file as it is.
    """
    found = []
    for path, data in lesson.residual.items():
        source = sources.get(path)
        if data is None or path in before or source is None or not _is_named(path, sources):
            continue
        for number, node in enumerate(_wrappings(source, lesson.wrapper), start=1):
            found.append(_question(source, node, number, answers))
    return tuple(found)


def _is_named(path: str, sources: Mapping[str, Source]) -> bool:
    """Tell whether another file has the word by which it would import this one."""
    file = PurePosixPath(path)
    name = file.parent.name if file.stem == "__init__" else file.stem
    word = re.compile(rf"\b{re.escape(name)}\b")
    return any(other != path and word.search(one.text) for other, one in sources.items())


def _wrappings(source: Source, wrapper: Wrapper) -> Iterator[ast.expr]:
    names = Names(source.tree)
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Name | ast.Attribute):
            continue
        if isinstance(node.ctx, ast.Load) and wrapper.is_called(names.qualified(node)):
            yield node


def _question(source: Source, node: ast.expr, number: int, answers: Mapping[str, str]) -> Decision:
    span = span_of(source, node)
    key = site_key(source.path, "", f"wrap in a new file: {text_of(source, node)}", number)
    answer = answers.get(key)
    why = "the experiment adds this file, and where an object goes that it wraps is not followed"
    if answer == "rewrite":
        why = f"answered `rewrite`, and only `skip` takes the file as it is; {why}"
    return Decision(
        key=key,
        path=source.path,
        line=node.lineno,
        column=span.start - line_start(source, span.start),
        text=text_of(source, node),
        action="skip" if answer == "skip" else "ask",
        rule=None,
        reasons=(why,) if answer != "skip" else ("answered `skip` in the plan", why),
        span=span,
        known=False,
        only_skip=True,
    )
