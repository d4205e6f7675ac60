"""Break the lines that an edit made too long, the way `ruff format` and black break them.

Only lines that are new and too long are touched, and only where the break is plain: brackets that
open and close on the line, no comment. Everything else is left for a person; the tree never
changes.
"""

from __future__ import annotations

import io
import tokenize
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from porttool.errors import UnparsableSource
from porttool.frozen import dataclass
from porttool.source.layout import DEFAULT_LINE_LENGTH
from porttool.source.pieces import bracket_at, statement_lines
from porttool.source.syntax import TextEdit, apply_edits, parse_source, same_tree

_OPEN, _CLOSE = "([{", ")]}"


@dataclass(frozen=True)
class _Word:
    """A token of one line: its text, where it starts and ends there, how deep in brackets it is."""

    text: str
    start: int
    end: int
    depth: int


def fit_lines(
    path: str, data: bytes, before: bytes | None, *, line_length: int = DEFAULT_LINE_LENGTH
) -> bytes:
    """Return a Python file with its new overlong lines broken; other bytes stay as they are.

    `before` is the file without the edits: what was too long there stays so. A file that does not
    parse is given back.
    """
    if not _has_long_lines(data, before, line_length):
        return data
    try:
        source = parse_source(path, data)
        old = set(parse_source(path, before).text.splitlines()) if before is not None else set()
    except UnparsableSource:
        return data
    edits = []
    statements: list[int] = []
    for number, start in enumerate(source.line_starts):
        stop = source.line_starts[number + 1] if number + 1 < len(source.line_starts) else None
        line = source.text[start:stop].rstrip("\r\n")
        if len(line) <= line_length or line in old:
            continue
        statements = statements or statement_lines(source)
        first = statements[bisect_right(statements, number) - 1]
        bracket = bracket_at(source, number, first)
        if bracket is None:
            continue
        laid = "\n".join(_laid(line, line_length, bracket=bracket))
        if laid != line:
            edits.append(TextEdit(start, start + len(line), laid))
    if not edits:
        return data
    result = apply_edits(source, edits)
    try:
        # A break that would mean something else is one that was not understood.
        return result if same_tree(parse_source(path, result).tree, source.tree) else data
    except UnparsableSource:
        return data


def _has_long_lines(data: bytes, before: bytes | None, line_length: int) -> bool:
    """Tell whether a line may be new and too long; no line has more characters than bytes."""
    old = set(before.splitlines()) if before is not None else set()
    return any(len(line) > line_length and line not in old for line in data.splitlines())


def _words(content: str) -> list[_Word] | None:
    """Return the tokens of a line whose brackets are balanced; None for any other line."""
    words: list[_Word] = []
    depth = 0
    try:
        # Brackets around it let the line be a part of an expression.
        for token in tokenize.generate_tokens(io.StringIO(f"({content}\n)").readline):
            if token.type in (tokenize.COMMENT, tokenize.ERRORTOKEN):
                return None
            if token.start[0] > 1 or token.type in (tokenize.NL, tokenize.NEWLINE):
                break
            if token.string in _CLOSE and token.type == tokenize.OP:
                depth -= 1
            words.append(_Word(token.string, token.start[1] - 1, token.end[1] - 1, depth - 1))
            if token.string in _OPEN and token.type == tokenize.OP:
                depth += 1
    except (tokenize.TokenError, IndentationError):
        return None
    return words[1:] if depth == 1 and words else None


def _laid(line: str, width: int, *, bracket: str) -> Iterator[str]:
    """Yield a line, or the lines it is broken into; `bracket` is what it stands inside of."""
    content = line.lstrip(" ")
    indent = line[: len(line) - len(content)]
    words = _words(content) if len(line) > width else None
    if not words or any(word.depth < 0 for word in words):
        yield line
        return
    if bracket:
        parts = _at_clauses(content, words) or _at_commas(content, words)
        if parts is not None:
            for part in parts:
                yield from _laid(indent + part, width, bracket=bracket)
            return
    split = _last_bracket(content, words, width - len(indent))
    if split is None:
        yield line
        return
    head, body, tail = split
    inner = f"{indent}    {body}"
    opening = head[-1]
    yield indent + head
    body_words = _words(body) or []
    several = _at_commas(body, body_words)
    # A display of several items goes an item a line; arguments may share one.
    display = opening in "[{" and not (len(head) > 1 and (head[-2].isalnum() or head[-2] in "_])"))
    if several is not None and (display or len(inner) > width):
        for part in several:
            yield from _laid(f"{indent}    {part}", width, bracket=opening)
    else:
        yield from _laid(inner, width, bracket=opening)
    yield indent + tail


def _at_commas(content: str, words: Sequence[_Word]) -> list[str] | None:
    """Split at the outer commas, one behind every part; None where there are none to split at."""
    commas = [word for word in words if word.text == "," and word.depth == 0]
    if not commas or (len(commas) == 1 and commas[0].end == len(content)):
        return None
    if any(word.text in ("for", "lambda") and word.depth == 0 for word in words):
        return None  # a comma of loop variables or parameters
    starts = [0, *(word.end for word in commas)]
    ends = [*(word.start for word in commas), len(content)]
    parts = [content[start:end].strip() for start, end in zip(starts, ends, strict=True)]
    return [f"{part}," for part in parts if part]


def _at_clauses(content: str, words: Sequence[_Word]) -> list[str] | None:
    """Split a comprehension in front of its outer `for` and `if`."""
    first = next((word for word in words if word.text == "for" and word.depth == 0), None)
    if first is None:
        return None
    cuts = [0]
    for index, word in enumerate(words):
        clause = word.text == "for" or (word.text == "if" and word.start > first.start)
        if clause and word.depth == 0:
            is_async = index > 0 and words[index - 1].text == "async"
            cuts.append(words[index - 1].start if is_async else word.start)
    return [
        content[start:end].strip()
        for start, end in zip(cuts, [*cuts[1:], len(content)], strict=True)
    ]


def _last_bracket(content: str, words: Sequence[_Word], width: int) -> tuple[str, str, str] | None:
    """Split at the last outer bracket whose head fits: into head, what is inside, and tail."""
    pairs = []
    opened: _Word | None = None
    for word in words:
        if word.depth == 0 and word.text in _OPEN:
            opened = word
        elif word.depth == 0 and word.text in _CLOSE and opened is not None:
            if word.start > opened.end:
                pairs.append((opened, word))
            opened = None
    for opening, closing in reversed(pairs):
        head, body = content[: opening.end], content[opening.end : closing.start].strip()
        tail = content[closing.start :]
        if len(head) <= width and len(tail) <= width:
            return head, body, tail
    return None
