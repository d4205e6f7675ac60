"""What is put into a container after it was made: appends, item assignments and the like."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from porttool.deciding.dataflow import containers, parts
from porttool.deciding.dataflow.fileindex import Binding, FileIndex
from porttool.deciding.dataflow.values import (
    Atom,
    Box,
    Frame,
    Place,
    Unknown,
    Value,
    stepped,
    union,
)
from porttool.frozen import dataclass

if TYPE_CHECKING:
    from porttool.deciding.dataflow.evaluate import Evaluation

# Methods that add one thing, with the position of the argument that is added.
ADDS = {
    "append": 0,
    "appendleft": 0,
    "add": 0,
    "insert": 1,
    "put": 0,
    "put_nowait": 0,
    "send": 0,
    "set_result": 0,
    "setdefault": 1,
    "add_module": 1,
    "register_module": 1,
    "__setitem__": 1,
}
ADDS_MANY = ("extend", "extendleft", "update")
# Functions that add their second argument to their first.
_ADDING = ("heappush", "heappushpop", "heapreplace", "insort", "insort_left", "insort_right")
_BY_KEY = ("setdefault", "add_module", "register_module", "__setitem__")
_CLOSED = (
    "tuple",
    "zip element",
    "enumerate element",
    "item pair",
    "record",
    "own record",
    "named part",
    "arguments given",
)


@dataclass(frozen=True, slots=True)
class Addition:
    """A place that adds to a container: a call, an assignment, or `append` handed on uncalled.

    `aimless` says that nothing tells whose container it is.
    """

    receiver: ast.expr
    node: ast.Call | ast.Attribute | Binding
    file: FileIndex
    aimless: bool = False


def additions_in(file: FileIndex) -> Iterator[Addition]:
    """Yield the places of a file that may add to a container."""
    for name in (*ADDS, *ADDS_MANY):
        for call in file.calls.get(name, ()):
            plain = call.args and _is_plain(call.args[-1])
            if isinstance(call.func, ast.Attribute) and not plain:
                yield Addition(call.func.value, call, file)
        for attribute in file.attributes.get(name, ()):
            above = file.above.get(attribute)
            if not (isinstance(above, ast.Call) and above.func is attribute):
                yield Addition(attribute.value, attribute, file)
    for name in _ADDING:
        for call in file.calls.get(name, ()):
            if len(call.args) > 1 and not _is_plain(call.args[1]):
                yield Addition(call.args[0], call, file)
    for binding in file.items:
        plain = binding.value is None or _is_plain(binding.value)
        if isinstance(binding.target, ast.Subscript) and not plain:
            yield Addition(binding.target.value, binding, file)
    for binding in file.augmented:
        if isinstance(binding.target, ast.Attribute | ast.Name):
            yield Addition(binding.target, binding, file)


def added(flow: Evaluation, box: Box, key: object = None) -> Value:
    """Return what appends, item assignments and the like may add to a container."""
    if box.kind in _CLOSED:
        return {}
    found: list[Value] = []
    for addition in flow.additions(box):
        given = _added_by(flow, box, addition, key)
        found.append(_doubt(flow, addition, given) if addition.aimless else given)
    return union(found)


def _added_by(flow: Evaluation, box: Box, addition: Addition, key: object) -> Value:
    file, node = addition.file, addition.node
    frame = flow.frame(file)
    if isinstance(node, ast.Attribute):
        place = Place(node, file)
        why = f"`{place.text}` is handed on at {place.at}, and may add anything"
        return {Unknown(why, sure=True): None}
    if isinstance(node, ast.Call):
        given = _given(flow, node, file, key)
        if containers.is_dict(box) and name_of(node) == "update":
            given = _of_pairs(flow, given, Place(node, file))
        return given
    if isinstance(node.target, ast.Subscript):
        constant = containers.constant(node.target.slice)
        if key is not None and constant is not None and constant != key:
            return {}
        value = flow.bound(node, frame)
        if isinstance(node.target.slice, ast.Slice) or node.kind == "aug":
            value = containers.iterate(flow, value, Place(node.target, file))
        return value
    return _all_or_elements(flow, node.value, frame) if node.value is not None else {}


def _doubt(flow: Evaluation, addition: Addition, given: Value) -> Value:
    """Return a doubt where a wrapped object is added to a container that may be another's."""
    held = parts.held(flow, given)
    if not held:
        return {}
    place = Place(addition.receiver, addition.file)
    why = f"a wrapped module is added to `{place.text}` at {place.at}, and nothing tells whose "
    return {Unknown(f"{why}that is", sure=True): next(iter(held.values()))}


def _is_plain(node: ast.expr) -> bool:
    """Tell from the look of it that an expression is a number, a text or an array."""
    if isinstance(node, ast.BinOp):
        return not isinstance(node.op, ast.Add | ast.BitOr | ast.Mult)
    return isinstance(node, ast.Constant | ast.Compare | ast.JoinedStr | ast.UnaryOp)


def _given(flow: Evaluation, call: ast.Call, file: FileIndex, key: object) -> Value:
    frame, place = flow.frame(file), Place(call, file)
    name = name_of(call)
    if name in ADDS_MANY:
        parts = [_all_or_elements(flow, argument, frame) for argument in call.args]
        parts += [
            flow.value(keyword.value, frame)
            for keyword in call.keywords
            if key is None or keyword.arg in (None, key)
        ]
        return union(parts)
    # `heappush(heap, item)` has the container in front.
    position = ADDS.get(name, 1)
    given = call.args[position] if position < len(call.args) else None
    if given is None:
        words = ("item", "obj", "module", "default", "x", "object", "value")
        given = next((k.value for k in call.keywords if k.arg in words), None)
    if given is None:
        return {}
    if key is not None and name in _BY_KEY:
        constant = containers.constant(call.args[0])
        if constant is not None and constant != key:
            return {}
    receiver = call.func.value if isinstance(call.func, ast.Attribute) else call.args[0]
    value = flow.value(given, frame)
    return stepped(value, Place(given, file), "is added to", Place(receiver, file), place)


def name_of(call: ast.Call) -> str:
    """Return the name of the method that a call is of."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _of_pairs(flow: Evaluation, value: Value, place: Place) -> Value:
    """Return the second of each pair that a dictionary is updated with, and what is none."""
    pairs: Value = {atom: way for atom, way in value.items() if _is_pair(atom)}
    rest = {atom: way for atom, way in value.items() if atom not in pairs}
    return union((rest, containers.component(flow, pairs, 1, place)))


def _is_pair(atom: Atom) -> bool:
    return isinstance(atom, Box) and (
        atom.kind in ("item pair", "zip element", "enumerate element")
        or (isinstance(atom.node, ast.Tuple) and len(atom.node.elts) == 2)
    )


def _all_or_elements(flow: Evaluation, node: ast.expr, frame: Frame) -> Value:
    value = flow.value(node, frame)
    dicts: Value = {atom: way for atom, way in value.items() if containers.is_dict(atom)}
    rest = {atom: way for atom, way in value.items() if atom not in dicts}
    place = Place(node, frame.file)
    return union((containers.all_values(flow, dicts), containers.iterate(flow, rest, place)))
