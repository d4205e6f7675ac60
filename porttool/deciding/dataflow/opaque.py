"""Objects made by code that is not analysed: what they are given, they may give back."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from porttool.deciding.dataflow import calls, makers, parts
from porttool.deciding.dataflow.fileindex import Binding, FileIndex
from porttool.deciding.dataflow.values import (
    Atom,
    Frame,
    Instance,
    Outside,
    Place,
    Plain,
    Unknown,
    Value,
    union,
)
from porttool.frozen import dataclass

if TYPE_CHECKING:
    from porttool.deciding.dataflow.evaluate import Evaluation


# Functions that keep what they are given.
_KEEPS = re.compile(
    r"_?(add|attach|bind|insert|keep|provide|publish|push|put|register|save|set|share|stash|store)"
    r"(_|$)"
)


@dataclass(frozen=True, slots=True)
class Handing:
    """A place that hands something to an object: a call of a method, or an assignment."""

    receiver: ast.expr
    node: ast.Call | Binding
    file: FileIndex


def handings(file: FileIndex) -> Iterator[Handing]:
    """Yield the places of a file that may hand an object to another one."""
    for found in file.calls.values():
        for call in found:
            given = (*call.args, *(keyword.value for keyword in call.keywords))
            if not isinstance(call.func, ast.Attribute) or _is_imported(call.func.value, file):
                continue
            if any(map(_may_be_object, given)):
                yield Handing(call.func.value, call, file)
    for stores in file.stores.values():
        for binding in stores:
            target, value = binding.target, binding.value
            if isinstance(target, ast.Attribute) and value is not None and _may_be_object(value):
                yield Handing(target.value, binding, file)
    for binding in file.items:
        target, value = binding.target, binding.value
        if isinstance(target, ast.Subscript) and value is not None and _may_be_object(value):
            yield Handing(target.value, binding, file)


def _is_imported(node: ast.expr, file: FileIndex) -> bool:
    """Tell whether an expression is a module, or something else that was imported."""
    while isinstance(node, ast.Attribute):
        node = node.value
    bindings = file.module.bindings.get(node.id, ()) if isinstance(node, ast.Name) else ()
    return bool(bindings) and all(binding.kind == "import" for binding in bindings)


def _may_be_object(node: ast.expr) -> bool:
    return not isinstance(
        node, ast.Constant | ast.Compare | ast.JoinedStr | ast.UnaryOp | ast.FormattedValue
    )


def receives(flow: Evaluation, handing: Handing) -> Iterator[Place]:
    """Yield where the objects were made that a place hands something to."""
    for atom in flow.value(handing.receiver, flow.frame(handing.file)):
        origin = origin_of(atom)
        if origin is not None:
            yield origin


def origin_of(atom: Atom) -> Place | None:
    """Return where code that is not analysed made an object, None for other objects."""
    if isinstance(atom, Plain):
        return atom.of
    if isinstance(atom, Instance) and atom.cls.has_unknown_bases:
        return Place(atom.cls.node, atom.cls.scope.file)
    return None


def given(flow: Evaluation, origin: Place) -> Value:
    """Return a doubt for each wrapped object that an object is given, wherever it was made."""
    return flow.cell(("given", origin), lambda: _given(flow, origin))


def _given(flow: Evaluation, origin: Place) -> Value:
    found: list[Value] = []
    for handing in flow.handings(origin):
        frame = flow.frame(handing.file)
        if isinstance(handing.node, ast.Call):
            inside = held_by_arguments(flow, handing.node, frame)
        else:
            inside = parts.held(flow, flow.bound(handing.node, frame))
        if inside:
            place = Place(
                handing.node if isinstance(handing.node, ast.Call) else handing.node.target,
                handing.file,
            )
            found.append(_doubt(f"what is made at {origin.at}", place, inside))
    for place, inside in _kept_by_library(flow, origin):
        found.append(_doubt(f"what `{origin.text}` takes from", place, inside))
    return union(found)


def _kept_by_library(flow: Evaluation, origin: Place) -> Iterator[tuple[Place, Value]]:
    """Yield what a library is given to keep whose other function made an object.

    `lib.register("net", net)` may be what `lib.get("net")` gives.
    """
    home = _home(flow, origin)
    if home is None:
        return
    for file in flow.project.files.values():
        for name, found in file.calls.items():
            for call in found if _KEEPS.match(name) else ():
                place = Place(call, file)
                if _home(flow, place) == home:
                    inside = held_by_arguments(flow, call, flow.frame(file))
                    if inside:
                        yield place, inside


def _home(flow: Evaluation, place: Place) -> str | None:
    """Return the package or class, not analysed, of which a call calls a function."""
    call = place.node
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name | ast.Attribute):
        return None
    for atom in flow.value(call.func, flow.frame(place.file)):
        if isinstance(atom, Outside):
            home = atom.name.rpartition(".")[0]
            known = home.partition(".")[0] in sys.stdlib_module_names | {"torch"}
            return home if home and not known else None
    return None


def _doubt(what: str, place: Place, inside: Value) -> Value:
    why = f"{what} is given a wrapped module at {place.at} and may hand it back"
    return {Unknown(why, sure=True): next(iter(inside.values()))}


def held_by_arguments(flow: Evaluation, node: ast.Call, frame: Frame) -> Value:
    """Return the wrapped objects that a call is given, in containers and by functions too."""
    given = (*node.args, *(keyword.value for keyword in node.keywords))
    return union([parts.held(flow, flow.value(argument, frame)) for argument in given])


def method(flow: Evaluation, atom: Plain, name: str, node: ast.Call, frame: Frame) -> Value:
    """Return what a method of something that is not analysed gives."""
    place = Place(node, frame.file)
    if atom.of is None:
        return {Plain(result_of(name), place): None}
    if name in ("enter_context", "enter_async_context") and node.args:
        return calls.handed_by(flow, flow.value(node.args[0], frame), place)
    if name == "apply" and len(node.args) > 1:
        return calls.run(flow, node, frame)
    made = makers.made_by_method(name, node, frame)
    if made is not None:
        return made
    held = held_by_arguments(flow, node, frame)
    if held:
        return _doubt(f"`{name}`", place, held)
    if atom.place != atom.of:
        return {atom: None}  # one step is told, else chains of calls would be as many atoms
    return {Plain(result_of(name), place, atom.of): None}


def result_of(name: str) -> str:
    """Say what a method gives of which nothing else is known."""
    if name == "state_dict":
        return "a state dict"
    return f"what `{name}()` gives"
