"""What an attribute of something stands for: stores, methods, fields, inherited or not."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from porttool.deciding.dataflow import (
    calls,
    containers,
    declared,
    decorated,
    makers,
    records,
    stored,
)
from porttool.deciding.dataflow.fileindex import Binding, FileIndex, Scope
from porttool.deciding.dataflow.project import ClassInfo, decorators
from porttool.deciding.dataflow.values import (
    Atom,
    Box,
    ClassRef,
    Function,
    Instance,
    ModuleRef,
    Nested,
    Nothing,
    Outside,
    Place,
    Plain,
    Unknown,
    Value,
    Way,
    Wrapped,
    prefixed,
    union,
)

if TYPE_CHECKING:
    from porttool.deciding.dataflow.evaluate import Evaluation

_MANY = 4  # so many classes with a member of one name say nothing about a receiver


def member(flow: Evaluation, atom: Atom, name: str, place: Place) -> Value:
    """Return what `name` of one possibility stands for; calls of methods are not done here."""
    match atom:
        case Instance():
            if name == "__class__":
                return {ClassRef(atom.cls): None}
            if name in ("__dict__", "__getattribute__"):
                return {_by_name(name): None}
            return flow.cell(("member", atom, name), lambda: _of_instance(flow, atom, name, place))
        case ClassRef(cls):
            return flow.cell(("class member", atom, name), lambda: _of_class(flow, cls, name))
        case ModuleRef(file):
            return flow.cell(("module", atom, name), lambda: _of_module(flow, file, name))
        case Outside(dotted):
            return flow.definition(f"{dotted}.{name}", place.file)
        case Wrapped():
            if name == flow.unwrap:
                return {Plain("an unwrapped module", place): None}
            part: Value = {Plain("a part of a wrapped module", place): None}
            return union((_stored_on(flow, atom, name), part))
        case Unknown():
            return _of_unknown(flow, atom, name, place)
        case Nested() if name == "module":
            return {Wrapped(atom.inner): None}
        case Nested():
            return {Unknown(f"`{place.text}` is inside a wrapper around a wrapped module"): None}
        case Nothing():
            return {}
        case Plain():
            return _of_plain(flow, atom, name)
        case Box():
            return _of_box(flow, atom, name, place)
        case _:
            put = _stored_on(flow, atom, name)
            return put or {Plain("an attribute of a function", place): None}


def _of_plain(flow: Evaluation, atom: Plain, name: str) -> Value:
    """Return what was stored on something under a name; else it is as plain as its owner."""
    if atom.of is None:
        return {atom: None}
    known = _stored_on(flow, atom, name) or {atom: None}
    return union((known, stored.doubts(flow, atom.of, name)))


def _stored_on(flow: Evaluation, atom: Atom, name: str) -> Value:
    """Return what assignments anywhere give an attribute of one object or function."""

    def compute() -> Value:
        found = []
        for binding in flow.project.stores(name):
            assert isinstance(binding.target, ast.Attribute)
            frame = flow.frame(binding.scope.file)
            if atom in flow.value(binding.target.value, frame):
                found.append(flow.bound(binding, frame))
        return union(found)

    return flow.cell(("stored", atom, name), compute)


def _of_box(flow: Evaluation, box: Box, name: str, place: Place) -> Value:
    """Return the attribute of a container that is reached by its key, or of a named tuple."""
    if box.kind == "record":
        return records.field(flow, box, name)
    if box.kind in ("namespace", "module dict"):
        put = _stored_on(flow, box, name)
        return union((containers.dict_values(flow, box, name), put))
    if makers.is_modules(box):
        # nn.Sequential(OrderedDict(...)) has an attribute for each part.
        return union((_stored_on(flow, box, name), containers.contents(flow, box)))
    return {Plain("a part of a container", place): None}


def _by_name(name: str) -> Unknown:
    return Unknown(f"it is looked up by name, through `{name}`", sure=True)


def _of_module(flow: Evaluation, file: FileIndex, name: str) -> Value:
    """Return what a file binds at its top, or what others put there from outside."""
    if name in file.module.bindings:
        found = [flow.module_member(file, name)]
    else:
        found = [flow.definition(f"{_dotted(file)}.{name}", file)]
    return union([*found, stored.into_module(flow, file, name)])


def _dotted(file: FileIndex) -> str:
    return file.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def last_name(node: ast.expr) -> str:
    """Return the last name of an attribute chain, "" for other expressions."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def methods(cls: ClassInfo, name: str, *, upward: bool = False) -> list[Scope]:
    """Return the functions that a call of a method may reach: inherited, own and overriding."""
    found = []
    for ancestor in cls.ancestors()[1 if upward else 0 :]:
        own = _functions(ancestor, name)
        if own:
            found += own
            break
    if not upward:
        for descendant in cls.descendants()[1:]:
            found += _functions(descendant, name)
    return found


