"""Walking trees: what the fast walk gives, held against what `ast` itself gives."""

import ast
import itertools
from pathlib import Path

import pytest

import porttool
from porttool.source.nodes import children, holders, nodes_of, walk
from porttool.source.scopes import bound_anywhere, bound_names, own_nodes
from porttool.source.syntax import same_tree

EVERY_KIND = '''\
"""Doc."""
from __future__ import annotations
import a.b as c, d
from . import e as f
from g import *


@wraps(k=1)
class One(Base, metaclass=Meta):
    field: int = 0
    async def go(self, x, /, y=1, *args: int, z=2, **rest) -> list[int]:
        global seen
        async with open(x) as h, y:
            await h
        async for i in x:
            yield i
        try:
            del self.field, x[1:2, ...]
        except (A, B) as error:
            raise error from None
        else:
            nonlocal_ = lambda p, *q, r=3: (p, r)
        finally:
            return


def two(n):
    def inner():
        nonlocal n
        n += 1
    while not n or (m := n - 1) and n is not None:
        assert n, f"{n!r:>{m}} and {{}}"
        break
    for i, (j, *k) in n:
        continue
    match n:
        case {"x": 1, **others} | [1, *_] if n:
            pass
        case One(field=v) as whole:
            print(*n, **{**n, "k": [a async for a in n], 1: {b for b in n}}, sep=-n @ 2)
    return {q: w for q, w in n if q}, (u for u in n), 1.5 if n < 2 <= 3 else b"x", 2j
'''
SOURCES = [
    EVERY_KIND,
    *(p.read_text() for p in sorted(Path(porttool.__file__).parent.glob("*.py"))),
]


def without_contexts(nodes):
    return [node for node in nodes if not isinstance(node, ast.expr_context)]


@pytest.mark.parametrize("text", SOURCES)
def test_walk_gives_what_ast_walk_gives_in_its_order_but_for_contexts(text):
    tree = ast.parse(text)
    wanted = without_contexts(ast.walk(tree))
    assert walk(tree) == wanted
    # An operator is one object for all trees: it stands where it is met first.
    assert list(nodes_of(tree)) == list(dict.fromkeys(wanted))
    assert walk(tree.body[-1]) == without_contexts(ast.walk(tree.body[-1]))


@pytest.mark.parametrize("text", SOURCES)
def test_children_and_holders_agree_with_ast(text):
    tree = ast.parse(text)
    above = {}
    for node in without_contexts(ast.walk(tree)):
        below = without_contexts(ast.iter_child_nodes(node))
        assert children(node) == below
        above |= dict.fromkeys(below, node)
    found = holders(tree)
    # Operators are one object each in the whole tree: any of their places will do.
    operators = (ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
    assert found.keys() == above.keys()
    assert all(found[node] is above[node] for node in above if not isinstance(node, operators))


def test_own_nodes_go_from_top_to_bottom_and_stay_outside_of_definitions():
    tree = ast.parse(
        "@deco(1)\ndef f(a, b=two, *, c=three):\n    inside = 1\n"
        "class K(base):\n    inside = 2\nx = [lambda y=four: inside, five]\n"
    )
    names = [node.id for node in own_nodes(tree.body) if isinstance(node, ast.Name)]
    assert names == ["deco", "two", "three", "base", "x", "four", "five"]


def test_bound_names_are_those_of_one_scope_and_bound_anywhere_of_all():
    tree = ast.parse(EVERY_KIND)
    assert bound_names(tree.body) == {"annotations", "c", "d", "f", "*", "One", "two"}
    two = tree.body[-1]
    assert bound_names(two.body) == {"inner", "m", "i", "j", "k", "others", "whole", "v"}
    every = {"go", "self", "x", "y", "args", "z", "rest", "h", "error", "nonlocal_", "p", "q", "r"}
    assert every <= bound_anywhere(tree)
    assert {"a", "b", "w", "u", "n"} <= bound_anywhere(two)
    assert not {"seen", "print", "Base"} & bound_anywhere(tree)


SMALL = [
    *("x", "y", "x.y", "x()", "x(1)", "x(*y)", "x(k=y)", "x(**y)", "[x]", "(x,)", "{x}", "{x: y}"),
    *("1", "1.0", "True", "0.0", "-0.0", "1j", "'a'", "u'a'", "b'a'", "None", "...", "1e999"),
    *("x + y", "x - y", "x if y else x", "lambda: x", "lambda x: x", "lambda x=1: x", "f'{x}'"),
    *("x < y", "x < y < x", "[x for x in y]", "[x for x in y if x]", "(x for x in y)", "x[y]"),
    *("x[y:]", "x[:y]", "x[::y]", "{**x}", "{None: x}", "not x", "-x", "x and y", "x or y"),
]


def test_trees_are_the_same_exactly_when_ast_dumps_them_alike():
    for left, right in itertools.product(SMALL, SMALL):
        one, other = ast.parse(left), ast.parse(f"\n(\n{right}\n)  # elsewhere")
        assert same_tree(one, other) == (ast.dump(one) == ast.dump(other)), (left, right)
    for text in SOURCES:
        assert same_tree(ast.parse(text), ast.parse("# moved down\n" + text))
        assert not same_tree(ast.parse(text), ast.parse(text + "\n1\n"))
