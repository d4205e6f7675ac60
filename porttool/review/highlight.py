"""Colours for code, a line at a time: which characters are a keyword, a string, a comment.

A lexer that knows every language takes 140 us a line, which a page of 2,000 places would wait 1.5 s
for; one expression for the few classes that help to read a diff takes a twentieth of that.
"""

from __future__ import annotations

import itertools
import keyword
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from porttool.review.markup import Html, text

Span = tuple[int, int]

LONG = 2_000  # of a longer line the rest is counted, not shown

_STRING = r"""(?P<s>\b[rbfuRBFU]{0,2}(?:"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?)|"[^"]*"?|'[^']*'?)"""
_NUMBER = r"(?P<n>\b\d[\w.]*)"
_PYTHON = re.compile(
    r"(?P<c>#.*)"
    r"|(?P<t>\b[rbfuRBFU]{0,2}(?:\"\"\"|''').*?(?:\"\"\"|'''|$)|(?:\"\"\"|''').*?(?:\"\"\"|'''|$))"
    rf"|{_STRING}"
    r"|(?P<f>(?<=\bdef )\w+|(?<=\bclass )\w+|@[\w.]+)"
    rf"|(?P<k>\b(?:{'|'.join(sorted(keyword.kwlist))})\b)"
    rf"|{_NUMBER}"
)
_YAML = re.compile(
    rf"(?P<c>(?:^|(?<=\s))#.*)|(?P<f>^[\s-]*[\w.\"'-]+(?=\s*:))|{_STRING}|{_NUMBER}"
    r"|(?P<k>\b(?:true|false|null)\b)"
)
_PATTERNS = {
    "py": _PYTHON,
    "pyi": _PYTHON,
    "yaml": _YAML,
    "yml": _YAML,
    "toml": _YAML,
    "cfg": _YAML,
    "ini": _YAML,
}
_LITERALS = re.compile(
    r"#[^\n]*"
    r'|"""(?:\\.|[^\\])*?(?:"""|\Z)'
    r"|'''(?:\\.|[^\\])*?(?:'''|\Z)"
    r'|"(?:\\.|[^"\\\n])*"?'
    r"|'(?:\\.|[^'\\\n])*'?",
    re.DOTALL,
)
# Where a line of code may go on below: before a `.name`, behind what opens or separates.
_BREAK = re.compile(r"(?<=[\w)\]}\"'])(?=\.[A-Za-z_])|(?<=[(\[{])(?![)\]}])|(?<=[,/])(?=[\w\"'])")
_SHORT = 48  # a shorter line has to go on below on a telephone only
_CLOSING = re.compile(r"\"\"\"|'''")
_CLASSES = {"t": "s"}


def lines_inside_strings(lines: Sequence[str]) -> frozenset[int]:
    """Return the numbers, from 1, of the lines of a Python file that begin inside of a string."""
    whole = "\n".join(lines)
    if '"""' not in whole and "'''" not in whole:
        return frozenset()
    inside: set[int] = set()
    line, at = 1, 0
    for found in _LITERALS.finditer(whole):
        more = found.group().count("\n")
        if more:
            line += whole.count("\n", at, found.start())
            inside.update(range(line + 1, line + more + 1))
            line, at = line + more, found.end()
    return frozenset(inside)


def coloured(
    line: str, path: str, *, marks: Sequence[Span] = (), inside_string: bool = False
) -> Html:
    """Return a line of a file as HTML: its syntax in colours, `marks` as what has changed."""
    return _coloured(line, path.rpartition(".")[2], tuple(marks), inside_string)


@lru_cache(maxsize=10_000)  # a line is shown where it changes and where it is a reason
def _coloured(line: str, kind: str, marks: tuple[Span, ...], inside_string: bool) -> Html:
    shown = line[:LONG]
    spans = list(_spans(shown, kind, inside_string))
    pieces = []
    for start, end, marked in _runs(len(shown), marks):
        inner = "".join(_pieces(shown, start, end, spans))
        pieces.append(f"<mark>{inner}</mark>" if marked else inner)
    if len(line) > LONG:
        pieces.append(f"<i>… ({len(line) - LONG} characters more)</i>")
    return Html("".join(pieces))


def _spans(line: str, file_kind: str, inside_string: bool) -> Iterator[tuple[int, int, str]]:
    pattern = _PATTERNS.get(file_kind)
    if pattern is None:
        return
    at = 0
    if inside_string:
        closing = _CLOSING.search(line)
        at = closing.end() if closing else len(line)
        yield 0, at, "s"
    for found in pattern.finditer(line, at):
        kind = found.lastgroup or ""
        yield found.start(), found.end(), _CLASSES.get(kind, kind)


def _runs(length: int, marks: Sequence[Span]) -> Iterator[tuple[int, int, bool]]:
    """Cut a line at its marks."""
    at = 0
    for start, end in marks:
        first, last = max(start, at), min(end, length)
        if first >= last:
            continue
        if first > at:
            yield at, first, False
        yield first, last, True
        at = last
    if at < length:
        yield at, length, False


def _pieces(
    line: str, start: int, end: int, spans: Sequence[tuple[int, int, str]]
) -> Iterator[str]:
    at = start
    for first, last, kind in spans:
        if last <= at:
            continue
        if first >= end:
            break
        if first > at:
            yield _breakable(line, at, first)
            at = first
        yield f'<span class="{kind}">{_breakable(line, at, min(last, end))}</span>'
        at = min(last, end)
    if at < end:
        yield _breakable(line, at, end)


def _breakable(line: str, start: int, end: int) -> str:
    """Return a part of a line that goes on below between two tokens, if it has to."""
    if len(line) <= _SHORT:
        return text(line[start:end])
    cuts = (found.start() for found in _BREAK.finditer(line, start, end))
    at = [start, *(cut for cut in cuts if cut > start), end]
    return "<wbr>".join(text(line[a:b]) for a, b in itertools.pairwise(at))
