"""Containers of a project's own: named tuples, classes derived from containers, `*args`.

What is in them follows from the calls that make them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from porttool.deciding.dataflow import callers, containers, declared, members
from porttool.deciding.dataflow.fileindex import Scope, Taken
from porttool.deciding.dataflow.project import ClassInfo
from porttool.deciding.dataflow.values import (
    Box,
    Frame,
    Instance,
    Nothing,
    Place,
    Plain,
    Unknown,
    Value,
    Wrapped,
    prefixed,
    union,
)

if TYPE_CHECKING:
    from porttool.deciding.dataflow.evaluate import Evaluation

_LISTS = ("list", "tuple", "set", "deque", "UserList", "List", "ModuleList", "Sequential", "Queue")
_DICTS = ("dict", "OrderedDict", "defaultdict", "UserDict", "Dict", "ModuleDict", "ChainMap")

Arguments = tuple[list[ast.expr], list[ast.keyword], Frame]


# -- classes derived from containers -----------------------------------------------------------


def own_container(flow: Evaluation, atom: Instance) -> Value:
    """Return the container that objects of a class are themselves; nothing for other classes."""
    for cls in atom.cls.ancestors():
        for name in cls.outside:
            last = name.rpartition(".")[2]
            kind = "own list" if last in _LISTS else "own dict" if last in _DICTS else None
            kind = "own record" if last == "NamedTuple" else kind
            if kind is not None:
                return {Box(kind, cls.node, flow.frame(cls.scope.file)): None}
    return {}


def contents_of_own(flow: Evaluation, atom: Instance) -> Value:
    """Return what is in an object that is a container itself; nothing for other objects."""
    boxes = [box for box in own_container(flow, atom) if isinstance(box, Box)]
    return union([containers.contents(flow, box) for box in boxes])


def given_to_own(flow: Evaluation, box: Box) -> Value:
    """Return what the calls that make objects of a list of one's own put into them."""
    found: list[Value] = []
    for arguments, _, frame in _makings(flow, flow.project.classes[box.node]):
        for argument in arguments:
            value = flow.value(argument, frame)
            found.append(containers.all_values(flow, value))
            # An nn.Sequential is given its parts one by one.
            found.append({a: way for a, way in value.items() if isinstance(a, Wrapped | Unknown)})
    return union(found)


def _makings(flow: Evaluation, cls: ClassInfo) -> Iterator[Arguments]:
    """Yield what the container's own constructor is given, by calls and by `super().__init__`."""
    for derived in cls.descendants():
        if not members.methods(derived, "__init__"):
            for call, file in callers.constructions(flow, derived):
                yield call.args, call.keywords, flow.frame(file)
    for call, file in flow.project.calls("__init__"):
        assert isinstance(call.func, ast.Attribute)
        for atom in flow.value(call.func.value, flow.frame(file)):
            if isinstance(atom, Instance) and atom.upward and cls in atom.cls.ancestors():
                yield call.args, call.keywords, flow.frame(file)


# -- what functions are given beyond their named parameters ------------------------------------


def entries(flow: Evaluation, box: Box, key: object) -> Value:
    """Return what may stand under a key of `**keywords` or of a dictionary of one's own."""
    found: list[Value] = []
    named: tuple[str, ...] = ()
    if box.kind == "own dict":
        given = _makings(flow, flow.project.classes[box.node])
    else:
        scope = _function_of(box)
        arguments = scope.node.args  # type: ignore[attr-defined]
        named = tuple(a.arg for a in (*arguments.args, *arguments.kwonlyargs))
        given = _calls(flow, scope, box)
        found.append(_open_ends(flow, scope, box))
    for positional, keywords, frame in given:
        for keyword in keywords:
            if keyword.arg is None:
                found.append(_spread(flow, keyword.value, key, frame))
            elif keyword.arg not in named and key in (None, keyword.arg):
                found.append(flow.value(keyword.value, frame))
        if box.kind == "own dict":
            found += [_spread(flow, argument, key, frame) for argument in positional]
    return union(found)


def _spread(flow: Evaluation, node: ast.expr, key: object, frame: Frame) -> Value:
    """Return what `**node` gives under a key."""
    found: list[Value] = []
    for atom, way in flow.value(node, frame).items():
        if isinstance(atom, Box) and atom.kind in containers.DICTS:
            found.append(prefixed(way, containers.dict_values(flow, atom, key)))
        elif not isinstance(atom, Nothing):
            why = f"it may come out of `{Place(node, frame.file).text}`"
            found.append({Unknown(f"{why} ({Place(node, frame.file).at})", sure=True): None})
    return union(found)


def _function_of(box: Box) -> Scope:
    file = box.frame.file
    function = file.above[file.above[box.node]]
    return file.scopes[function]


def _calls(flow: Evaluation, scope: Scope, box: Box) -> Iterator[Arguments]:
    """Yield what one call, or every known call, of a function hands to it."""
    frame = box.frame
    if frame.function is scope and frame.call is not None and frame.caller is not None:
        bound = frame.receiver is not None and scope.owner is None
        skip = 1 if bound else callers.filled(scope, frame.call)
        yield _behind(scope, frame.call.args, skip), frame.call.keywords, frame.caller
        return
    for site in callers.call_sites(flow, scope):
        if site.call is None or site.each:
            continue
        values = site.call.args if site.values is None else list(site.values)
        keywords = site.call.keywords if site.values is None else list(site.keywords)
        yield _behind(scope, values, site.skip), keywords, flow.frame(site.place.file)


def _behind(scope: Scope, arguments: list[ast.expr], skip: int) -> list[ast.expr]:
    """Return the arguments behind those that named parameters take."""
    signature = scope.node.args  # type: ignore[attr-defined]
    taken = max(0, len(signature.posonlyargs) + len(signature.args) - skip)
    starred = next((i for i, a in enumerate(arguments) if isinstance(a, ast.Starred)), taken)
    return arguments[min(taken, starred) :]


