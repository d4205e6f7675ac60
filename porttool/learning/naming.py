"""Helpers by one name: where one is defined it is called by its own, elsewhere by its import's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from porttool.learning.change import ChangedFile
from porttool.learning.generalise import Pattern
from porttool.learning.lesson import Helper


def is_name_of(helper: Helper, name: str) -> bool:
    """Tell whether a name is a helper's, or its name in full in another file (`tools.clean`)."""
    module, _, last = name.rpartition(".")
    if not module or "." in helper.name:
        return name == helper.name
    home = list(PurePosixPath(helper.path).with_suffix("").parts)
    home = home[:-1] if home[-1] == "__init__" else home
    parts = [part for part in module.split(".") if part]
    return last == helper.name and home[-len(parts) :] == parts


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
