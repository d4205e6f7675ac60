"""Functions and methods that make containers, or give what is in one."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from porttool.deciding.dataflow import containers, outside
from porttool.deciding.dataflow.additions import ADDS, ADDS_MANY
from porttool.deciding.dataflow.fileindex import Route
from porttool.deciding.dataflow.values import (
    Atom,
    Box,
    Frame,
    Nothing,
    Place,
    Plain,
    Value,
    union,
)

if TYPE_CHECKING:
    from porttool.deciding.dataflow.evaluate import Evaluation

_COPIES = ("list", "tuple", "set", "frozenset", "sorted", "reversed", "iter", "deque")
_MODULES = ("modules", "module dict", "arguments")
_TAKES = (
    "pop",
    "popleft",
    "get",
    "get_nowait",
    "recv",
    "result",
    "setdefault",
    "__getitem__",
    "__next__",
)
_STORES = (
    "Queue",
    "SimpleQueue",
    "LifoQueue",
    "PriorityQueue",
    "JoinableQueue",
    "Future",
)
_KINDS = {
    "collections.deque": "copy",
    "collections.OrderedDict": "dict call",
    "collections.defaultdict": "default dict",
    "collections.ChainMap": "dict call",
    "collections.UserDict": "dict call",
    "collections.UserList": "copy",
    "weakref.WeakValueDictionary": "dict call",
    "itertools.chain": "chain",
    "itertools.chain.from_iterable": "flattened",
    "itertools.cycle": "copy",
    "itertools.islice": "copy",
    "itertools.zip_longest": "zip",
    "itertools.product": "zip",
    "itertools.filterfalse": "filter",
    "itertools.takewhile": "filter",
    "itertools.dropwhile": "filter",
    "itertools.starmap": "map",
    "heapq.nlargest": "last copied",
    "heapq.nsmallest": "last copied",
    "heapq.merge": "chain",
    "concurrent.futures.as_completed": "copy",
    "asyncio.as_completed": "copy",
    "asyncio.gather": "gathered",
    "asyncio.create_task": "future of",
    "asyncio.ensure_future": "future of",
    "asyncio.to_thread": "future",
    "types.SimpleNamespace": "namespace",
    "argparse.Namespace": "namespace",
}
_BUILTIN = {
    **dict.fromkeys(_COPIES, "copy"),
    **{name: name for name in ("zip", "enumerate", "map", "filter")},
    "dict": "dict call",
}
_TORCH = {"ModuleList": "modules", "ModuleDict": "module dict", "Sequential": "arguments"}
# What executors, pools, loops and managers make; they themselves are not analysed.
_MADE_BY_METHOD = {
    "submit": "future",
    "apply_async": "future",
    "run_in_executor": "future",
    "create_task": "future of",
    "ensure_future": "future of",
    "map": "map",
    "imap": "map",
    "imap_unordered": "map",
    "map_async": "map",
    "starmap": "map",
    "starmap_async": "map",
    **dict.fromkeys(_STORES, "store"),
    "list": "copy",
    "dict": "dict call",
}


def made_by(name: str, node: ast.Call, frame: Frame) -> Value | None:
    """Return the container that a well-known function makes, None for other functions."""
    package, _, last = name.rpartition(".")
    kind: str | None
    if package == "builtins":
        kind = _BUILTIN.get(last)
    elif name.startswith("torch.nn."):
        kind = _TORCH.get(last)
    else:
        kind = _KINDS.get(name)
        if kind is None and last in _STORES:
            kind = "store"
        elif kind is None and last == "Pipe":
            kind = "pipe"
    return {Box(kind, node, frame): None} if kind else None


def made_by_method(name: str, node: ast.Call, frame: Frame) -> Value | None:
    """Return what a method of an executor, a pool, a loop or a manager makes, by its name.

    None where it is none of these, as far as the arguments tell.
    """
    kind = _MADE_BY_METHOD.get(name)
    if kind is None or (kind in ("future", "future of", "map") and not node.args):
        return None
    return {Box(kind, node, frame): None}


def method(flow: Evaluation, box: Box, name: str, node: ast.Call, frame: Frame) -> Value:
    """Return what a method of a container gives."""
    place = Place(node, frame.file)
    if box.kind == "map" and name in ("get", "result"):
        return {box: None}  # of `map_async`: all results at once
    if name in _TAKES:
        dicts = box.kind in containers.DICTS
        keyed = node.args if dicts or box.kind not in ("store", "future", "future of") else []
        key = keyed[0] if keyed else None
        found = containers.contents(flow, box)
        if key is not None:
            found = containers.at_key(flow, box, key)
        rest = keyed[1:] if name != "pop" or dicts else []
        return union([found, *(flow.value(default, frame) for default in rest)])
    if name == "values":
        return {Box("values", node, frame): None}
    if name == "keys":
        return {Box("keys", node, frame): None}
    if name == "popitem":
        return {Box("item pair", node, frame): None}
    if name in ("items", "named_children", "named_modules"):
        return {Box("items", node, frame): None}
    if name in ("children", "modules"):
        return {Box("values", node, frame): None}
    if name in ("union", "intersection", "symmetric_difference"):
        return {Box("sets", node, frame): None}
    if name in ("copy", "_replace", "difference"):
        kind = "dict call" if box.kind in containers.DICTS else "method copy"
        return {box: None} if kind == "dict call" else {Box(kind, node, frame): None}
    if name == "_asdict":
        return {box: None}
    if box.kind in _MODULES and (name in outside.SAME_OBJECT or name in ("append", "extend")):
        return {box: None}
    if name in ADDS or name in ADDS_MANY:
        return {Nothing(): None}
    return {Plain(f"what `{name}` of a container gives", place): None}


def is_modules(atom: Atom) -> bool:
    """Tell whether a container is itself a torch module, with keys for its parts."""
    return isinstance(atom, Box) and atom.kind in _MODULES


def source_of(node: ast.expr, route: Route) -> tuple[str, ast.expr, Route]:
    """Say in words what a loop target takes: the relation, the container, what is left to unpack.

    `enumerate`, `zip`, `sorted` and the like are looked through.
    """
    relation = "is an element of"
    while isinstance(node, ast.Call):
        function = node.func
        if isinstance(function, ast.Name) and node.args:
            if function.id == "zip" and route and isinstance(route[0], int):
                if not 0 <= route[0] < len(node.args):
                    break
                node, route = node.args[route[0]], route[1:]
                continue
            if function.id == "enumerate" and route and route[0] == 1:
                node, route = node.args[0], route[1:]
                continue
            if function.id in _COPIES:
                node = node.args[0]
                continue
        if isinstance(function, ast.Attribute) and not node.args:
            if function.attr == "items" and route and route[0] == 1:
                return "is a value of", function.value, route[1:]
            if function.attr == "values":
                return "is a value of", function.value, route
        break
    return relation, node, route
