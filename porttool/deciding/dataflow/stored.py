"""What others store on an object from outside, and what may be stored on it though nobody can tell.

An attribute that is given to something which the files do not tell (`server.net = net` for any
`server`) may be that of every class: where what is given holds a wrapped object, all of them are
doubted.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from porttool.deciding.dataflow import members, parts
from porttool.deciding.dataflow.fileindex import Binding, FileIndex
from porttool.deciding.dataflow.project import ClassInfo
from porttool.deciding.dataflow.puts import Put, is_globals
from porttool.deciding.dataflow.values import (
    Atom,
    Box,
    ClassRef,
    Function,
    Instance,
    ModuleRef,
    Nothing,
    Outside,
    Place,
    Plain,
    Unknown,
    Value,
    shortened,
    union,
)
from porttool.source.syntax import text_of

if TYPE_CHECKING:
    from porttool.deciding.dataflow.evaluate import Evaluation

# What these make are objects of their own classes, and of nobody else's.
_STRANGE = sys.stdlib_module_names | {
    "builtins",
    "torch",
    "numpy",
    "yaml",
    "omegaconf",
    "ml_collections",
    "wandb",
}


def assignments(flow: Evaluation, cls: ClassInfo, name: str) -> list[Binding]:
    """Return the assignments to the attribute that are known to run on an object of a class."""
    family = set(cls.family())
    found = []
    for binding in flow.project.stores(name):
        assert isinstance(binding.target, ast.Attribute)
        file = binding.scope.file
        if _is_on(flow, family, binding.target.value, file):
            found.append(binding)
    return found


def _is_on(flow: Evaluation, family: set[ClassInfo], node: ast.expr, file: FileIndex) -> bool:
    owner = flow.project.own_class(node, file)
    if owner is not None:
        return owner in family
    receivers = flow.value(node, flow.frame(file))
    return any(isinstance(atom, Instance | ClassRef) and atom.cls in family for atom in receivers)


def by_name(flow: Evaluation, cls: ClassInfo, name: str | None) -> list[Value]:
    """Return what `setattr(x, "name", ...)` and the like give objects of a class.

    With None for a name: what they are given under names that are computed.
    """
    family = set(cls.family())
    return [
        _value(flow, put)
        for put in flow.project.puts(name)
        if _is_on(flow, family, put.receiver, put.file)
    ]


def _value(flow: Evaluation, put: Put) -> Value:
    frame = flow.frame(put.file)
    if isinstance(put.value, Binding):
        return flow.bound(put.value, frame)
    return flow.value(put.value, frame)


Owner = ClassInfo | Place | None  # a class, where a stranger was made, or anything


def doubts(flow: Evaluation, owner: Owner, name: str) -> Value:
    """Return a doubt for each wrapped object that may become this attribute of such objects."""
    return flow.cell(("aimless", owner, name), lambda: _doubts(flow, owner, name))


def _doubts(flow: Evaluation, owner: Owner, name: str) -> Value:
    found: list[Value] = []
    for receiver, value, place in _aimless(flow, owner, name):
        held = parts.held(flow, value)
        if held:
            why = f"a wrapped module is stored at {place.at} as `{name}` of `{receiver}`, and "
            why += "nothing tells what that is"
            found.append({Unknown(why, hint=name, sure=True): next(iter(held.values()))})
    return union(found)


def strangers(flow: Evaluation, cls: ClassInfo, name: str) -> Value:
    """Return what may become this attribute and is not wrapped, for where nothing else does."""

    def compute() -> Value:
        values = [value for _, value, _ in _aimless(flow, cls, name)]
        return {
            atom: way
            for value in values
            for atom, way in value.items()
            if isinstance(atom, Instance | ClassRef | Function | Plain)
        }

    return flow.cell(("aimless objects", cls, name), compute)


def _aimless(flow: Evaluation, owner: Owner, name: str) -> Iterator[tuple[str, Value, Place]]:
    """Yield what is stored under a name on objects that nothing tells, which may be such ones."""
    for binding in flow.project.stores(name):
        assert isinstance(binding.target, ast.Attribute)
        place = Place(binding.target, binding.scope.file)
        receiver = binding.target.value
        if is_aimless(flow, receiver, place.file, owner):
            shown = shortened(text_of(place.file.source, receiver))
            yield shown, flow.bound(binding, flow.frame(place.file)), place
    for put in flow.project.puts(name):
        if is_aimless(flow, put.receiver, put.file, owner):
            shown = shortened(text_of(put.file.source, put.receiver))
            yield shown, _value(flow, put), Place(put.node, put.file)


def is_aimless(flow: Evaluation, node: ast.expr, file: FileIndex, owner: Owner = None) -> bool:
    """Tell whether an expression may be an object of a kind though nothing says so."""
    if flow.project.own_class(node, file) is not None:
        return False
    for atom in flow.value(node, flow.frame(file)):
        if isinstance(atom, Unknown):
            if not isinstance(owner, ClassInfo) or _may_be(flow, atom, owner):
                return True
        elif isinstance(atom, Plain) and atom.of is not None:
            if isinstance(owner, Place):
                if _may_give_the_same(atom.of, owner):
                    return True
            elif not _is_strange(flow, atom.of):
                return True
    return False


def may_be_on(flow: Evaluation, cls: ClassInfo, name: str, node: ast.expr, file: FileIndex) -> bool:
    """Tell whether an attribute that an expression is given may be one of a class's objects.

    Of an object that nothing tells, the class must name that attribute, or its annotation it.
    """
    family = set(cls.family())
    if _is_on(flow, family, node, file):
        return True
    if flow.project.own_class(node, file) is not None:
        return False
    atoms = flow.value(node, flow.frame(file))
    if any(isinstance(a, Unknown) and a.hint.rpartition(".")[2] == cls.name for a in atoms):
        return True
    homes = {member.scope.file for member in family}
    named = any(name in home.attributes for home in homes)
    named = named or any(name in member.scope.bindings for member in family)
    return named and is_aimless(flow, node, file, cls)


def _may_give_the_same(one: Place, other: Place) -> bool:
    """Tell whether two calls of a function (not of a class) may give one object."""
    if one == other or not (isinstance(one.node, ast.Call) and isinstance(other.node, ast.Call)):
        return False
    called = ast.unparse(one.node.func)
    return called == ast.unparse(other.node.func) and not called.rpartition(".")[2][:1].isupper()


def _may_be(flow: Evaluation, atom: Unknown, cls: ClassInfo) -> bool:
    """Tell whether an unknown object may be of a class; its annotation may name another one."""
    last = atom.hint.rpartition(".")[2].strip("'\"")
    named = [other for other in flow.project.classes.values() if other.name == last]
    return not named or any(cls in other.family() for other in named)


def _is_strange(flow: Evaluation, made: Place) -> bool:
    """Tell whether an object is of a class that is none of the project's."""
    if not isinstance(made.node, ast.Call):
        return False
    atoms = flow.value(made.node.func, flow.frame(made.file))
    return bool(atoms) and all(_made_elsewhere(atom) for atom in atoms)


