"""What a test with `isinstance` leaves of the possibilities of a name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from porttool.deciding.dataflow import makers
from porttool.deciding.dataflow.fileindex import FileIndex
from porttool.deciding.dataflow.values import (
    Atom,
    Box,
    ClassRef,
    Frame,
    Instance,
    Nested,
    Nothing,
    Outside,
    Place,
    Plain,
    Unknown,
    Value,
    Wrapped,
)

if TYPE_CHECKING:
    from porttool.deciding.dataflow.evaluate import Evaluation

_LEAVES = (ast.Continue, ast.Break, ast.Return, ast.Raise)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_OF_BUILTINS = ("dict", "list", "tuple", "set", "frozenset", "str", "bytes", "int", "float", "bool")


def narrowed(flow: Evaluation, node: ast.Name, value: Value, frame: Frame) -> Value:
    """Return what is left of a name's possibilities where it stands."""
    if not frame.file.names.get("isinstance"):
        return value
    for test, holds in _tests(frame.file, node):
        for named, classes, is_one in _instance_tests(test, holds=holds):
            if named.id == node.id and flow.same_bindings(named, node, frame.file):
                place = Place(named, frame.file)
                kinds = kinds_of(flow, classes, frame)
                value = {
                    left: way
                    for atom, way in value.items()
                    for left in _left(atom, kinds, place, is_one=is_one)
                }
    return value


def _tests(file: FileIndex, node: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
    """Yield the conditions that hold where a node stands, or that do not."""
    here = node
    while here in file.above:
        above = file.above[here]
        if isinstance(above, ast.If | ast.IfExp):
            body = above.body if isinstance(above.body, list) else [above.body]
            orelse = above.orelse if isinstance(above.orelse, list) else [above.orelse]
            if here in body:
                yield above.test, True
            elif here in orelse:
                yield above.test, False
        elif isinstance(above, ast.While) and here in above.body:
            yield above.test, True
        elif isinstance(above, ast.BoolOp) and isinstance(here, ast.expr):
            before = above.values[: above.values.index(here)]
            for test in before:
                yield test, isinstance(above.op, ast.And)
        elif isinstance(above, _COMPREHENSIONS) and not isinstance(here, ast.comprehension):
            for test in [test for part in above.generators for test in part.ifs]:
                yield test, True
        if isinstance(here, ast.stmt):
            yield from _left_before(above, here)
        if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return
        here = above


def _left_before(above: ast.AST, here: ast.stmt) -> Iterator[tuple[ast.expr, bool]]:
    """Yield the tests in front of a statement behind which nothing goes on (`if ...: continue`)."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(above, name, None)
        if isinstance(block, list) and here in block:
            for statement in block[: block.index(here)]:
                if isinstance(statement, ast.If) and isinstance(statement.body[-1], _LEAVES):
                    yield statement.test, False


def _instance_tests(test: ast.expr, *, holds: bool) -> Iterator[tuple[ast.Name, ast.expr, bool]]:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _instance_tests(test.operand, holds=not holds)
    elif isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) is holds:
        for part in test.values:
            yield from _instance_tests(part, holds=holds)
    elif (
        isinstance(test, ast.Call)
        and isinstance(test.func, ast.Name)
        and test.func.id == "isinstance"
        and len(test.args) == 2
        and isinstance(test.args[0], ast.Name)
    ):
        yield test.args[0], test.args[1], holds


def kinds_of(flow: Evaluation, classes: ast.expr, frame: Frame) -> set[str]:
    """Return what the classes of a test are, "?" for those that may be a module's own."""
    kinds = set()
    parts = classes.elts if isinstance(classes, ast.Tuple) else [classes]
    for part in parts:
        value = flow.value(part, frame)
        kinds |= {_kind(atom) for atom in value} or {"?"}
    return kinds


def _kind(atom: Atom) -> str:
    if isinstance(atom, ClassRef):
        known = not atom.cls.outside and not atom.cls.is_module
        return "plain" if known else "?"
    if not isinstance(atom, Outside):
        return "?"
    package, _, last = atom.name.rpartition(".")
    if atom.name.startswith("torch.optim") and last != "AveragedModel":
        return "optimizer"
    if atom.name in ("torch.nn.Module", "torch.nn.modules.Module"):
        return "module"
    plain = package == "builtins" and last in _OF_BUILTINS
    return "plain" if plain or atom.name == "torch.Tensor" else "?"


def _left(atom: Atom, kinds: set[str], place: Place, *, is_one: bool) -> tuple[Atom, ...]:
    """Return what a possibility is behind a test, nothing where it cannot be there."""
    module = isinstance(atom, Wrapped | Nested) or makers.is_modules(atom)
    module = module or (isinstance(atom, Instance) and atom.cls.is_module)
    if is_one:
        if kinds <= {"optimizer", "plain"}:
            if module:
                return ()
            if isinstance(atom, Unknown) and "plain" not in kinds:
                return (Plain("an optimizer by the test", place),)
        if kinds == {"module"} and (isinstance(atom, Nothing) or _is_optimizer(atom)):
            return ()
    elif "module" in kinds:
        if module:
            return ()
        if isinstance(atom, Unknown):
            return (Plain("no module by the test", place),)
    elif "optimizer" in kinds and _is_optimizer(atom):
        return ()
    if is_one and kinds == {"module"} and isinstance(atom, Box) and not module:
        return ()
    return (atom,)


def _is_optimizer(atom: Atom) -> bool:
    return isinstance(atom, Plain) and atom.what.startswith(("an optimizer", "a learning-rate"))
