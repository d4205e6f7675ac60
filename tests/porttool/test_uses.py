"""What examples say about the value of what they rewrite, and what a rule may make of that."""

from __future__ import annotations

import ast

import pytest

from porttool.learning.learn import Rule, Wrapper, learn
from porttool.learning.uses import objection, shown, use_of
from porttool.source.syntax import parents

BEFORE = """import torch

net = make()


def load(state):
    {}
"""
CALL = "net.load_state_dict(state)"


def _rule(helper: str, statement: str = CALL, *further: str) -> Rule:
    lines = "\n    ".join([statement, *further])
    before = BEFORE.format(lines)
    after = before.replace("make()", "torch.compile(make())").replace(CALL, "_load(net, state)")
    after = after.replace("net = torch", f"{helper}\n\n\nnet = torch")
    lesson = learn({"a.py": before.encode()}, {"a.py": after.encode()}, Wrapper())
    (rule,) = lesson.rules
    return rule


@pytest.mark.parametrize(
    ("text", "use"),
    [
        ("f()", "dropped"),
        ("x = f()", "value"),
        ("return f()", "value"),
        ("g(f())", "value"),
        ("f().missing", "value"),
        ("lambda: f()", "value"),
        ("await f()", "awaited, dropped"),
        ("x = await f()", "awaited"),
        ("yield f()", "value"),
        ("yield from f()", "delegated"),
        ("for x in f(): pass", "iterated"),
        ("[x for x in f()]", "iterated"),
        ("if f(): pass", "tested"),
        ("x = not f()", "tested"),
        ("with f(): pass", "value"),
    ],
)
def test_what_becomes_of_a_value(text: str, use: str) -> None:
    tree = ast.parse(f"async def body():\n    {text}\n")
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    call = next(node for node in calls if ast.unparse(node) == "f()")
    assert use_of(call, parents(tree)) == use


def test_a_use_shows_itself_and_what_asks_for_less() -> None:
    assert shown("dropped", ["value"])
    assert shown("iterated", ["tested", "value"])
    assert not shown("value", ["dropped", "iterated", "tested"])
    assert not shown("awaited", ["value"])
    assert not shown("value", ["awaited"])
    assert objection("value", (), "f($X)", "g($X)") is None
    why = objection("value", ("dropped",), "f($X)", "g($X)")
    assert why == (
        "this place keeps the value, every example of the experiment throws the value away, and "
        "`g($X)` is not known to return what `f($X)` does"
    )


PLAIN = '    getattr(net, "_orig_mod", net).load_state_dict(state)'
HEAD = "def _load(net, state):\n"


@pytest.mark.parametrize(
    ("body", "uses", "neutral"),
    [
        (PLAIN.replace("getattr", "return getattr", 1), (), True),
        ("    return net._orig_mod.load_state_dict(state)", (), False),
        (PLAIN, ("dropped",), True),
        (f"    inner = net\n{PLAIN}\n    return None", ("dropped",), True),
        ('    if hasattr(net, "_orig_mod"):\n        net = net._orig_mod\n'
         "    net.load_state_dict(state)", ("dropped",), True),
        (f'    print("loads")\n{PLAIN}', ("dropped",), False),
        (f"{PLAIN}\n{PLAIN}", ("dropped",), False),
        ("    net._orig_mod.load_state_dict(state)", ("dropped",), False),
    ],
)  # fmt: skip
def test_a_helper_that_may_return_nothing_is_for_values_thrown_away(
    body: str, uses: tuple[str, ...], neutral: bool
) -> None:
    rule = _rule(HEAD + body)
    assert (rule.uses, rule.neutral) == (uses, neutral)


def test_an_example_that_keeps_the_value_shows_that_it_will_do() -> None:
    rule = _rule(HEAD + PLAIN, CALL, f"return {CALL}")
    assert (set(rule.uses), rule.neutral) == ({"dropped", "value"}, False)