def _made_elsewhere(atom: Atom) -> bool:
    return isinstance(atom, Outside) and atom.name.partition(".")[0] in _STRANGE


def computed(flow: Evaluation, cls: ClassInfo, name: str, value: Value) -> Value:
    """Return what names that are computed may add to an attribute that is None by its class.

    Where an attribute has a value of its own, it is not taken for one of those.
    """
    if not all(isinstance(atom, Nothing | Unknown) for atom in value):
        return {}
    return flow.cell(("computed", cls, name), partial(_computed, flow, cls, name))


def _computed(flow: Evaluation, cls: ClassInfo, name: str) -> Value:
    found: list[Value] = []
    for put in flow.project.puts(None):
        family = set(cls.family())
        known = _is_on(flow, family, put.receiver, put.file)
        if not known and not is_aimless(flow, put.receiver, put.file, cls):
            continue
        value = _value(flow, put)
        held = parts.held(flow, value)
        at = Place(put.node, put.file).at
        if held:
            why = f"a wrapped module is stored at {at} under a name that is computed"
            found.append({Unknown(why, hint=name, sure=True): next(iter(held.values()))})
        elif known and any(isinstance(atom, Unknown | Box) for atom in value):
            why = f"attributes of {cls.name} are set by computed names ({at})"
            found.append({Unknown(why, hint=name): None})
    return union(found)


def into_module(flow: Evaluation, file: FileIndex, name: str) -> Value:
    """Return what others put at the top of a file (`import server; server.NET = net`)."""
    return flow.cell(("into module", file, name), lambda: _into_module(flow, file, name))


def _into_module(flow: Evaluation, file: FileIndex, name: str) -> Value:
    found: list[Value] = []
    for binding in flow.project.stores(name):
        assert isinstance(binding.target, ast.Attribute)
        home = binding.scope.file
        if ModuleRef(file) in flow.value(binding.target.value, flow.frame(home)):
            found.append(flow.bound(binding, flow.frame(home)))
    for put in flow.project.puts(name):
        own = is_globals(put.receiver) and put.file is file
        if own or ModuleRef(file) in flow.value(put.receiver, flow.frame(put.file)):
            found.append(_value(flow, put))
    for receiver, value, place in _aimless(flow, None, name):
        # Only what is imported by its name while the program runs may be a module.
        if not any(word in receiver for word in ("import_module", "sys.modules", "__import__")):
            continue
        if held := parts.held(flow, value):
            why = f"a wrapped module is stored at {place.at} as `{name}` of `{receiver}`"
            found.append({Unknown(why, hint=name, sure=True): next(iter(held.values()))})
    return union(found)


def containers_named(flow: Evaluation, name: str) -> Value:
    """Return the containers that an attribute of that name may hold, of whatever class."""

    def compute() -> Value:
        owners = dict.fromkeys(flow.project.owners(name))
        owners |= {cls: None for cls in flow.project.classes.values() if name in cls.scope.bindings}
        found: list[Value] = []
        for cls in owners:
            place = Place(cls.node, cls.scope.file)
            value = members.member(flow, Instance(cls), name, place)
            found.append({atom: way for atom, way in value.items() if isinstance(atom, Box)})
        return union(found)

    return flow.cell(("containers", name), compute)
