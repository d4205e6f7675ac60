"""What is known of functions that are not analysed: built-ins, the standard library, torch."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from porttool.deciding.dataflow import containers, members
from porttool.deciding.dataflow.fileindex import Scope
from porttool.deciding.dataflow.values import (
    Box,
    ClassRef,
    Frame,
    Function,
    Instance,
    Nested,
    Nothing,
    Partial,
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


# Methods of a torch module that return the very module.
SAME_OBJECT = frozenset(
    {
        "apply",
        "bfloat16",
        "cpu",
        "cuda",
        "double",
        "eval",
        "float",
        "half",
        "requires_grad_",
        "share_memory",
        "to",
        "to_empty",
        "train",
        "type",
        "xpu",
    }
)
_COPIES = frozenset({"copy.deepcopy", "copy.copy", "dataclasses.replace"})
_HANDS_ON = frozenset({"typing.cast", "contextlib.nullcontext", "weakref.proxy"})
MADE = "made by"
_NESTS = ("DataParallel", "DistributedDataParallel", "FullyShardedDataParallel", "DDP", "FSDP")


def unwraps(node: ast.IfExp, unwrap: str) -> bool:
    """Recognise `x._orig_mod if hasattr(x, "_orig_mod") else x` and its kin."""
    body = node.body
    return (
        isinstance(body, ast.Attribute)
        and body.attr == unwrap
        and ast.dump(body.value) == ast.dump(node.orelse)
    )


def called(flow: Evaluation, name: str, node: ast.Call, frame: Frame) -> Value:
    """Return what a call of something that is not analysed gives."""
    place = Place(node, frame.file)
    if name == flow.callee:
        return {Wrapped(place): None} if node.args or node.keywords else {Nothing(): None}
    package, _, last = name.rpartition(".")
    if package == "builtins":
        given = _builtin(flow, last, node, frame)
        if given is not None:
            return given
    made = containers.made_by(name, node, frame)
    if made is not None:
        return made
    if name in _COPIES | _HANDS_ON:
        which = 1 if last == "cast" else 0
        return flow.value(node.args[which], frame) if len(node.args) > which else {}
    if name == "functools.partial" and node.args:
        targets = flow.value(node.args[0], frame)
        return {
            Partial(atom, node, frame): None
            for atom in targets
            if isinstance(atom, Function | ClassRef)
        } or {Plain("a partial function", place): None}
    if ".optim." in name or name.startswith("torch.optim"):
        kind = "a learning-rate scheduler" if "lr_scheduler" in name else "an optimizer"
        return {Plain(f"{kind} built", place): None}
    if name.startswith("torch.") and name.endswith(("save", "load")):
        return {Plain(f"what `{name}` gives", place): None}
    return _stranger(flow, name, node, frame)


def _stranger(flow: Evaluation, name: str, node: ast.Call, frame: Frame) -> Value:
    """Judge an unknown function by what it is given: it cannot wrap, but it may hand back."""
    place = Place(node, frame.file)
    last = name.rpartition(".")[2]
    inside: list[Value] = []
    for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
        value = flow.value(argument, frame)
        held = flow.wrapped_inside(value)
        for atom, way in value.items():
            if isinstance(atom, Box):
                held |= prefixed(way, flow.wrapped_inside(containers.contents(flow, atom)))
        inside.append(held)
    held = union(inside)
    doubts: Value = {atom: way for atom, way in held.items() if isinstance(atom, Unknown)}
    if held and len(doubts) == len(held):
        return doubts
    held = {atom: way for atom, way in held.items() if atom not in doubts}
    if not held:
        return {Plain(f"{MADE} `{place.text}`", place): None}
    if last in _NESTS or name.startswith(("torch.nn.", "torch.jit.")):
        return {
            Nested(place, atom.place if isinstance(atom, Wrapped) else place): way
            for atom, way in held.items()
        }
    if name.startswith(("builtins.", "torch.", "numpy.")):
        return {Plain(f"what `{name}` gives", place): None}
    why = f"`{last}` is given a wrapped module at {place.at} and may hand it back"
    return {Unknown(why, sure=True): next(iter(held.values()))}


def _builtin(flow: Evaluation, name: str, node: ast.Call, frame: Frame) -> Value | None:
    place = Place(node, frame.file)
    arguments = node.args
    if name == "getattr" and len(arguments) >= 2:
        return _getattr(flow, node, frame)
    if name == "vars":
        why = "it is looked up by name, through `vars()`"
        return {Unknown(why, sure=True): None}
    if name == "super":
        scope: Scope | None = frame.file.scope_at.get(node)
        while scope is not None and scope.owner is None:
            scope = scope.above
        cls = flow.project.class_of(scope.owner) if scope is not None else None
        return {Instance(cls, upward=True): None} if cls is not None else {}
    if name in ("next", "min", "max"):
        first = flow.value(arguments[0], frame) if arguments else {}
        if name != "next" and len(arguments) > 1:
            return union([flow.value(argument, frame) for argument in arguments])
        rest = [flow.value(default, frame) for default in arguments[1:]]
        return union([containers.iterate(flow, first, place), *rest])
    return None


def _getattr(flow: Evaluation, node: ast.Call, frame: Frame) -> Value:
    place = Place(node, frame.file)
    receivers = flow.value(node.args[0], frame)
    name = node.args[1]
    if isinstance(name, ast.Constant) and isinstance(name.value, str):
        if name.value == flow.unwrap:
            return {Plain("an unwrapped module", place): None}
        found = [members.member(flow, atom, name.value, place) for atom in receivers]
        found += [flow.value(default, frame) for default in node.args[2:]]
        return union(found)
    if receivers and all(isinstance(atom, Plain | Nothing) for atom in receivers):
        return {Plain("a part of a plain object", place): None}
    return {Unknown(f"the attribute's name is computed ({place.at})", sure=True): None}
