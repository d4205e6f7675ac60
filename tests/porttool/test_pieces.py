"""Pieces of a file, read token by token, say what reading the whole file does."""

import io
import tokenize
from bisect import bisect_right
from pathlib import Path

import pytest

from porttool.source import fit, pieces
from porttool.source.syntax import parse_source

ODD = '''\
if x: \\
    y = 1  # behind a continuation
text = """
    # no comment
call(1)"""; z = [  # opened
    (1,

     2),  # in two
]; w = {
    "a#": 1}
match w:
    case {"k": v}:  # a case
        pass
    # between
    case _:
        pass
try:
    f(
        # alone
    )
except* (A,
         B):
    class C: x = (
        1)
    @decorated(
        by=this)
    def g(a,
          b): return a  # at the end
else:
    s = (a)
# no newline at the end'''


def whole(text):
    """Read the bracket at each line, and the comments, from all tokens of a text."""
    brackets, stack, comments = {0: ""}, [], []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments.append((token.string, token.start[0]))
        elif token.type == tokenize.OP and token.string in "([{":
            stack.append(token.string)
        elif token.type == tokenize.OP and token.string in ")]}":
            stack.pop()
        elif token.type in (tokenize.NEWLINE, tokenize.NL):
            brackets[token.start[0]] = stack[-1] if stack else ""
    return brackets, comments


@pytest.mark.parametrize("name", ["odd", "fit", "pieces", "syntax"])
def test_pieces_say_what_the_whole_file_does(name):
    text = ODD
    if name != "odd":
        text = (Path(fit.__file__).parent / f"{name}.py").read_text(encoding="utf-8")
    source = parse_source("file.py", text.encode())
    brackets, comments = whole(text)
    starts = pieces.statement_lines(source)
    for line in range(len(text.splitlines())):
        first = starts[bisect_right(starts, line) - 1]
        assert pieces.bracket_at(source, line, first) == brackets.get(line)
    assert pieces.comments(source) == comments


def test_lines_inside_of_a_string_or_behind_a_continuation_begin_nothing():
    source = parse_source("file.py", b'x = """\n"""; y = 1\nif x: \\\n    z = 2\n')
    assert pieces.statement_lines(source) == [0, 2]
    assert [pieces.bracket_at(source, line, first) for line, first in ((1, 0), (3, 2))] == [
        None
    ] * 2
