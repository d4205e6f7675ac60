"""The text of an expression: on one line, and the comments that are inside of it."""

from __future__ import annotations

import ast
import io
import re
import tokenize

from porttool.source.syntax import dump


def comments_in(text: str) -> list[str]:
    """Return the comments inside an expression's text, in their order."""
    if "#" not in text:
        return []
    lines = io.StringIO(f"({text}\n)")
    tokens = tokenize.generate_tokens(lines.readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]


def one_line(text: str) -> str:
    """Return an expression's text on one line, its comments gone, with the same tree."""
    if "\n" not in text and "\r" not in text:
        return text
    text = re.sub(r"\r\n?", "\n", text)
    wanted = dump(ast.parse(f"({text}\n)", mode="eval"))
    parts: list[str] = []
    last: tokenize.TokenInfo | None = None
    for token in tokenize.generate_tokens(io.StringIO(f"({text}\n)").readline):
        if token.type in (tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.ENDMARKER):
            continue
        if last is not None and last.end[0] == token.start[0]:
            parts.append(" " * (token.start[1] - last.end[1]))
        elif last is not None and last.string not in "([{." and token.string not in ")]}.,:":
            parts.append(" ")
        parts.append(token.string)
        last = token
    joined = "".join(parts)[1:-1].strip()
    for candidate in (re.sub(r",(?=[)\]}])", "", joined), joined):
        try:
            if "\n" not in candidate and dump(ast.parse(candidate, mode="eval")) == wanted:
                return candidate
        except SyntaxError:
            continue
    return ast.unparse(ast.parse(f"({text}\n)", mode="eval"))
