"""One edit of an experiment, understood."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Literal

from porttool.frozen import dataclass
from porttool.learning.exprdiff import Edit
from porttool.learning.generalise import Pattern
from porttool.learning.lesson import Example, Helper, HunkKind, Seed, Wrapper
from porttool.learning.neutral import Definitions
from porttool.learning.seeds import View
from porttool.source.syntax import Span


@dataclass(frozen=True)
class Change:
    """One edit of one file, understood: what explains it and what stands for it in a replay.

    how residual: `text` goes into the residual at `span`. text: word for word at replay. place: a
    rule or seed is carried out on the expression at `span`. `seeds` are paired with the span of
    what they wrap, relative to `text` (None: `span` itself).
    """

    edit: Edit
    kind: HunkKind
    by: str
    how: Literal["residual", "text", "place"]
    span: Span
    text: str = ""
    pattern: Pattern | None = None
    site: ast.AST | None = None
    example: Example | None = None
    seeds: tuple[tuple[Seed, Span | None], ...] = ()
    helper: Helper | None = None
    imports: tuple[str, ...] = ()


@dataclass(frozen=True)
class ChangedFile:
    """A Python file that both sides have, with all its edits; `through` are its own wrapping
    functions.
    """

    path: str
    old: View
    new: View
    wrapper: Wrapper
    added: frozenset[str]
    through: Mapping[str, int]
    definitions: Definitions
    changes: tuple[Change, ...] = ()


def unexplained(edit: Edit, reason: str) -> Change:
    """Return an edit as part of the residual, with the reason why no rule explains it."""
    return Change(edit, "residual", reason, "residual", edit.span, edit.text)
