"""Patterns matched against trees, templates instantiated in a file's own spelling."""

from __future__ import annotations

import ast

import pytest

from porttool.errors import NeedsPerson
from porttool.learning.lesson import Rule, Wrapper
from porttool.learning.neutral import is_neutral
from porttool.learning.rewriting import (
    duplicates_receiver,
    is_pure,
    lost_comments,
    match,
    matches,
    pattern_expression,
    rewrite,
    why_not,
)
from porttool.source.expressions import comments_in, one_line
from porttool.source.syntax import Source, TextEdit, parse_source, text_of

WRAPPER = Wrapper()


def _rule(before: str, after: str, *requires: str) -> Rule:
    return Rule("r", before, after, (), neutral=True, requires=requires)


SAVE = _rule("$X.state_dict()", "clean($X.state_dict())", "clean")
LOAD = _rule("$X.load_state_dict($ARGS)", 'getattr($X, "_orig_mod", $X).load_state_dict($ARGS)')
BARE = _rule("$X.load_state_dict($ARGS)", "$X._orig_mod.load_state_dict($ARGS)")


def _source(text: str) -> Source:
    return parse_source("t.py", text.encode())


def _found(rule: Rule, text: str) -> list[str]:
    source = _source(text)
    return [text_of(source, node) for node, _ in matches(rule, source.tree)]


def _rewritten(rule: Rule, text: str) -> str:
    source = _source(text)
    return rewrite(source, rule, next(matches(rule, source.tree))[0])


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("$X.state_dict()", "a.b[0].state_dict()", {"X": "a.b[0]"}),
        ("$X.state_dict()", "a.state_dict(prefix='p')", None),
        ("$X.state_dict()", "state_dict()", None),
        ("$X.f($ARGS)", "a.f()", {"X": "a", "ARGS": ""}),
        ("$X.f($ARGS)", "a.f(1, *b, k=2, **c)", {"X": "a", "ARGS": "1, *b, k=2, **c"}),
        ("save($X, $ARGS)", "save(n)", {"X": "n", "ARGS": ""}),
        ("save($X, $ARGS)", "save(n, p, k=1)", {"X": "n", "ARGS": "p, k=1"}),
        ("save($X, $ARGS)", "save()", None),
        ("save($X, $ARGS)", "save(*n)", None),
        ("f($X, $X)", "f(a.b, a.b)", {"X": "a.b"}),
        ("f($X, $X)", "f(a.b, a.c)", None),
        ("$X.f(strict=False)", "a.f(strict=True)", None),
        ("$X.f(1)", "a.f(True)", None),
    ],
)
def test_match(pattern: str, text: str, found: dict[str, str] | None) -> None:
    bindings = match(pattern_expression(pattern), ast.parse(text, mode="eval").body)
    if bindings is None:
        assert found is None
        return
    texts = {
        name: ", ".join(map(ast.unparse, value)) if isinstance(value, tuple) else ast.unparse(value)
        for name, value in bindings.items()
    }
    assert texts == found


def test_matches_come_in_source_order_outer_before_inner() -> None:
    text = "a.load_state_dict(b.load_state_dict(1))\nc.load_state_dict()\n"
    assert _found(LOAD, text) == [
        "a.load_state_dict(b.load_state_dict(1))",
        "b.load_state_dict(1)",
        "c.load_state_dict()",
    ]


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (SAVE, "x = clean(net.state_dict())\n"),
        (SAVE, "def clean(weights):\n    return weights.state_dict()\n"),
        (LOAD, 'getattr(n, "_orig_mod", n).load_state_dict(w)\n'),
        (BARE, "n._orig_mod.load_state_dict(w)\n"),
    ],
)
def test_what_is_rewritten_already_does_not_match(rule: Rule, text: str) -> None:
    assert _found(rule, text) == []


def test_a_site_inside_of_a_rewritten_one_still_matches() -> None:
    text = 'getattr(n, "_orig_mod", n).load_state_dict(m.load_state_dict(1))\n'
    assert _found(LOAD, text) == ["m.load_state_dict(1)"]


