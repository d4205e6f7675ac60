"""What is in a container: written out, built by a comprehension, copied, zipped, added to later."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from porttool.deciding.dataflow import calls, outside
from porttool.deciding.dataflow.fileindex import Binding, FileIndex, Route
from porttool.deciding.dataflow.values import (
    Atom,
    Box,
    Frame,
    Instance,
    Nested,
    Nothing,
    Place,
    Plain,
    Unknown,
    Value,
    Wrapped,
    prefixed,
    stepped,
    union,
)

if TYPE_CHECKING:
    from porttool.deciding.dataflow.evaluate import Evaluation

DICTS = ("dict", "dict comprehension", "dict call", "module dict", "joined dicts", "wrapped dict")
_ADDS = {"append": 0, "appendleft": 0, "add": 0, "insert": 1, "put": 0, "setdefault": 1}
_ADDS_MANY = ("extend", "extendleft", "update")
_COPIES = ("list", "tuple", "set", "frozenset", "sorted", "reversed", "iter", "deque")


def iterate(flow: Evaluation, value: Value, place: Place) -> Value:
    """Return what a loop over a value gets."""
    found: list[Value] = []
    for atom, way in value.items():
        if isinstance(atom, Box):
            keys = atom.kind in DICTS
            inside: Value = {Plain("a key", place): None} if keys else contents(flow, atom)
            found.append(prefixed(way, inside))
        elif isinstance(atom, Wrapped | Nested):
            # A wrapped nn.Sequential gives its plain parts.
            found.append({Plain("a part of a wrapped module", place): None})
        elif isinstance(atom, Instance):
            found.append(prefixed(way, calls.iterated(flow, atom, place)))
        elif isinstance(atom, Unknown | Plain):
            found.append({atom: way})
        elif not isinstance(atom, Nothing):
            found.append({Plain("an element of something outside", place): None})
    return union(found)


def component(flow: Evaluation, value: Value, part: int | str, place: Place) -> Value:
    """Return what unpacking gives one target: a position, or "*" for the rest."""
    found: list[Value] = []
    for atom, way in value.items():
        if not isinstance(atom, Box):
            found.append(iterate(flow, {atom: way}, place))
        elif part == "*":
            found.append({Box("rest", atom.node, atom.frame): way})
        else:
            assert isinstance(part, int)
            found.append(prefixed(way, at_position(flow, atom, part)))
    return union(found)


def item(flow: Evaluation, value: Value, key: ast.expr, place: Place) -> Value:
    """Return what a subscript gives."""
    found: list[Value] = []
    for atom, way in value.items():
        if isinstance(atom, Box):
            if isinstance(key, ast.Slice):
                found.append({atom: way})
            else:
                found.append(prefixed(way, _at_key(flow, atom, key)))
        elif isinstance(atom, Wrapped | Nested):
            found.append({Plain("a part of a wrapped module", place): None})
        elif isinstance(atom, Instance):
            found.append(prefixed(way, calls.special(flow, atom, "__getitem__", place)))
        elif isinstance(atom, Unknown):
            hint = key.value if isinstance(key, ast.Constant) else ""
            hint = hint if isinstance(hint, str) else ""
            found.append({Unknown(atom.reason, hint=hint or atom.hint, sure=atom.sure): way})
        elif isinstance(atom, Plain):
            found.append({atom: way})
        elif not isinstance(atom, Nothing):
            found.append({Plain("an item of something outside", place): None})
    return union(found)


def _constant(key: ast.expr) -> object:
    if isinstance(key, ast.UnaryOp) and isinstance(key.op, ast.USub):
        inner = _constant(key.operand)
        return -inner if isinstance(inner, int) else None
    return key.value if isinstance(key, ast.Constant) else None


def _at_key(flow: Evaluation, box: Box, key: ast.expr) -> Value:
    constant = _constant(key)
    if box.kind in DICTS:
        return dict_values(flow, box, constant)
    if isinstance(constant, int) and not isinstance(constant, bool):
        return at_position(flow, box, constant)
    return contents(flow, box)


def at_position(flow: Evaluation, box: Box, index: int) -> Value:
    """Return what is at a position, as exactly as the container tells."""
    return flow.cell(("position", box, index), lambda: _at_position(flow, box, index))


def _at_position(flow: Evaluation, box: Box, index: int) -> Value:
    node, frame = box.node, box.frame
    if box.kind in ("tuple", "literal") and isinstance(node, ast.Tuple | ast.List):
        starred = any(isinstance(element, ast.Starred) for element in node.elts)
        if not starred and -len(node.elts) <= index < len(node.elts):
            return union((flow.value(node.elts[index], frame), added(flow, box)))
    elif box.kind == "zip element" and isinstance(node, ast.Call):
        if 0 <= index < len(node.args) and not any(
            isinstance(argument, ast.Starred) for argument in node.args
        ):
            return _iterated(flow, node.args[index], frame)
    elif box.kind == "enumerate element" and isinstance(node, ast.Call):
        if index in (0, -2):
            return {Plain("a counter", Place(node, frame.file)): None}
        return _iterated(flow, node.args[0], frame)
    elif box.kind == "item pair" and isinstance(node, ast.Call):
        if index in (0, -2):
            return {Plain("a key", Place(node, frame.file)): None}
        assert isinstance(node.func, ast.Attribute)
        return _all_values(flow, flow.value(node.func.value, frame))
    return contents(flow, box)


def _all_values(flow: Evaluation, value: Value) -> Value:
    found: list[Value] = []
    for atom, way in value.items():
        if isinstance(atom, Box):
            inside = dict_values(flow, atom) if atom.kind in DICTS else contents(flow, atom)
            found.append(prefixed(way, inside))
        elif isinstance(atom, Unknown | Plain):
            found.append({atom: way})
    return union(found)


def _iterated(flow: Evaluation, node: ast.expr, frame: Frame) -> Value:
    return iterate(flow, flow.value(node, frame), Place(node, frame.file))


def contents(flow: Evaluation, box: Box) -> Value:
    """Return everything that a container holds; of a dictionary, its values."""
    if box.kind in DICTS:
        return dict_values(flow, box)
    return flow.cell(("contents", box), lambda: union((_made(flow, box), added(flow, box))))


def _made(flow: Evaluation, box: Box) -> Value:
    """Return what a container holds from the start."""
    node, frame = box.node, box.frame
    match box.kind:
        case "wrapped list":
            return {Wrapped(Place(node, frame.file)): None}
        case "literal" | "tuple" | "rest":
            if isinstance(node, ast.List | ast.Tuple | ast.Set):
                return _elements(flow, node.elts, frame)
            return contents(flow, Box("copy", node, frame)) if box.kind != "rest" else {}
        case "comprehension":
            assert isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp)
            return flow.value(node.elt, frame)
        case "joined":
            assert isinstance(node, ast.BinOp)
            return union((_iterated(flow, node.left, frame), _iterated(flow, node.right, frame)))
        case "yields":
            return _yielded(flow, node, frame)
    assert isinstance(node, ast.Call)
    match box.kind:
        case "copy" | "chain":
            return union([_iterated(flow, argument, frame) for argument in node.args])
        case "flattened":
            inner = _iterated(flow, node.args[0], frame) if node.args else {}
            return iterate(flow, inner, Place(node, frame.file))
        case "arguments" | "modules":
            return _modules(flow, node, frame, listed=box.kind == "modules")
        case "zip":
            return {Box("zip element", node, frame): None}
        case "enumerate":
            return {Box("enumerate element", node, frame): None}
        case "items":
            return {Box("item pair", node, frame): None}
        case "zip element":
            return union([_iterated(flow, argument, frame) for argument in node.args])
        case "enumerate element" | "item pair":
            return at_position(flow, box, 1)
        case "values":
            assert isinstance(node.func, ast.Attribute)
            return _all_values(flow, flow.value(node.func.value, frame))
        case "method copy":
            assert isinstance(node.func, ast.Attribute)
            return _iterated(flow, node.func.value, frame)
        case "map":
            return calls.mapped(flow, node, frame)
        case "filter":
            return _iterated(flow, node.args[-1], frame) if node.args else {}
    return {}


def _modules(flow: Evaluation, node: ast.Call, frame: Frame, *, listed: bool) -> Value:
    """Return the parts of an nn.ModuleList (an iterable) or nn.Sequential (its arguments)."""
    if not listed:
        return _elements(flow, node.args, frame)
    found: list[Value] = []
    for argument in node.args:
        value = flow.value(argument, frame)
        boxes: Value = {atom: way for atom, way in value.items() if isinstance(atom, Box)}
        rest = {atom: way for atom, way in value.items() if atom not in boxes}
        found.append(_all_values(flow, boxes))
        found.append(rest)
    return union(found)


def _elements(flow: Evaluation, nodes: list[ast.expr], frame: Frame) -> Value:
    found: list[Value] = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            found.append(_iterated(flow, node.value, frame))
        else:
            found.append(flow.value(node, frame))
    return union(found)


def _yielded(flow: Evaluation, node: ast.AST, frame: Frame) -> Value:
    scope = frame.file.scopes[node]
    found: list[Value] = []
    for given in scope.yields:
        if given.value is None:
            continue
        value = flow.value(given.value, frame)
        if isinstance(given, ast.YieldFrom):
            value = iterate(flow, value, Place(given, frame.file))
        found.append(
            stepped(
                value,
                f"`{scope.name}`",
                "yields",
                Place(given.value, frame.file),
                Place(given, frame.file),
            )
        )
    return union(found)


def dict_values(flow: Evaluation, box: Box, key: object = None) -> Value:
    """Return a dictionary's values; with a constant key, only what may stand under it."""
    return flow.cell(
        ("values", box, key), lambda: union((_entries(flow, box, key), added(flow, box, key)))
    )