def _functions(cls: ClassInfo, name: str) -> list[Scope]:
    return [
        cls.scope.file.scopes[binding.node]
        for binding in cls.scope.bindings.get(name, [])
        if binding.kind == "function"
    ]


def _of_instance(flow: Evaluation, atom: Instance, name: str, place: Place) -> Value:
    cls = atom.cls
    found: list[Value] = []
    if name == "data" and (own := records.own_container(flow, atom)):
        return own  # of `UserDict` and `UserList`
    for scope in methods(cls, name, upward=atom.upward):
        marks = decorators(scope)
        if marks & {"property", "cached_property"}:
            found.append(calls.returned(flow, scope, flow.frame(scope.file)))
        elif marks & {"setter", "deleter"}:
            continue
        elif "staticmethod" in marks:
            found.append({Function(scope): None})
        elif "classmethod" in marks:
            found.append({Function(scope, ClassRef(cls)): None})
        else:
            found.append(decorated.bound_method(flow, scope, Instance(cls)))
    if found:
        return union(found)
    found += [_store(flow, binding) for binding in stored.assignments(flow, cls, name)]
    found += [*stored.by_name(flow, cls, name), stored.doubts(flow, cls, name)]
    annotation: tuple[ast.expr, FileIndex] | None = None
    for ancestor in cls.family():
        for binding in ancestor.scope.bindings.get(name, []):
            if binding.value is not None:
                found.append(_default(flow, binding))
            if isinstance(binding.node, ast.AnnAssign):
                annotation = annotation or (binding.node.annotation, binding.scope.file)
    found.append(declared.field(flow, cls, name))
    value = union(found)
    if annotation and not any(not isinstance(atom, Unknown | Nothing) for atom in value):
        told = declared.by_annotation(flow, *annotation, "nothing in the files says what it holds")
        value = told if not value else union((told, value))
    if not value:
        return _missing(flow, cls, name, place)
    if all(isinstance(atom, Nothing | Unknown) for atom in value):
        value = union((value, stored.strangers(flow, cls, name)))
    return union((value, stored.computed(flow, cls, name, value)))


def _store(flow: Evaluation, binding: Binding) -> Value:
    """Return what an assignment to an attribute gives it, with the step that says where."""
    return flow.bound(binding, flow.frame(binding.scope.file))


def _default(flow: Evaluation, binding: Binding) -> Value:
    """Return a class attribute's value; a dataclass field's factory is called."""
    value = binding.value
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name | ast.Attribute):
        last = value.func.attr if isinstance(value.func, ast.Attribute) else value.func.id
        if last in ("field", "Field"):
            return declared.field_default(flow, value, flow.frame(binding.scope.file))
    found = flow.bound(binding, flow.frame(binding.scope.file))
    place = Place(binding.target, binding.scope.file)
    return union([_by_descriptor(flow, atom, way, place) for atom, way in found.items()])


def _by_descriptor(flow: Evaluation, atom: Atom, way: Way | None, place: Place) -> Value:
    """Return what a class attribute gives that has a `__get__` of its own, else itself."""
    if isinstance(atom, Instance) and methods(atom.cls, "__get__"):
        return prefixed(way, calls.special(flow, atom, "__get__", place))
    return {atom: way}


def _missing(flow: Evaluation, cls: ClassInfo, name: str, place: Place) -> Value:
    if name in cls.scope.bindings or name.startswith("__"):
        return {}
    set_by_name = stored.by_name(flow, cls, None)
    why = f"nothing in the analysed files sets `{name}` of {cls.name}"
    if set_by_name:
        why = f"attributes of {cls.name} are set by computed names"
    del place
    return {Unknown(why, hint=name, sure=bool(set_by_name)): None}


def _of_class(flow: Evaluation, cls: ClassInfo, name: str) -> Value:
    found: list[Value] = []
    for scope in methods(cls, name):
        receiver = ClassRef(cls) if "classmethod" in decorators(scope) else None
        found.append({Function(scope, receiver): None})
    for ancestor in cls.ancestors():
        for binding in ancestor.scope.bindings.get(name, []):
            if binding.kind == "assign":
                found.append(_default(flow, binding))
    found += [_store(flow, binding) for binding in stored.assignments(flow, cls, name)]
    found += [*stored.by_name(flow, cls, name), stored.doubts(flow, cls, name)]
    return union(found) or {
        Unknown(f"nothing in the analysed files sets `{name}` of {cls.name}", hint=name): None
    }


def _of_unknown(flow: Evaluation, atom: Unknown, name: str, place: Place) -> Value:
    """Judge an attribute of who knows what by the few classes that set one of that name."""
    owners = flow.project.owners(name)
    unknown: Value = {Unknown(atom.reason, hint=name, sure=atom.sure): None}
    if not owners or len(owners) >= _MANY:
        return unknown
    found = [member(flow, Instance(cls), name, place) for cls in owners]
    return union([*found, unknown])