def test_an_imported_name_matches_in_every_spelling_and_no_other_thing() -> None:
    rule = _rule("copy.deepcopy($X)", "copy.deepcopy($X._orig_mod)", "copy.deepcopy")
    assert _found(rule, "from copy import deepcopy as dc\ndc(a)\n") == ["dc(a)"]
    assert _found(rule, "import copy as c\nc.deepcopy(a)\n") == ["c.deepcopy(a)"]
    assert _found(rule, "copy = object()\ncopy.deepcopy(a)\n") == []
    assert _rewritten(rule, "from copy import deepcopy as dc\ndc(a)\n") == "dc(a._orig_mod)"


@pytest.mark.parametrize(
    ("rule", "text", "made"),
    [
        (SAVE, "self.net.state_dict()\n", "clean(self.net.state_dict())"),
        (LOAD, "n.load_state_dict( w , )\n", 'getattr(n, "_orig_mod", n).load_state_dict( w , )'),
        (
            LOAD,
            "n.load_state_dict(\n    w,  # why\n)\n",
            'getattr(n, "_orig_mod", n).load_state_dict(\n    w,  # why\n)',
        ),
        (
            LOAD,
            "n.load_state_dict(x for x in w)\n",
            'getattr(n, "_orig_mod", n).load_state_dict((x for x in w))',
        ),
        (LOAD, "n.load_state_dict()\n", 'getattr(n, "_orig_mod", n).load_state_dict()'),
        (BARE, "(a or b).load_state_dict(w)\n", "(a or b)._orig_mod.load_state_dict(w)"),
        (BARE, "(await a).load_state_dict(w)\n", "(await a)._orig_mod.load_state_dict(w)"),
        (
            BARE,
            "(\n    a\n    .b\n).load_state_dict(w)\n",
            "(a\n    .b)._orig_mod.load_state_dict(w)",
        ),
        (
            _rule("save($X, $ARGS)", "save($X._orig_mod, $ARGS)"),
            "save(net)\n",
            "save(net._orig_mod)",
        ),
        (
            _rule("save($X, $ARGS)", "save($X._orig_mod, $ARGS)"),
            "save(net, 'p', k=1)\n",
            "save(net._orig_mod, 'p', k=1)",
        ),
        (_rule("put($X)", "put(($X).y, 1)"), "put((a, b))\n", "put(((a, b)).y, 1)"),
        (_rule("put($X)", "put(1, $X)"), "put(y := 2)\n", "put(1, (y := 2))"),
    ],
)
def test_rewrite_keeps_the_text_of_what_it_carries(rule: Rule, text: str, made: str) -> None:
    if "await" in text:
        text = f"async def f():\n    {text}"
    assert _rewritten(rule, text) == made
    ast.parse(f"async def f():\n    return ({made}\n)")


def test_edits_inside_of_a_site_are_made_on_the_way() -> None:
    source = _source("a.load_state_dict(b.state_dict())\n")
    inner, _ = next(matches(SAVE, source.tree))
    outer, _ = next(matches(LOAD, source.tree))
    edit = TextEdit(18, 32, rewrite(source, SAVE, inner))
    assert rewrite(source, LOAD, outer, [edit]) == (
        'getattr(a, "_orig_mod", a).load_state_dict(clean(b.state_dict()))'
    )


def test_a_receiver_with_side_effects_is_not_written_twice() -> None:
    source = _source("nets.pop().load_state_dict(w)\n")
    node, _ = next(matches(LOAD, source.tree))
    assert duplicates_receiver(LOAD)
    assert not duplicates_receiver(SAVE)
    assert why_not(source, LOAD, node) == (
        "the template evaluates `nets.pop()` twice, which may have side effects"
    )
    with pytest.raises(NeedsPerson, match=r"t\.py:1: `nets\.pop\(\)\.load_state_dict\(w\)` cannot"):
        rewrite(source, LOAD, node)
    assert rewrite(source, BARE, node) == "nets.pop()._orig_mod.load_state_dict(w)"


@pytest.mark.parametrize("quote", ['"', "'", '"""'])
def test_a_site_inside_an_f_string_is_refused(quote: str) -> None:
    source = _source(f"x = f{quote}é {{n.state_dict()}} {{m}}{quote}\n")
    ((node, _),) = matches(SAVE, source.tree)
    assert why_not(source, SAVE, node) == (
        "it stands inside an f-string, whose quotes the new text could end"
    )


