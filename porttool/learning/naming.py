"""Helpers by one name: where one is defined it is called by its own, elsewhere by its import's."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from porttool.learning.change import ChangedFile
from porttool.learning.definitions import resolves
from porttool.learning.generalise import Pattern
from porttool.learning.lesson import Helper, is_name_of
from porttool.source.syntax import Source


def imported_on(helper: Helper, sources: Iterable[Source]) -> Helper:
    """Return a helper with the files that others can import it from beside its own one."""
    sources = [source for source in sources if source.path != helper.path]
    through: list[str] = []
    name = helper.name.partition(".")[0]
    for _ in sources:
        homes = [helper.path, *through]
        through += [
            source.path
            for source in sources
            if source.path not in through
            and any(
                isinstance(one, ast.ImportFrom)
                and any(alias.name == name and alias.asname is None for alias in one.names)
                and any(resolves(source, one, home) for home in homes)
                for one in source.tree.body
            )
        ]
    return replace(helper, through=tuple(sorted(through)))


def under_one_name(files: Sequence[ChangedFile]) -> list[ChangedFile]:
    """Return the files with helpers by their own names in every pattern that wrote them so.

    One file defines a helper and another imports it from there: both call it the same, and both
    teach the same rule.
    """
    helpers = [change.helper for file in files for change in file.changes if change.helper]
    return [
        replace(
            file,
            changes=tuple(
                replace(change, pattern=_plainly(change.pattern, helpers))
                if change.pattern is not None
                else change
                for change in file.changes
            ),
        )
        for file in files
    ]


def _plainly(pattern: Pattern, helpers: Iterable[Helper]) -> Pattern:
    for helper in helpers:
        for origin, written in pattern.spelled:
            if written == helper.name and origin != written and is_name_of(helper, origin):
                pattern = replace(
                    pattern,
                    after=plain_text(pattern.after, origin, helper),
                    requires=plain_names(pattern.requires, origin, helper),
                    spelled=tuple(pair for pair in pattern.spelled if pair[0] != origin),
                )
    return pattern


def plain_text(text: str, origin: str, helper: Helper) -> str:
    """Return a template with a helper by its own name, not by `origin`."""
    return re.sub(rf"(?<![\w.]){re.escape(origin)}\b", helper.name, text)


def plain_names(names: Iterable[str], origin: str, helper: Helper) -> tuple[str, ...]:
    """Return what a template needs, with a helper by its own name, not by `origin`."""
    return tuple(dict.fromkeys(helper.name if name == origin else name for name in names))