def _entries(flow: Evaluation, box: Box, key: object) -> Value:
    node, frame = box.node, box.frame
    if box.kind == "wrapped dict":
        return {Wrapped(Place(node, frame.file)): None}
    if isinstance(node, ast.DictComp):
        return flow.value(node.value, frame)
    found: list[Value] = []
    if isinstance(node, ast.Dict):
        for name, entry in zip(node.keys, node.values, strict=True):
            if name is None:
                found.append(_all_values(flow, flow.value(entry, frame)))
            elif key is None or _constant(name) in (None, key):
                found.append(flow.value(entry, frame))
        return union(found)
    if isinstance(node, ast.BinOp):
        sides = union((flow.value(node.left, frame), flow.value(node.right, frame)))
        for atom, way in sides.items():
            if isinstance(atom, Box) and atom.kind in DICTS:
                found.append(prefixed(way, dict_values(flow, atom, key)))
        return union(found)
    assert isinstance(node, ast.Call)
    for keyword in node.keywords:
        if keyword.arg is None:
            found.append(_all_values(flow, flow.value(keyword.value, frame)))
        elif key is None or keyword.arg == key:
            found.append(flow.value(keyword.value, frame))
    for argument in node.args:
        given = flow.value(argument, frame)
        for atom, way in given.items():
            if isinstance(atom, Box) and atom.kind in DICTS:
                found.append(prefixed(way, dict_values(flow, atom, key)))
            elif isinstance(atom, Box):  # pairs
                pairs = prefixed(way, contents(flow, atom))
                found.append(component(flow, pairs, 1, Place(node, frame.file)))
            elif isinstance(atom, Unknown):
                found.append({atom: way})
    return union(found)


