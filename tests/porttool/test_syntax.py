"""Sources keep every byte that no edit covers, and names mean what Python says they mean."""

import ast
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from porttool.errors import NeedsNewerPython, UnparsableSource
from porttool.source.inserts import insert_definition, insert_import
from porttool.source.syntax import (
    Names,
    TextEdit,
    apply_edits,
    parents,
    parse_source,
    qualname,
    same_tree,
    span_of,
    statement_span,
    text_of,
)


def source_of(text: str):
    return parse_source("a.py", text.encode())


@pytest.mark.parametrize(
    "data",
    [
        b"x = 1\n",
        b"x = 1\r\ny = 2\r\n",
        b"x = 1\ry = 2\r",
        b"\xef\xbb\xbfx = 1\n",
        b"# -*- coding: latin-1 -*-\nx = '\xe9'\n",
        b"\x0cx = 1\n\x0c\ny = 2",
        b"",
    ],
    ids=["lf", "crlf", "cr", "bom", "latin-1", "form feed", "empty"],
)
def test_no_edit_gives_back_the_very_bytes(data):
    source = parse_source("a.py", data)
    assert apply_edits(source, []) == data
    assert apply_edits(source, [TextEdit(0, 0, "")]) == data


def test_an_edit_takes_the_files_line_end_encoding_and_mark():
    source = parse_source("a.py", b"\xef\xbb\xbfx = '\xc3\xa9'\r\ny = x\r\n")
    value = source.tree.body[1].value
    span = span_of(source, value)
    assert apply_edits(source, [TextEdit(span.start, span.end, "f(\n    x)")]) == (
        b"\xef\xbb\xbfx = '\xc3\xa9'\r\ny = f(\r\n    x)\r\n"
    )


def test_an_edit_that_the_encoding_cannot_hold_is_refused():
    source = parse_source("a.py", b"# coding: latin-1\nx = 1\n")
    with pytest.raises(UnparsableSource, match=r"a\.py is iso-8859-1 and cannot hold"):
        apply_edits(source, [TextEdit(0, 0, "\N{SNOWMAN}")])


@pytest.mark.parametrize(
    ("data", "line"),
    [(b"x = 1\ny = (\n", 2), (b"# coding: no-such\n", None), (b"\xff = 1\n", None)],
)
def test_a_file_that_does_not_parse_is_refused_with_its_line(data, line):
    with pytest.raises(UnparsableSource) as caught:
        parse_source("pkg/a.py", data)
    assert caught.value.where == (f"pkg/a.py:{line}" if line else "pkg/a.py")


NEWER = [
    ("type Number = int", (3, 12)),
    ("type Pair[T] = tuple[T, T]", (3, 12)),
    ("def first[T](items: list[T]) -> T: ...", (3, 12)),
    ("class Box[T]: ...", (3, 12)),
    ("async def last[*Ts](*items: *Ts): ...", (3, 12)),
    ('text = f"{weights["a"]}"', (3, 12)),
    ('text = f"{weights["a b"]!r:>10}"', (3, 12)),
    ("text = f'{chr(10).join(['\\n'])}'", (3, 12)),
    ("try: ...\nexcept OSError, ValueError: ...", (3, 14)),
    ('text = t"{name}"', (3, 14)),
    ("text = rt'{name}'", (3, 14)),
]


@pytest.mark.parametrize(
    ("text", "needed"), [case for case in NEWER if case[1] > sys.version_info[:2]]
)
def test_a_file_for_a_newer_python_says_which(text, needed):
    with pytest.raises(NeedsNewerPython) as caught:
        source_of(f"x = 1\n{text}\n")
    assert caught.value.needed == needed
    name = ".".join(map(str, needed))
    assert caught.value.what == f"a.py needs Python {name} to be read"
    assert caught.value.where in ("a.py:2", "a.py:3")
    assert f"python{name} -m porttool" in caught.value.next


@pytest.mark.parametrize(
    "text",
    [
        "print 1",
        "type = = 3",
        "except OSError: ...",
        'text = "{" + [',
        "def f(x: list[int]) -> 3 3: ...",
        "exec 'code' in {}",
        "start'",
    ],
)
def test_a_mistake_is_not_taken_for_a_newer_python(text):
    with pytest.raises(UnparsableSource) as caught:
        source_of(f"x = 1\n{text}\n")
    assert type(caught.value) is UnparsableSource
    assert caught.value.where == "a.py:2"


