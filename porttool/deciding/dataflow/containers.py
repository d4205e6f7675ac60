"""What is in a container: written out, built by a comprehension, copied, zipped, added to later."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from porttool.deciding.dataflow import calls, declared, members, parts, records
from porttool.deciding.dataflow.additions import added
from porttool.deciding.dataflow.fileindex import Binding, Part, Taken
from porttool.deciding.dataflow.values import (
    Atom,
    Box,
    Frame,
    Instance,
    Nested,
    Nothing,
    Outside,
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

_OBJECTS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Tuple, ast.Await)
DICTS = (
    "dict",
    "dict comprehension",
    "dict call",
    "default dict",
    "module dict",
    "joined dicts",
    "wrapped dict",
    "namespace",
    "keywords",
    "own dict",
)


def iterate(flow: Evaluation, value: Value, place: Place) -> Value:
    """Return what a loop over a value gets."""
    found: list[Value] = []
    for atom, way in value.items():
        if isinstance(atom, Box):
            inside = keys(flow, atom) if atom.kind in DICTS else contents(flow, atom)
            found.append(prefixed(way, inside))
        elif isinstance(atom, Wrapped | Nested):
            # A wrapped nn.Sequential gives its plain parts.
            found.append({Plain("a part of a wrapped module", place): None})
        elif isinstance(atom, Instance):
            own = records.own_container(flow, atom)
            inside = iterate(flow, own, place) if own else calls.iterated(flow, atom, place)
            found.append(prefixed(way, inside))
        elif isinstance(atom, Unknown | Plain):
            found.append({atom: way})
        elif not isinstance(atom, Nothing):
            found.append({Plain("an element of something outside", place): None})
    return union(found)


def keys(flow: Evaluation, box: Box) -> Value:
    """Return the keys of a dictionary, as far as they are worth a look: objects can be keys too."""
    return flow.cell(("keys", box), lambda: _keys(flow, box))


def _keys(flow: Evaluation, box: Box) -> Value:
    node, frame = box.node, box.frame
    found: list[Value] = [{Plain("a key", Place(node, frame.file)): None}]
    if isinstance(node, ast.Dict):
        found += [flow.value(key, frame) for key in node.keys if isinstance(key, _OBJECTS)]
        copied = [v for k, v in zip(node.keys, node.values, strict=True) if k is None]
        found += [_iterated(flow, value, frame) for value in copied]
    elif isinstance(node, ast.DictComp):
        found.append(flow.value(node.key, frame))
    elif isinstance(node, ast.Call) and box.kind in ("dict call", "default dict"):
        for argument in node.args:
            for atom, way in flow.value(argument, frame).items():
                if isinstance(atom, Box) and atom.kind in DICTS:
                    found.append(prefixed(way, keys(flow, atom)))
                elif isinstance(atom, Box):
                    pairs = prefixed(way, contents(flow, atom))
                    found.append(component(flow, pairs, 0, Place(node, frame.file)))
    for addition in flow.additions(box):
        target = addition.node.target if isinstance(addition.node, Binding) else None
        if isinstance(target, ast.Subscript) and isinstance(target.slice, _OBJECTS):
            found.append(flow.value(target.slice, flow.frame(addition.file)))
    return union(found)


def component(flow: Evaluation, value: Value, part: Part, place: Place) -> Value:
    """Return what unpacking or matching gives one target: a position, "*" for the rest, a key."""
    found: list[Value] = []
    if isinstance(part, Taken):
        return records.taken(flow, value, part, place)
    for atom, way in value.items():
        if isinstance(atom, Instance) and (own := records.own_container(flow, atom)):
            found.append(prefixed(way, component(flow, own, part, place)))
        elif not isinstance(atom, Box):
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
                found.append(prefixed(way, at_key(flow, atom, key)))
        elif isinstance(atom, Wrapped | Nested):
            found.append({Plain("a part of a wrapped module", place): None})
        elif isinstance(atom, Instance):
            own = records.own_container(flow, atom)
            own = own if not members.methods(atom.cls, "__getitem__") else {}
            inside = item(flow, own, key, place) if own else {}
            inside = inside or calls.special(flow, atom, "__getitem__", place)
            found.append(prefixed(way, inside))
        elif isinstance(atom, Unknown):
            hint = key.value if isinstance(key, ast.Constant) else ""
            hint = hint if isinstance(hint, str) else ""
            found.append({Unknown(atom.reason, hint=hint or atom.hint, sure=atom.sure): way})
        elif isinstance(atom, Plain):
            found.append({atom: way})
        elif isinstance(atom, Outside) and atom.name == "sys.modules":
            found.append({Unknown("it is looked up by name, in `sys.modules`", sure=True): None})
        elif not isinstance(atom, Nothing):
            found.append({Plain("an item of something outside", place): None})
    return union(found)


def constant(key: ast.expr) -> object:
    """Return the value of a written-out key, None for one that is worked out."""
    if isinstance(key, ast.UnaryOp) and isinstance(key.op, ast.USub):
        inner = constant(key.operand)
        return -inner if isinstance(inner, int) else None
    return key.value if isinstance(key, ast.Constant) else None


def at_key(flow: Evaluation, box: Box, key: ast.expr) -> Value:
    """Return what is under a key or at an index."""
    known = constant(key)
    if box.kind in DICTS:
        return dict_values(flow, box, known)
    if isinstance(known, int) and not isinstance(known, bool):
        return at_position(flow, box, known)
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
    elif box.kind in ("arguments", "gathered") and isinstance(node, ast.Call):
        starred = any(isinstance(argument, ast.Starred) for argument in node.args)
        if not starred and 0 <= index < len(node.args) and not _keyed_parts(flow, box):
            given = awaited(flow, flow.value(node.args[index], frame))
            return union((given, added(flow, box)))
    elif box.kind == "modules" and isinstance(node, ast.Call) and len(node.args) == 1:
        given = flow.value(node.args[0], frame)
        if index >= 0 and given and all(isinstance(atom, Box) for atom in given):
            inside = component(flow, given, index, Place(node, frame.file))
            return union((inside, added(flow, box)))
    elif box.kind == "named part" and isinstance(node, ast.Call):
        return part_of(flow, node, frame) if index in (1, -1) else {}
    elif box.kind == "pipe":
        return {Box("pipe end", node, frame): None}
    elif box.kind in ("record", "arguments given", "own record"):
        return records.at_position(flow, box, index)
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
        assert isinstance(node.func, ast.Attribute)
        if index in (0, -2):
            return _iterated(flow, node.func.value, frame)
        return all_values(flow, flow.value(node.func.value, frame))
    return contents(flow, box)


def all_values(flow: Evaluation, value: Value) -> Value:
    """Return the values of dictionaries and the elements of other containers."""
    found: list[Value] = []
    for atom, way in value.items():
        if isinstance(atom, Box):
            inside = dict_values(flow, atom) if atom.kind in DICTS else contents(flow, atom)
            found.append(prefixed(way, inside))
        elif isinstance(atom, Instance):
            own = records.own_container(flow, atom)
            keyed = any("Mapping" in name for cls in atom.cls.ancestors() for name in cls.outside)
            inside = all_values(flow, own) if own else calls.iterated(flow, atom, _at(atom))
            if keyed and not own:
                inside = calls.special(flow, atom, "__getitem__", _at(atom))
            found.append(prefixed(way, inside))
        elif isinstance(atom, Unknown | Plain):
            found.append({atom: way})
    return union(found)


def _at(atom: Instance) -> Place:
    return Place(atom.cls.node, atom.cls.scope.file)


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
        case "store" | "pipe end":
            return {}
        case "named part":
            assert isinstance(node, ast.Call)
            return part_of(flow, node, frame)
        case "parts" | "named parts":
            return _parts(flow, box)
        case "pipe":
            return {Box("pipe end", node, frame): None}
        case "record" | "arguments given" | "own record":
            return records.everything(flow, box)
        case "own list":
            return records.given_to_own(flow, box)
        case "wrapped list":
            return {Wrapped(Place(node, frame.file)): None}
        case "literal" | "tuple" | "rest":
            if isinstance(node, ast.List | ast.Tuple | ast.Set):
                return elements(flow, node.elts, frame)
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
        case "future":
            return calls.run(flow, node, frame)
        case "future of":
            return awaited(flow, flow.value(node.args[0], frame)) if node.args else {}
        case "gathered":
            return awaited(flow, elements(flow, node.args, frame))
        case "last copied":
            return _iterated(flow, node.args[1], frame) if len(node.args) > 1 else {}
        case "keys":
            assert isinstance(node.func, ast.Attribute)
            return _iterated(flow, node.func.value, frame)
        case "copy" | "chain":
            return union([_iterated(flow, argument, frame) for argument in node.args])
        case "flattened":
            inner = _iterated(flow, node.args[0], frame) if node.args else {}
            return iterate(flow, inner, Place(node, frame.file))
        case "arguments" | "modules":
            return _modules(flow, node, frame, listed=box.kind == "modules")
        case "sets":
            assert isinstance(node.func, ast.Attribute)
            sides = (node.func.value, *node.args)
            return union([_iterated(flow, side, frame) for side in sides])
        case "columns":
            rows = elements(flow, node.args, frame)
            return iterate(flow, rows, Place(node, frame.file))
        case "zip" if any(isinstance(argument, ast.Starred) for argument in node.args):
            return {Box("columns", node, frame): None}
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
            return all_values(flow, flow.value(node.func.value, frame))
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
        parts = elements(flow, node.args, frame)
        named: Value = {atom: way for atom, way in parts.items() if is_dict(atom)}
        rest = {atom: way for atom, way in parts.items() if atom not in named}
        return union((rest, all_values(flow, named)))
    found: list[Value] = []
    for argument in node.args:
        value = flow.value(argument, frame)
        boxes: Value = {atom: way for atom, way in value.items() if isinstance(atom, Box)}
        rest = {atom: way for atom, way in value.items() if atom not in boxes}
        found.append(all_values(flow, boxes))
        found.append(rest)
    return union(found)


def _parts(flow: Evaluation, box: Box) -> Value:
    """Return what `children()`, `modules()` and the like of a module give, one by one."""
    node, frame = box.node, box.frame
    assert isinstance(node, ast.Call)
    if box.kind.startswith("named"):
        return {Box("named part", node, frame): None}
    return part_of(flow, node, frame)


def part_of(flow: Evaluation, node: ast.Call, frame: Frame) -> Value:
    """Return what may be one of the parts of the module whose method a call is."""
    assert isinstance(node.func, ast.Attribute)
    found: list[Value] = [{Plain("a part of a module", Place(node, frame.file)): None}]
    for atom, way in flow.value(node.func.value, frame).items():
        itself: Value = {atom: None} if node.func.attr in ("modules", "named_modules") else {}
        if isinstance(atom, Instance):
            found.append(prefixed(way, union((parts.owned(flow, atom.cls), itself))))
        elif isinstance(atom, Wrapped | Nested):
            found.append(prefixed(way, itself))
    return union(found)


def _keyed_parts(flow: Evaluation, box: Box) -> bool:
    """Tell whether an nn.Sequential is made of a dictionary of its parts."""
    assert isinstance(box.node, ast.Call)
    given = [flow.value(argument, box.frame) for argument in box.node.args[:1]]
    return box.kind == "arguments" and any(is_dict(atom) for value in given for atom in value)


def awaited(flow: Evaluation, value: Value) -> Value:
    """Return what `await` gives."""
    found: list[Value] = []
    for atom, way in value.items():
        if isinstance(atom, Box) and atom.kind in ("future", "future of"):
            found.append(prefixed(way, contents(flow, atom)))
        else:
            found.append({atom: way})
    return union(found)


def elements(flow: Evaluation, nodes: list[ast.expr], frame: Frame) -> Value:
    """Return what a written-out container holds, or the arguments of a call."""
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
    if box.kind in ("keywords", "own dict"):
        return records.entries(flow, box, key)
    found: list[Value] = []
    if isinstance(node, ast.Dict):
        for name, entry in zip(node.keys, node.values, strict=True):
            if name is None:
                found.append(all_values(flow, flow.value(entry, frame)))
            elif key is None or constant(name) in (None, key):
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
            found.append(all_values(flow, flow.value(keyword.value, frame)))
        elif key is None or keyword.arg == key:
            found.append(flow.value(keyword.value, frame))
    arguments = node.args
    if box.kind == "default dict" and arguments:
        found.append(declared.factory_made(flow, arguments[0], node, frame))
        arguments = arguments[1:]
    for argument in arguments:
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


def is_dict(atom: Atom) -> bool:
    """Tell whether something is a container with keys."""
    return isinstance(atom, Box) and atom.kind in DICTS
