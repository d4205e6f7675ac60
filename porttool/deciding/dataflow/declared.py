"""What annotations and generated constructors say about attributes and parameters."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from porttool.deciding.dataflow import callers, calls, members
from porttool.deciding.dataflow.fileindex import Binding, FileIndex
from porttool.deciding.dataflow.project import ClassInfo
from porttool.deciding.dataflow.values import (
    Atom,
    Frame,
    Instance,
    Nothing,
    Place,
    Plain,
    Unknown,
    Value,
    stepped,
    union,
)

if TYPE_CHECKING:
    from porttool.deciding.dataflow.evaluate import Evaluation


def by_annotation(flow: Evaluation, annotation: ast.expr, file: FileIndex, reason: str) -> Value:
    """Return what an annotation promises: a class of the files, an optimizer, or a hint."""
    node = annotation
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            node = ast.parse(annotation.value, mode="eval").body
        except SyntaxError:
            return {Unknown(reason, hint=annotation.value): None}
    text = ast.unparse(node)
    found: Value = {}
    for part in _alternatives(node):
        found |= _promised(flow, part, Place(annotation, file), reason, text)
    return found


def _alternatives(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return [*_alternatives(node.left), *_alternatives(node.right)]
    if isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("Optional"):
        return [*_alternatives(node.slice), ast.Constant(None)]
    return [node]


def _promised(flow: Evaluation, node: ast.expr, place: Place, reason: str, text: str) -> Value:
    if isinstance(node, ast.Constant):
        return {Nothing(): None} if node.value is None else {Unknown(reason, hint=text): None}
    if isinstance(node, ast.Name | ast.Attribute):
        name = node.attr if isinstance(node, ast.Attribute) else node.id
        if name in ("int", "float", "str", "bool", "bytes", "Path", "Tensor", "ndarray"):
            return {Plain(f"annotated `{text}`", place): None}
        if "Optimizer" in name or "Scheduler" in name or "Scaler" in name:
            return {Plain(f"annotated `{text}`", place): None}
        cls = _class_named(flow, node, place.file)
        # A module's class does not tell a wrapped one from a plain one.
        if cls is not None and not cls.is_module:
            return {Instance(cls): None}
    return {Unknown(reason, hint=text): None}


def _class_named(
    flow: Evaluation, node: ast.Name | ast.Attribute, file: FileIndex
) -> ClassInfo | None:
    dotted = ast.unparse(node)
    found = flow.project.look_up(dotted, file.module)
    return found if isinstance(found, ClassInfo) else None


def field(flow: Evaluation, cls: ClassInfo, name: str) -> Value:
    """Return what constructor calls give a field of a dataclass, named tuple or the like."""
    if members.methods(cls, "__init__"):
        return {}
    fields = callers.fields(cls)
    if name not in fields:
        return {}
    family = cls.family()
    found = replaced(flow, name, lambda atom: isinstance(atom, Instance) and atom.cls in family)
    for call, file in callers.constructions(flow, cls):
        place = Place(call, file)
        starred = any(isinstance(argument, ast.Starred) for argument in call.args)
        starred = starred or any(keyword.arg is None for keyword in call.keywords)
        given = next((k.value for k in call.keywords if k.arg == name), None)
        position = fields.index(name)
        if given is None and not starred and position < len(call.args):
            given = call.args[position]
        if given is not None:
            value = flow.value(given, flow.frame(file))
            found.append(
                stepped(value, f"`{cls.name}.{name}`", "is given", Place(given, file), place)
            )
        elif starred:
            why = f"`{cls.name}` is built from starred arguments ({place.at})"
            found.append({Unknown(why, hint=name, sure=True): None})
    return union(found)


def caught(flow: Evaluation, binding: Binding) -> Value:
    """Return the exceptions that an `except` clause names: those of the files, or strangers."""
    place = Place(binding.target, binding.scope.file)
    named = binding.value
    parts = named.elts if isinstance(named, ast.Tuple) else [named]
    found: Value = {}
    for part in parts:
        known = None
        if isinstance(part, ast.Name | ast.Attribute):
            known = _class_named(flow, part, place.file)
        if known is not None:
            found[Instance(known)] = None
        else:
            found[Unknown(f"it is caught at {place.at}")] = None
    return found


def replaced(flow: Evaluation, name: str, is_one: Callable[[Atom], bool]) -> list[Value]:
    """Return what `replace(record, name=...)` and `record._replace(name=...)` put into a field."""
    found = []
    for word in ("replace", "_replace", "evolve"):
        for call, file in flow.project.calls(word):
            given = [keyword.value for keyword in call.keywords if keyword.arg == name]
            inside = [call.func.value] if isinstance(call.func, ast.Attribute) else []
            records = call.args[:1] or inside
            frame = flow.frame(file)
            if given and any(is_one(atom) for node in records for atom in flow.value(node, frame)):
                found += [flow.value(value, frame) for value in given]
    return found


def field_default(flow: Evaluation, node: ast.Call, frame: Frame) -> Value:
    """Return what `field(default=..., default_factory=...)` gives."""
    found: list[Value] = []
    for keyword in node.keywords:
        if keyword.arg == "default":
            found.append(flow.value(keyword.value, frame))
        elif keyword.arg in ("default_factory", "factory"):
            found.append(factory_made(flow, keyword.value, node, frame))
    return union(found)


def factory_made(flow: Evaluation, factory: ast.expr, node: ast.Call, frame: Frame) -> Value:
    """Return what a factory that is called without arguments makes."""
    # `field(...)` itself has no arguments that a list could be made from.
    empty = flow.stand_in(node, factory, ())
    return union([calls.applied(flow, atom, empty, frame) for atom in flow.value(factory, frame)])
