"""What is known of functions that are not analysed: built-ins, the standard library, torch."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from porttool.deciding.dataflow import containers, makers, members, opaque, records
from porttool.deciding.dataflow.fileindex import Scope
from porttool.deciding.dataflow.values import (
    Box,
    ClassRef,
    Frame,
    Function,
    Instance,
    Nested,
    Nothing,
    Outside,
    Partial,
    Place,
    Plain,
    RecordType,
    Unknown,
    Value,
    Wrapped,
    union,
)
from porttool.wrappers import known_wrapper

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
_HANDS_ON = frozenset(
    {
        "typing.cast",
        "contextlib.nullcontext",
        "contextlib.closing",
        "contextlib.aclosing",
        "weakref.proxy",
        "asyncio.run",
        "asyncio.shield",
        "asyncio.wait_for",
    }
)
# What these give is found by a name that is worked out while the program runs.
_BY_NAME = frozenset(
    {
        "builtins.vars",
        "builtins.globals",
        "builtins.locals",
        "builtins.eval",
        "builtins.exec",
        "builtins.__import__",
        "builtins.object.__getattribute__",
        "importlib.import_module",
        "inspect.getattr_static",
        "operator.attrgetter",
        "operator.itemgetter",
        "operator.methodcaller",
        "operator.getitem",
        "gc.get_objects",
        "gc.get_referrers",
    }
)
MADE = "made by"
_AVERAGES = ("AveragedModel",)
_NESTS = (
    "DataParallel",
    "DistributedDataParallel",
    "FullyShardedDataParallel",
    "DDP",
    "FSDP",
    *_AVERAGES,
)
# Functions that look at an object and never hand it back.
_LOOKS = frozenset(
    f"builtins.{name}"
    for name in (
        *("print", "repr", "str", "len", "id", "hash", "type", "isinstance", "issubclass", "dir"),
        *("hasattr", "setattr", "delattr", "callable", "bool", "int", "float", "abs", "sum"),
        *("all", "any", "range", "open"),
    )
)


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
    if flow.wrapper.is_called(name):
        return {Wrapped(place): None} if node.args or node.keywords else {Nothing(): None}
    package, _, last = name.rpartition(".")
    if package == "builtins":
        given = _builtin(flow, last, node, frame)
        if given is not None:
            return given
    if name in _BY_NAME:
        why = f"it is looked up by name, through `{last}()`"
        return {Unknown(f"{why} ({place.at})", sure=True): None}
    made = makers.made_by(name, node, frame)
    if made is not None:
        return made
    if name in ("collections.namedtuple", "typing.NamedTuple"):
        fields = records.named_fields(node)
        return {RecordType(fields) if fields else Plain(f"{MADE} `{last}`", place, place): None}
    if name == "builtins.object.__new__":
        classes = flow.value(node.args[0], frame) if node.args else {}
        return {Instance(a.cls): way for a, way in classes.items() if isinstance(a, ClassRef)}
    if name in _COPIES | _HANDS_ON:
        which = 1 if last == "cast" else 0
        given = flow.value(node.args[which], frame) if len(node.args) > which else {}
        return containers.awaited(flow, given)
    if name == "functools.partial" and node.args:
        targets = flow.value(node.args[0], frame)
        return {
            Partial(atom, node, frame): None
            for atom in targets
            if isinstance(atom, Function | ClassRef)
        } or {Plain("a partial function", place): None}
    optimizer = ".optim." in name or name.startswith("torch.optim")
    if optimizer and last not in _AVERAGES:
        kind = "a learning-rate scheduler" if "lr_scheduler" in name else "an optimizer"
        return {Plain(f"{kind} built", place): None}
    if name.startswith("torch.") and name.endswith(("save", "load")):
        return {Plain(f"what `{name}` gives", place): None}
    return _stranger(flow, name, node, frame)


def _stranger(flow: Evaluation, name: str, node: ast.Call, frame: Frame) -> Value:
    """Judge an unknown function by what it is given: it cannot wrap, but it may hand back."""
    place = Place(node, frame.file)
    last = name.rpartition(".")[2]
    if name in _LOOKS:
        return {Plain(f"what `{last}` gives", place): None}
    held = opaque.held_by_arguments(flow, node, frame)
    if any(_looks_up(flow, argument, frame) for argument in node.args):
        why = f"it is looked up by name, through `{last}()`"
        return {Unknown(f"{why} ({place.at})", sure=True): None}
    doubts: Value = {atom: way for atom, way in held.items() if isinstance(atom, Unknown)}
    if held and len(doubts) == len(held):
        return doubts
    held = {atom: way for atom, way in held.items() if atom not in doubts}
    if not held:
        return {Plain(f"{MADE} `{place.text}`", place, place): None}
    if last in _NESTS or known_wrapper(name) or name.startswith(("torch.nn.", "torch.jit.")):
        return {
            Nested(place, atom.place if isinstance(atom, Wrapped) else place): way
            for atom, way in held.items()
        }
    why = f"`{last}` is given a wrapped module at {place.at} and may hand it back"
    return {Unknown(why, sure=True): next(iter(held.values()))}


def _looks_up(flow: Evaluation, argument: ast.expr, frame: Frame) -> bool:
    """Tell whether an argument is a function that finds attributes by their names."""
    if not isinstance(argument, ast.Name | ast.Attribute):
        return False
    found = flow.value(argument, frame)
    return any(isinstance(a, Outside) and a.name == "builtins.getattr" for a in found)


def _builtin(flow: Evaluation, name: str, node: ast.Call, frame: Frame) -> Value | None:
    place = Place(node, frame.file)
    arguments = node.args
    if name == "getattr" and len(arguments) >= 2:
        return _getattr(flow, node, frame)
    if name == "type" and len(arguments) == 1:
        value = flow.value(arguments[0], frame)
        known: Value = {
            ClassRef(atom.cls): way for atom, way in value.items() if isinstance(atom, Instance)
        }
        return known or None
    if name == "super":
        scope: Scope | None = frame.file.scope_at.get(node)
        while scope is not None and scope.owner is None:
            scope = scope.above
        cls = flow.project.class_of(scope.owner) if scope is not None else None
        return {Instance(cls, upward=True): None} if cls is not None else {}
    if name == "sum" and arguments:
        # Of lists it makes one list.
        first = containers.iterate(flow, flow.value(arguments[0], frame), place)
        joined = union([first, *(flow.value(start, frame) for start in arguments[1:])])
        return {atom: way for atom, way in joined.items() if isinstance(atom, Box)} or None
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