def test_a_template_with_a_method_stays_inside_its_class() -> None:
    rule = _rule("$X.state_dict()", "self._clean($X)", "A._clean")
    text = "class {}:\n    def f(self):\n        return self.n.state_dict()\n"
    assert _rewritten(rule, text.format("A")) == "self._clean(self.n)"
    source = _source(text.format("B"))
    node, _ = next(matches(rule, source.tree))
    assert why_not(source, rule, node) == (
        "the template calls self._clean, a method of A, outside of that class"
    )


@pytest.mark.parametrize(
    ("text", "pure"),
    [
        ("self.nets[i + 1]", True),
        ("d['a'][-1].x", True),
        ("nets.pop()", False),
        ("self.nets[next(i)]", False),
        ("(y := x)", False),
    ],
)
def test_is_pure(text: str, pure: bool) -> None:
    assert is_pure(ast.parse(text, mode="eval").body) is pure


def _definitions(text: str) -> dict[str, ast.stmt]:
    found: dict[str, ast.stmt] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node
    return found


@pytest.mark.parametrize(
    "body",
    [
        'return {k.removeprefix("_orig_mod."): v for k, v in d.items()}',
        'return {k.replace("_orig_mod.", ""): v for k, v in d.items()}',
        "return {(k[len(P):] if k.startswith(P) else k): v for k, v in d.items()}",
        "return OrderedDict((k.removeprefix(P), v) for k, v in d.items())",
        "out = {}\n    for k, v in d.items():\n        out[k.removeprefix(P)] = v\n    return out",
        "out = {}\n    for k, v in d.items():\n        if k.startswith(P):\n"
        "            k = k[len(P):]\n        out[k] = v\n    return out",
        "out = {}\n    for k, v in d.items():\n        if k.startswith(P):\n"
        "            out[k[len(P):]] = v\n        else:\n            out[k] = v\n    return out",
        'prefix = "_orig_mod."\n    return {\n'
        "        (k[len(prefix) :] if k.startswith(prefix) else k): v for k, v in d.items()\n    }",
        "for k in list(d):\n        if k.startswith(P):\n            d[k[len(P):]] = d.pop(k)\n"
        "    return d",
        '"""Doc."""\n    if not any(k.startswith(P) for k in d):\n        return d\n    return d',
    ],
)
def test_helpers_that_strip_the_prefix_are_neutral(body: str) -> None:
    definitions = _definitions(f'P = "_orig_mod."\ndef clean(d):\n    {body}\n')
    assert is_neutral("$X.f()", "clean($X.f())", definitions, WRAPPER)


@pytest.mark.parametrize(
    "body",
    [
        "return {k.upper(): v for k, v in d.items()}",
        "return {k: v for k, v in d.items() if k}",
        'return {k.removeprefix("other."): v for k, v in d.items()}',
        "return {v: k for k, v in d.items()}",
        "out = {}\n    for k, v in d.items():\n        out[k] = v.cpu()\n    return out",
        "out = {'x': 1}\n    for k, v in d.items():\n        out[k] = v\n    return out",
        "print(d)\n    return d",
    ],
)
def test_helpers_that_do_more_are_not_neutral(body: str) -> None:
    definitions = _definitions(f"def clean(d):\n    {body}\n")
    assert not is_neutral("$X.f()", "clean($X.f())", definitions, WRAPPER)


@pytest.mark.parametrize(
    ("before", "after", "neutral"),
    [
        ("$X.f($ARGS)", 'getattr($X, "_orig_mod", $X).f($ARGS)', True),
        ("$X.f($ARGS)", '($X._orig_mod if hasattr($X, "_orig_mod") else $X).f($ARGS)', True),
        ("$X.f($ARGS)", "$X._orig_mod.f($ARGS)", False),
        ("$X.f()", 'getattr($X, "module", $X).f()', False),
        ("$X.f()", "unknown($X.f())", False),
        ("$X.f()", "both($X, n=1)", True),
        ("$X.f()", "both($X, n=2)", False),
    ],
)
def test_neutral_templates(before: str, after: str, neutral: bool) -> None:
    definitions = _definitions("def both(x, *, n):\n    return x.f() if True else n\n")
    if "n=2" in after:
        definitions = _definitions("def both(x, *, n):\n    return x.f(n)\n")
    assert is_neutral(before, after, definitions, WRAPPER) is neutral


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a.b(c)", "a.b(c)"),
        ("f(\n    a,  # first\n    b,\n)", "f(a, b)"),
        ("[\n    x\n    for x in y\n]", "[x for x in y]"),
        ("(\n    a\n    or b\n)", "(a or b)"),
        ("(\n    a,\n)", "(a,)"),
        ("f(\r\n    'x, ]'\r\n)", "f('x, ]')"),
        ('f("""a\n  b""")', "f('a\\n  b')"),
    ],
)
def test_one_line_keeps_the_tree(text: str, line: str) -> None:
    assert one_line(text) == line
    assert ast.dump(ast.parse(line, mode="eval")) == ast.dump(ast.parse(text, mode="eval"))