def test_bytes_that_are_no_text_are_refused_with_their_line():
    with pytest.raises(UnparsableSource) as caught:
        parse_source("a.py", b"x = 1\r\ny = 2\r\n# \xff\r\n")
    assert caught.value.where == "a.py:3"


def test_an_edit_of_mixed_line_ends_takes_the_one_of_its_line():
    source = parse_source("a.py", b"a = 1\r\nb = 2\nc = 3\rd = 4")
    edits = [TextEdit(at, at, "\n") for at in (0, 7, 13, len(source.text))]
    assert apply_edits(source, edits) == b"\r\na = 1\r\n\nb = 2\n\rc = 3\rd = 4\r"


def test_spans_count_characters_behind_wide_ones():
    source = source_of("x = 'h\N{SNOWMAN}\N{GRINNING FACE}'; y = f(x)\n")
    assert text_of(source, source.tree.body[1].value) == "f(x)"


def test_overlapping_edits_are_the_callers_fault():
    source = source_of("abc\n")
    with pytest.raises(ValueError, match="two edits overlap at character 1"):
        apply_edits(source, [TextEdit(0, 2, "x"), TextEdit(1, 3, "y")])


@given(
    st.lists(st.sampled_from(["a = 1", "b = 'é'", "def f():\n    return 1", "# c", ""]), max_size=8)
)
def test_statement_spans_tile_their_lines(lines):
    text = "\n".join(lines) + "\n"
    source = source_of(text)
    for statement in source.tree.body:
        span = statement_span(source, statement)
        assert same_tree(ast.parse(text[span.start : span.end]).body[0], statement)
        assert text[span.end - 1] == "\n"


def test_a_statement_span_holds_decorators_and_the_trailing_comment():
    source = source_of(
        "class C:\n    @ property\n    def f(self):\n        return 1  # why\nx = 1\n"
    )
    span = statement_span(source, source.tree.body[0].body[0])
    assert source.text[span.start : span.end] == (
        "    @ property\n    def f(self):\n        return 1  # why\n"
    )


def test_a_statement_that_shares_its_line_gives_its_bare_span():
    source = source_of("a = 1; b = 2\n")
    spans = [statement_span(source, statement) for statement in source.tree.body]
    assert [source.text[span.start : span.end] for span in spans] == ["a = 1", "b = 2"]


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("import torch\ntorch.compile(x)", "torch.compile"),
        ("import torch as th\nth.compile(x)", "torch.compile"),
        ("from torch import compile as c\nc(x)", "torch.compile"),
        ("from torch import compile\ncompile(x)", "torch.compile"),
        ("compile('1', '', 'eval')", "builtins.compile"),
        ("import re\nre.compile('a')", "re.compile"),
        ("import a.b\na.b.f(x)", "a.b.f"),
        ("from .nets import build\nbuild(x)", ".nets.build"),
        ("from . import nets\nnets.build(x)", ".nets.build"),
        ("import torch\ntorch = stub\ntorch.compile(x)", None),
        ("def f(torch):\n    torch.compile(x)", None),
        ("from torch import *\ncompile(x)", None),
        (
            "import torch\nclass C:\n    torch = 1\n    def f(self):\n        torch.compile(x)",
            "torch.compile",
        ),
        ("import torch\n[torch.compile(torch) for torch in x]", None),
        ("import torch\n[torch.compile(m) for m in x]", "torch.compile"),
    ],
)
def test_what_a_call_means(text, meaning):
    tree = ast.parse(text)
    call = next(node for node in ast.walk(tree) if isinstance(node, ast.Call))
    assert Names(tree).qualified(call.func) == meaning


@pytest.mark.parametrize(
    ("text", "spelling"),
    [
        ("import torch\nx = 1", "torch.compile"),
        ("import torch as th\nx = 1", "th.compile"),
        ("from torch import compile as c\nx = 1", "c"),
        ("import torch\nfrom torch import nn\nx = 1", "torch.compile"),
        ("import numpy\nx = 1", None),
    ],
)
def test_how_a_file_can_spell_it(text, spelling):
    tree = ast.parse(text)
    assert Names(tree).spelling("torch.compile", tree.body[-1]) == spelling


