"""How a place in a file writes an imported name, and the import that it needs for that.

`Spelled` pairs names in full with how the experiment writes them: ("torch.nn.DataParallel",
"nn.DataParallel").
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from porttool.frozen import dataclass
from porttool.learning.lesson import Wrapper
from porttool.source.syntax import Names

Spelled = Iterable[tuple[str, str]]


@dataclass(frozen=True)
class Way:
    """How a name is written; `statement` is the import to add for it, None where there is one.

    `taken` says that the place has something else by the name that it would start with.
    """

    written: str
    statement: str | None = None
    taken: bool = False


def way_to_write(names: Names, origin: str, at: ast.AST, spelled: Spelled) -> Way:
    """Return how a place writes a name: as the experiment, else as the file has it, else imported.

    An import of the experiment's own comes before a long chain on a package that is there.
    """
    like = [written for known, written in spelled if known == origin]
    here = names.spelling(origin, at, like)
    brought = min(like, key=lambda written: (written.count("."), written), default=origin)
    taken = names.binds(_root(brought), at)
    if here is not None:
        short = here.count(".") <= brought.count(".") + 1
        if here in like or short or taken:
            return Way(here)
    return Way(brought, import_for(origin, brought), taken)


def spelled_call(call: str, wrapper: Wrapper, names: Names, at: ast.AST, spelled: Spelled) -> str:
    """Write the names of a call as a place imports them, the wrapper under any of its names."""
    known = set(spelled)
    for origin, _ in sorted(known, reverse=True):
        way = way_to_write(names, origin, at, known)
        if wrapper.is_called(origin) and (origin, way.written) not in known:
            others = (names.spelling(name, at) for name in wrapper.names)
            ways = [way.written, *(name for name in others if name)]
            way = Way(min(ways, key=lambda name: (name.count("."), name)))
        call = respelled(call, origin, way.written)
    return call


def import_for(origin: str, written: str) -> str:
    """Return the import that makes a place's spelling mean the name in full."""
    root, _, rest = written.partition(".")
    if written == origin:
        return f"import {origin.rpartition('.')[0]}"
    bound = origin.removesuffix(f".{rest}") if rest else origin
    module, _, last = bound.rpartition(".")
    renamed = f" as {root}" if root != last else ""
    return f"from {module} import {last}{renamed}" if module else f"import {bound}{renamed}"


def respelled(text: str, theirs: str, ours: str) -> str:
    """Write a name in a text in another way, wherever it stands as a whole."""
    return re.sub(rf"(?<![\w.]){re.escape(theirs)}(?!\w)", lambda _: ours, text)


def _root(written: str) -> str:
    return written.partition(".")[0]
