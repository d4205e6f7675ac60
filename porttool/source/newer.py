"""What tells that a file is written for a newer Python than the one that runs porttool.

`ast` reads the grammar of its own Python only. A file that it refuses may be right all the same,
and then another interpreter is the remedy, not a change of the file.
"""

from __future__ import annotations

import re
import sys

Version = tuple[int, int]

_SIGNS: tuple[tuple[Version, re.Pattern[str]], ...] = (
    ((3, 12), re.compile(r"^\s*type\s+[^\W\d]\w*\s*(\[.*\]\s*)?=")),  # type X = int
    ((3, 12), re.compile(r"^\s*((async\s+)?def|class)\s+[^\W\d]\w*\s*\[")),  # def f[T](x)
    ((3, 12), re.compile(r"\b[fF][rR]?([\"'])[^\"']*\{[^}\"']*\1")),  # f"{x["a"]}"
    ((3, 14), re.compile(r"^\s*except\s*\*?\s*[\w.]+\s*,")),  # except A, B:
    ((3, 14), re.compile(r"(?<![\w\"'])([tT][rR]?|[rR][tT])[\"']")),  # t"{x}"
)


def needed_python(text: str, line: int | None, message: str) -> Version | None:
    """Return the Python that the line of a syntax error reads like, None when it is no newer one.

    `line` counts from 1.
    """
    lines = re.split(r"\r\n|\r|\n", text)
    row = lines[line - 1] if line and line <= len(lines) else ""
    found = [version for version, sign in _SIGNS if sign.search(row)]
    if message.startswith("f-string"):
        found.append((3, 12))
    newer = [version for version in found if version > sys.version_info[:2]]
    return max(newer, default=None)
