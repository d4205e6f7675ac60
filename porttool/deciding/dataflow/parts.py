"""Wrapped objects that come along with something else: parts of modules, elements of containers."""

from __future__ import annotations

import ast
from functools import partial
from typing import TYPE_CHECKING

from porttool.deciding.dataflow import (
    calls,
    containers,
    makers,
    members,
    records,
    stored,
)
from porttool.deciding.dataflow.project import ClassInfo
from porttool.deciding.dataflow.values import (
    Box,
    Function,
    Instance,
    Nested,
    Partial,
    Place,
    Unknown,
    Value,
    Wrapped,
    prefixed,
    union,
)

if TYPE_CHECKING:
    from porttool.deciding.dataflow.evaluate import Evaluation


def owned(flow: Evaluation, cls: ClassInfo) -> Value:
    """Return the wrapped objects that a torch module holds as its parts."""
    if not cls.is_module:
        return {}
    return flow.cell(("owned", cls), lambda: _owned(flow, cls))


def _owned(flow: Evaluation, cls: ClassInfo) -> Value:
    atom, place = Instance(cls), Place(cls.node, cls.scope.file)
    found = [wrapped_inside(flow, records.contents_of_own(flow, atom))]
    for name in sorted(_stored_names(flow, cls)):
        found.append(wrapped_inside(flow, members.member(flow, atom, name, place)))
    found += [wrapped_inside(flow, value) for value in stored.by_name(flow, cls, None)]
    return union(found)


def _stored_names(flow: Evaluation, cls: ClassInfo) -> set[str]:
    """Return the attributes that anybody gives objects of a class, as far as that is told."""
    family = {member.scope: member for member in cls.family()}
    names = set()
    for file in flow.project.files.values():
        for name, stores in file.stores.items():
            for store in stores:
                assert isinstance(store.target, ast.Attribute)
                owner = store.scope.home.owner
                receiver = store.target.value
                if owner in family or (
                    name not in names and stored.may_be_on(flow, cls, name, receiver, file)
                ):
                    names.add(name)
    for put in flow.project.all_puts():
        if put.name and stored.may_be_on(flow, cls, put.name, put.receiver, put.file):
            names.add(put.name)
    return names


def wrapped_inside(flow: Evaluation, value: Value) -> Value:
    """Return the wrapped objects among a value and inside its modules and their containers.

    What a person still has to decide counts as wrapped here.
    """
    found: list[Value] = []
    for atom, step in value.items():
        still_open = isinstance(atom, Unknown) and atom.sure
        if isinstance(atom, Wrapped | Nested) or still_open:
            found.append({atom: step})
        elif isinstance(atom, Box) and makers.is_modules(atom):
            found.append(flow.cell(("inside", atom), partial(_wrapped_contents, flow, atom)))
        elif isinstance(atom, Instance):
            found.append(owned(flow, atom.cls))
    return union(found)


def _wrapped_contents(flow: Evaluation, box: Box) -> Value:
    return wrapped_inside(flow, containers.contents(flow, box))


def held(flow: Evaluation, value: Value) -> Value:
    """Return the wrapped objects that come along with a value: inside, or by calling it."""
    found = [wrapped_inside(flow, value)]
    for atom, way in value.items():
        if isinstance(atom, Box | Function | Partial):
            inside = flow.cell(("held", atom), partial(_held, flow, atom))
            found.append(prefixed(way, inside))
    return union(found)


def pickled(flow: Evaluation, value: Value) -> Value:
    """Return the wrapped objects that come along when a value is pickled or copied deeply.

    Those are all that `held` gives, and what the attributes of any object hold.
    """
    found = [held(flow, value)]
    for atom, way in value.items():
        if isinstance(atom, Instance | Box):
            inside = flow.cell(("pickled", atom), partial(_pickled, flow, atom))
            found.append(prefixed(way, inside))
    return union(found)


def _pickled(flow: Evaluation, atom: Instance | Box) -> Value:
    if isinstance(atom, Box):
        return pickled(flow, containers.contents(flow, atom))
    cls = atom.cls
    place = Place(cls.node, cls.scope.file)
    own = {name for ancestor in cls.ancestors() for name in ancestor.scope.bindings}
    if own & {"__getstate__", "__reduce__", "__reduce_ex__"}:
        # The class says itself what is pickled.
        return pickled(flow, calls.special(flow, atom, "__getstate__", place))
    names = sorted(_stored_names(flow, cls))
    return union([pickled(flow, members.member(flow, atom, name, place)) for name in names])


def _held(flow: Evaluation, atom: Box | Function | Partial) -> Value:
    if isinstance(atom, Box):
        return held(flow, containers.contents(flow, atom))
    function = atom.function if isinstance(atom, Partial) else atom
    if not isinstance(function, Function):
        return {}
    scope = function.scope
    return wrapped_inside(flow, calls.returned(flow, scope, flow.frame(scope.file)))