def _open_ends(flow: Evaluation, scope: Scope, box: Box) -> Value:
    """Return a doubt where somebody unknown may call the function."""
    frame = box.frame
    if frame.function is scope and frame.call is not None:
        return {}
    assert isinstance(box.node, ast.arg)
    sites = callers.call_sites(flow, scope)
    if sites and not any(site.call is None or site.each or site.doubtful for site in sites):
        return {}
    stars = "**" if box.kind == "keywords" else "*"
    why = f"it comes through `{stars}{box.node.arg}` of `{scope.name}`"
    return {Unknown(f"{why} ({Place(box.node, scope.file).at})", sure=True): None}


# -- by position -------------------------------------------------------------------------------


def everything(flow: Evaluation, box: Box) -> Value:
    """Return all that is in a named tuple or in `*arguments`."""
    if box.kind == "arguments given":
        scope = _function_of(box)
        found = [_open_ends(flow, scope, box)]
        for arguments, _, frame in _calls(flow, scope, box):
            found.append(containers.elements(flow, arguments, frame))
        return union(found)
    return union([field(flow, box, name) for name in fields(flow, box)])


def at_position(flow: Evaluation, box: Box, index: int) -> Value:
    """Return what is at a position of a named tuple or of `*arguments`."""
    if box.kind != "arguments given":
        names = fields(flow, box)
        return field(flow, box, names[index]) if -len(names) <= index < len(names) else {}
    scope = _function_of(box)
    found = [_open_ends(flow, scope, box)]
    for arguments, _, frame in _calls(flow, scope, box):
        starred = any(isinstance(argument, ast.Starred) for argument in arguments)
        if not starred:
            if -len(arguments) <= index < len(arguments):
                found.append(flow.value(arguments[index], frame))
        elif isinstance(arguments[0], ast.Starred) and len(arguments) == 1:
            given = flow.value(arguments[0].value, frame)
            place = Place(arguments[0], frame.file)
            found.append(containers.component(flow, given, index, place))
        else:
            found.append(containers.elements(flow, arguments, frame))
    return union(found)


# -- named tuples ------------------------------------------------------------------------------


def named_fields(node: ast.Call) -> tuple[str, ...] | None:
    """Return the fields that a call of `namedtuple` writes out, None if it does not."""
    given = node.args[1] if len(node.args) > 1 else None
    if isinstance(given, ast.Constant) and isinstance(given.value, str):
        return tuple(given.value.replace(",", " ").split())
    if not isinstance(given, ast.List | ast.Tuple):
        return None
    names = [item.elts[0] if isinstance(item, ast.Tuple) else item for item in given.elts]
    texts = [name.value for name in names if isinstance(name, ast.Constant)]
    written = [text for text in texts if isinstance(text, str)]
    return tuple(written) if len(written) == len(given.elts) else None


def fields(flow: Evaluation, box: Box) -> tuple[str, ...]:
    """Return the names of a named tuple's fields."""
    if box.kind == "own record":
        return tuple(callers.fields(flow.project.classes[box.node]))
    assert isinstance(box.node, ast.Call)
    return flow.fields.get(box.node, ())


def field(flow: Evaluation, box: Box, name: str) -> Value:
    """Return what is in one field of a named tuple."""
    if box.kind == "own record":
        atom = Instance(flow.project.classes[box.node])
        return members.member(flow, atom, name, Place(box.node, box.frame.file))
    call, frame = box.node, box.frame
    names = fields(flow, box)
    assert isinstance(call, ast.Call)
    if name not in names:
        return {Plain("a part of a named tuple", Place(call, frame.file)): None}
    found = declared.replaced(flow, name, lambda atom: atom == box)
    named = [k.value for k in call.keywords if k.arg == name]
    starred = [a for a in call.args if isinstance(a, ast.Starred)]
    double = [k.value for k in call.keywords if k.arg is None]
    index = names.index(name)
    if named:
        found += [flow.value(value, frame) for value in named]
    elif starred and len(call.args) == 1:
        given = flow.value(starred[0].value, frame)
        found.append(containers.component(flow, given, index, Place(call, frame.file)))
    elif starred:
        found.append(containers.elements(flow, call.args, frame))
    elif index < len(call.args):
        found.append(flow.value(call.args[index], frame))
    found += [_spread(flow, value, name, frame) for value in double if not named]
    return union(found)


# -- what a `case` takes out of its subject ----------------------------------------------------


def taken(flow: Evaluation, value: Value, part: Taken, place: Place) -> Value:
    """Return what a pattern of a `match` statement takes out of what it is held against."""
    found: list[Value] = []
    for atom, way in value.items():
        if part.how == "attribute":
            inside = members.member(flow, atom, str(part.name), place)
        elif part.how == "position":
            inside = _by_class_pattern(flow, atom, part.name, place)
        elif isinstance(atom, Box) and atom.kind in containers.DICTS:
            inside = containers.dict_values(flow, atom, part.name)
        else:
            inside = containers.item(flow, {atom: None}, part.key(), place)
        found.append(prefixed(way, inside))
    return union(found)


def _by_class_pattern(flow: Evaluation, atom: object, index: object, place: Place) -> Value:
    if not isinstance(atom, Instance) or not isinstance(index, int):
        if isinstance(atom, Unknown):
            return {atom: None}
        return {Plain("a part that a pattern takes", place): None}
    names = callers.fields(atom.cls)
    if index < len(names):
        return members.member(flow, atom, names[index], place)
    return {Unknown(f"a pattern takes a part of `{atom.cls.name}` by position", sure=True): None}
