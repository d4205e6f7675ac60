"""How much work an expression costs: in proportion to its size, whatever it is nested in.

Counted in evaluations of expressions, at two sizes: a cost that doubles with each step would be
millions of them at the second one.
"""

from __future__ import annotations

import ast

import pytest

from porttool.deciding.dataflow.evaluate import Evaluation
from porttool.deciding.dataflow.fileindex import FileIndex
from porttool.deciding.dataflow.project import Project
from porttool.deciding.dataflow.values import Frame, Value, Wrapped
from porttool.source.syntax import parse_source
from porttool.wrappers import Wrapper

START = """
import torch, library
from functools import partial

class Same:
    def same(self, value):
        return self
    def __add__(self, other):
        return self

def same(value, other=None):
    return value

thing, stranger, flag = Same(), library.make(), library.flag
a = torch.compile(torch.nn.Linear(2, 2))
b = torch.nn.Linear(2, 2)
"""
# Each makes an expression `x` of a size.
SHAPES = {
    "sum": lambda n: "x = " + " + ".join(["a"] * n),
    "sum of calls": lambda n: "x = " + " + ".join(["same(a)"] * n),
    "sum of objects": lambda n: "x = " + " + ".join(["thing"] * n),
    "difference": lambda n: "x = " + " - ".join(["a"] * n),
    "operators": lambda n: "x = " + "".join("a" + "+*-|&"[i % 5] for i in range(n)) + "a",
    "signs": lambda n: "x = " + "-" * n + "a",
    "conditions": lambda n: "x = " + "(" * n + "a" + " if flag else b)" * n,
    "conditions behind else": lambda n: "x = " + "a if flag else " * n + "b",
    "alternatives": lambda n: "x = " + "(a or " * n + "b" + ")" * n,
    "calls": lambda n: "x = " + "same(" * n + "a" + ")" * n,
    "calls of strangers": lambda n: "x = " + "library.f(a, " * n + "a" + ")" * n,
    "methods": lambda n: "x = thing" + ".same(a)" * n,
    "methods of strangers": lambda n: "x = stranger" + ".f(a)" * n,
    "containers": lambda n: "y = " + "[" * n + "a" + "]" * n + "\nx = y" + "[0]" * n,
    "shared containers": lambda n: (
        "y0 = [a]\n" + "\n".join(f"y{i + 1} = [*y{i}, *y{i}]" for i in range(n)) + f"\nx = y{n}[0]"
    ),
    "lambdas": lambda n: "x = " + "(lambda: " * n + "a" + ")" * n + "()" * n,
    "partials": lambda n: "x = " + "partial(same, " * n + "a" + ")" * n,
    "recursion": lambda n: (
        "\n".join(
            f"def f{i}(v):\n    return f{(i + 1) % n}(v) or f{(i + 2) % n}(v) or v"
            for i in range(n)
        )
        + "\nx = f0(a)"
    ),
}


class Counting(Evaluation):
    """Counts the expressions that it evaluates, and gives up where they are too many."""

    num_evaluated = 0

    def value(self, node: ast.expr, frame: Frame) -> Value:
        self.num_evaluated += 1
        if self.num_evaluated > 20_000:
            raise AssertionError("more than 20000 evaluations")
        return super().value(node, frame)


def evaluated(text: str) -> tuple[int, Value]:
    """Return how many evaluations the last statement's `x` takes, and what it may be."""
    source = parse_source("main.py", f"{START}{text}\nx.state_dict()\n".encode())
    flow = Counting(Project({"main.py": source}), {}, wrapper=Wrapper())
    file: FileIndex = flow.project.files["main.py"]
    statement = source.tree.body[-1]
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    assert isinstance(statement.value.func, ast.Attribute)
    value = flow.ask(statement.value.func.value, file)
    return flow.num_evaluated, value


@pytest.mark.parametrize("shape", SHAPES)
def test_the_work_grows_with_the_size_and_no_faster(shape: str) -> None:
    small, _ = evaluated(SHAPES[shape](15))
    large, _ = evaluated(SHAPES[shape](45))
    assert large <= 4 * small


def test_what_is_counted_is_worked_out() -> None:
    for shape in ("conditions", "calls", "containers", "shared containers", "lambdas", "recursion"):
        _, value = evaluated(SHAPES[shape](15))
        assert any(isinstance(atom, Wrapped) for atom in value), shape