# -- what is added later -----------------------------------------------------------------------


def added(flow: Evaluation, box: Box, key: object = None) -> Value:
    """Return what appends, item assignments and the like may add to a container."""
    if box.kind in ("tuple", "zip element", "enumerate element", "item pair"):
        return {}
    found: list[Value] = []
    for addition in flow.additions(box):
        file, node = addition.file, addition.node
        if isinstance(node, ast.Call):
            found.append(_given(flow, node, file, key))
        elif isinstance(node.target, ast.Subscript):
            constant = _constant(node.target.slice)
            if key is not None and constant is not None and constant != key:
                continue
            value = flow.bound(node, flow.frame(file))
            if isinstance(node.target.slice, ast.Slice) or node.kind == "aug":
                value = iterate(flow, value, Place(node.target, file))
            found.append(value)
        elif node.value is not None:
            found.append(_iterated(flow, node.value, flow.frame(file)))
    return union(found)


@dataclass(frozen=True, slots=True)
class Addition:
    """A place that adds to a container: a call of `append` and the like, or an assignment."""

    receiver: ast.expr
    node: ast.Call | Binding
    file: FileIndex


def additions(file: FileIndex) -> Iterator[Addition]:
    """Yield the places of a file that may add to a container."""
    for name in (*_ADDS, *_ADDS_MANY):
        for call in file.calls.get(name, ()):
            plain = call.args and _is_plain(call.args[-1])
            if isinstance(call.func, ast.Attribute) and not plain:
                yield Addition(call.func.value, call, file)
    for binding in file.items:
        plain = binding.value is None or _is_plain(binding.value)
        if isinstance(binding.target, ast.Subscript) and not plain:
            yield Addition(binding.target.value, binding, file)
    for binding in file.augmented:
        if isinstance(binding.target, ast.Attribute):
            yield Addition(binding.target, binding, file)