@pytest.mark.parametrize(
    ("text", "spelling", "binds"),
    [
        ("if TYPE_CHECKING:\n    import torch\n", None, False),
        (
            "if typing.TYPE_CHECKING:\n    from torch import compile\n    import torch\n",
            None,
            False,
        ),
        ("if TYPE_CHECKING:\n    if x:\n        import torch\n", None, False),
        ("if TYPE_CHECKING:\n    pass\nelse:\n    import torch\n", "torch.compile", True),
        ("if TYPE_CHECKING:\n    import torch\nimport torch\n", "torch.compile", True),
        ("try:\n    import torch\nexcept ImportError:\n    torch = None\n", "torch.compile", True),
        ("try:\n    import torch\nexcept ImportError:\n    torch = fake\n", None, True),
        ("import torch\ntorch = None\n", None, True),
        ("torch = None\n", None, True),
    ],
)
def test_an_import_that_may_not_happen(text, spelling, binds):
    tree = source_of(text).tree
    names = Names(tree)
    assert names.spelling("torch.compile", tree) == spelling
    assert names.binds("torch", tree) is binds


def test_the_experiments_own_spelling_comes_first_where_it_means_the_same():
    tree = source_of("import torch\nfrom torch import nn, compile as c\n").tree
    names = Names(tree)
    assert names.spelling("torch.compile", tree) == "torch.compile"
    assert names.spelling("torch.compile", tree, ["fast", "nn.compile", "c"]) == "c"


def test_only_scopes_inside_of_the_module_shadow():
    tree = source_of("x = 1\n\n\ndef f(y):\n    return [z for z in x]\n").tree
    names = Names(tree)
    inner = tree.body[1].body[0].value.elt
    assert [name for name in "xyz" if names.shadows(name, inner)] == ["y", "z"]
    assert [name for name in "xyz" if names.binds(name, inner)] == ["x", "y", "z"]


def test_a_qualified_name_counts_classes_and_functions():
    tree = ast.parse("class A:\n    def f(self):\n        return [x for x in y]\n")
    above = parents(tree)
    listed = next(node for node in ast.walk(tree) if isinstance(node, ast.ListComp))
    assert qualname(listed, above) == "A.f"


@pytest.mark.parametrize(
    ("text", "after", "before", "expected"),
    [
        (
            "import a\n\n\nclass C:\n    pass\n",
            (),
            ("C",),
            "import a\n\n\nDEF\n\n\nclass C:\n    pass\n",
        ),
        ("import a\n\nX = 1\n", (), (), "import a\n\n\nDEF\n\n\nX = 1\n"),
        (
            "def f():\n    pass\n\n\nX = 1\n",
            ("g", "f"),
            (),
            "def f():\n    pass\n\n\nDEF\n\n\nX = 1\n",
        ),
        ("def f():\n    pass", ("f",), (), "def f():\n    pass\n\n\nDEF\n"),
        ("# note\nX = 1\n", (), (), "# note\nDEF\n\n\nX = 1\n"),
        ("", (), (), "DEF\n"),
    ],
)
def test_where_a_definition_goes(text, after, before, expected):
    source = source_of(text)
    edit = insert_definition(source, "DEF", after=after, before=before)
    assert apply_edits(source, [edit]).decode() == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import a\nX = 1\n", "import a\nimport b\nX = 1\n"),
        ('"""Doc."""\nX = 1\n', '"""Doc."""\n\nimport b\nX = 1\n'),
        ("from __future__ import annotations\n", "from __future__ import annotations\nimport b\n"),
        ("#!/bin/sh\nX = 1\n", "#!/bin/sh\nimport b\nX = 1\n"),
    ],
)
def test_where_an_import_goes(text, expected):
    source = source_of(text)
    assert apply_edits(source, [insert_import(source, "import b")]).decode() == expected


def test_an_import_that_is_there_is_not_inserted():
    assert insert_import(source_of("import a\nimport b\n"), "import b") is None
