"""How much a YAML text may ask for before it is read whole, and what reading it may raise."""

from __future__ import annotations

import io
import re

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    ScalarEvent,
)

MAX_CHARACTERS = 1 << 20
MAX_LEVELS = 100
MAX_VALUES = 20_000  # an alias that is used over and over expands past any file size

# On text that somebody made to break it, ruamel raises more than errors of its own.
UNREADABLE = (YAMLError, ValueError, LookupError, TypeError, AttributeError, RecursionError)

# Both begin a word, and neither name holds a space or a bracket.
_ANCHOR = re.compile(r"(?:^|[\s,:\[{-])&[^\s,\[\]{}]")
_ALIAS = re.compile(r"[\s,:\[{-]\*[^\s,\[\]{}]")
_DEEP_BLOCK = re.compile(rf"^[ -]{{{MAX_LEVELS},}}\S", re.MULTILINE)
_OTHER_VERSION = re.compile(r"^%YAML\s+(?!1\.[0-2]\s*(?:#.*)?$)", re.MULTILINE)
_BRACKETS = {"[": 1, "{": 1, "]": -1, "}": -1}


def asks_too_much(text: str) -> str | None:
    """Return why a text is not to be read, or None; plain ones cost next to nothing to look at."""
    if len(text) > MAX_CHARACTERS:
        return f"it has {len(text)} characters, more than {MAX_CHARACTERS}"
    if _OTHER_VERSION.search(text):
        return "its %YAML line names no version that is known here"
    level = highest = 0
    for character in re.findall(r"[][{}]", text):
        level = max(0, level + _BRACKETS[character])
        highest = max(highest, level)
    if highest > MAX_LEVELS:
        return f"it has more than {MAX_LEVELS} levels"
    anchor = _ANCHOR.search(text)
    aliases = anchor is not None and _ALIAS.search(text, anchor.end()) is not None
    if aliases or _DEEP_BLOCK.search(text):
        try:
            return _expanded(text)
        except UNREADABLE:
            return None  # whoever loads it says better what is wrong
    return None


def _expanded(text: str) -> str | None:
    """Count values and levels as they are when every alias is written out."""
    sizes: dict[str, int] = {}
    waiting: list[tuple[str | None, int]] = []  # the collections that are open: anchor, values
    total = 0
    for event in YAML(typ="rt", pure=True).parse(io.StringIO(text)):
        if isinstance(event, CollectionStartEvent):
            waiting.append((event.anchor, total))
            total += 1
            if len(waiting) > MAX_LEVELS:
                return f"it has more than {MAX_LEVELS} levels"
        elif isinstance(event, CollectionEndEvent):
            anchor, before = waiting.pop()
            if anchor:
                sizes[anchor] = total - before
        elif isinstance(event, AliasEvent):
            if any(anchor == event.anchor for anchor, _ in waiting):
                return f"`*{event.anchor}` stands inside of what it means, so it has no end"
            total += sizes.get(event.anchor, 1)
        elif isinstance(event, ScalarEvent):
            total += 1
            if event.anchor:
                sizes[event.anchor] = 1
        if total > MAX_VALUES:
            return f"its aliases make more than {MAX_VALUES} values of it"
    return None