def _is_plain(node: ast.expr) -> bool:
    """Tell from the look of it that an expression is a number, a text or an array."""
    if isinstance(node, ast.BinOp):
        return not isinstance(node.op, ast.Add | ast.BitOr | ast.Mult)
    return isinstance(node, ast.Constant | ast.Compare | ast.JoinedStr | ast.UnaryOp)


def _given(flow: Evaluation, call: ast.Call, file: FileIndex, key: object) -> Value:
    assert isinstance(call.func, ast.Attribute)  # `additions` gives no others
    name, receiver = call.func.attr, call.func.value
    frame = flow.frame(file)
    place = Place(call, file)
    if name in _ADDS_MANY:
        parts = [_all_or_elements(flow, argument, frame) for argument in call.args]
        parts += [
            flow.value(keyword.value, frame)
            for keyword in call.keywords
            if key is None or keyword.arg in (None, key)
        ]
        return union(parts)
    if len(call.args) <= _ADDS[name]:
        return {}
    argument = call.args[_ADDS[name]]
    value = flow.value(argument, frame)
    return stepped(value, Place(argument, file), "is added to", Place(receiver, file), place)


def _all_or_elements(flow: Evaluation, node: ast.expr, frame: Frame) -> Value:
    value = flow.value(node, frame)
    dicts = {atom: way for atom, way in value.items() if _is_dict(atom)}
    rest = {atom: way for atom, way in value.items() if atom not in dicts}
    return union((_all_values(flow, dicts), iterate(flow, rest, Place(node, frame.file))))


def _is_dict(atom: Atom) -> bool:
    return isinstance(atom, Box) and atom.kind in DICTS


# -- calls of a container's own methods, and of functions that make containers -----------------


def method(flow: Evaluation, box: Box, name: str, node: ast.Call, frame: Frame) -> Value:
    """Return what a method of a container gives."""
    place = Place(node, frame.file)
    if name in ("pop", "popleft", "popitem", "get", "setdefault", "__getitem__"):
        key = node.args[0] if node.args else None
        found = _at_key(flow, box, key) if key is not None else contents(flow, box)
        rest = node.args[1:] if name != "pop" or box.kind in DICTS else []
        return union([found, *(flow.value(default, frame) for default in rest)])
    if name == "values":
        return {Box("values", node, frame): None}
    if name in ("items", "named_children"):
        return {Box("items", node, frame): None}
    if name == "children":
        return {Box("values", node, frame): None}
    if name == "copy":
        kind = "dict call" if box.kind in DICTS else "method copy"
        return {box: None} if kind == "dict call" else {Box(kind, node, frame): None}
    if box.kind in ("modules", "module dict", "arguments") and name in outside.SAME_OBJECT:
        return {box: None}
    if name in _ADDS or name in _ADDS_MANY:
        return {Nothing(): None}
    return {Plain(f"what `{name}` of a container gives", place): None}


def made_by(name: str, node: ast.Call, frame: Frame) -> Value | None:
    """Return the container that a well-known function makes, None for other functions."""
    package, _, last = name.rpartition(".")
    kind: str | None = None
    if package == "builtins":
        if last in _COPIES:
            kind = "copy"
        elif last in ("zip", "enumerate", "map", "filter"):
            kind = last
        elif last == "dict":
            kind = "dict call"
    elif package in ("collections", "copy", "itertools") or name.startswith("itertools.chain"):
        kinds = {
            "collections.deque": "copy",
            "collections.OrderedDict": "dict call",
            "collections.defaultdict": "dict call",
            "itertools.chain": "chain",
            "itertools.chain.from_iterable": "flattened",
            "itertools.cycle": "copy",
            "itertools.islice": "copy",
            "itertools.zip_longest": "zip",
            "itertools.product": "zip",
        }
        kind = kinds.get(name)
    elif name.startswith("torch.nn."):
        modules = {"ModuleList": "modules", "ModuleDict": "module dict", "Sequential": "arguments"}
        kind = modules.get(last)
    return {Box(kind, node, frame): None} if kind else None


def is_modules(atom: Atom) -> bool:
    """Tell whether a container is itself a torch module, with keys for its parts."""
    return isinstance(atom, Box) and atom.kind in ("modules", "module dict", "arguments")


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