@pytest.mark.parametrize(
    ("text", "shadowed"),
    [
        ("def f(clean):\n    return x.state_dict()\n", "clean"),
        ("def f():\n    clean = 1\n    return x.state_dict()\n", "clean"),
        ("def f():\n    return [x.state_dict() for clean in y]\n", "clean"),
        ("def f():\n    from keys import clean\n    return x.state_dict()\n", None),
        ("def f():\n    return [clean for clean in y], x.state_dict()\n", None),
        ("class A:\n    clean = 1\n\n    def f(self):\n        return x.state_dict()\n", None),
        ("class A:\n    clean = 1\n    state = x.state_dict()\n", "clean"),
        ("clean = 1\nx.state_dict()\n", None),  # of the helper's own name: `helper_edits` tells
    ],
)
def test_a_template_is_not_written_where_its_names_mean_something_else(
    text: str, shadowed: str | None
) -> None:
    source = _source(text)
    reason = why_not(source, SAVE, next(matches(SAVE, source.tree))[0])
    wanted = f"the template uses `{shadowed}`, which is something else at this place"
    assert reason == (wanted if shadowed else None)


def test_what_a_template_binds_itself_shadows_nothing() -> None:
    rule = _rule("$X.state_dict()", "{k: v for k, v in $X.state_dict().items()}")
    source = _source("def f(k):\n    return x.state_dict()\n")
    assert why_not(source, rule, next(matches(rule, source.tree))[0]) is None


def test_an_imported_name_is_spelled_as_the_experiment_has_it_where_that_means_the_same() -> None:
    rule = Rule(
        "r",
        "$X.f()",
        "torch.nn.wrap($X)",
        (),
        neutral=True,
        requires=("torch.nn.wrap",),
        spelled=(("torch.nn.wrap", "nn.wrap"),),
    )
    assert _rewritten(rule, "import torch\nfrom torch import nn\nx.f()\n") == "nn.wrap(x)"
    assert _rewritten(rule, "import torch.nn as m\nx.f()\n") == "m.wrap(x)"
    assert _rewritten(rule, "x.f()\n") == "nn.wrap(x)"


def test_a_method_of_an_imported_functions_name_is_no_helper() -> None:
    rule = Rule(
        "r",
        "torch.save($X)",
        "torch.save($X._orig_mod)",
        (),
        neutral=False,
        requires=("torch.save",),
        spelled=(("torch.save", "torch.save"),),
    )
    text = "import torch\n\n\ndef save(net):\n    torch.save(net)\n"
    assert _found(rule, text) == ["torch.save(net)"]


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("x.state_dict(  # all\n)", ("# all",)),
        ("(x  # the net\n).state_dict()", ("# the net",)),
        ("f(  # kept\n    1,\n).state_dict()", ()),
        ("f('# no comment').state_dict()", ()),
        ("x.state_dict()", ()),
    ],
)
def test_comments_that_a_rewrite_would_drop(text: str, lost: tuple[str, ...]) -> None:
    source = _source(f"({text}\n)\n")
    rule = _rule("$X.state_dict()", "clean($X)", "clean")
    node = next(matches(rule, source.tree))[0]
    assert lost_comments(source, node, rewrite(source, rule, node)) == lost


def test_comments_are_found_by_the_tokenizer() -> None:
    assert comments_in("f('#', # one\n  2 # two\n)") == ["# one", "# two"]
