"""What a condition comes to where nobody sets anything, as far as the files show it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from porttool.calls.arguments import arguments, default_of
from porttool.calls.view import FUNCTIONS, View, origin, scope_of
from porttool.source.nodes import nodes_of
from porttool.source.syntax import Source


class Unknown(Exception):
    """The value of an expression cannot be seen."""


_COMPARE: dict[type[ast.cmpop], Any] = {
    ast.Eq: lambda left, right: left == right,
    ast.NotEq: lambda left, right: left != right,
    ast.Is: lambda left, right: left is right,
    ast.IsNot: lambda left, right: left is not right,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}


def default_truth(here: View, test: ast.expr) -> bool | None:
    """Return whether a test holds with every setting at its default; None where unseen."""
    try:
        return bool(_value(here, test))
    except (Unknown, TypeError):
        return None


def _value(here: View, node: ast.expr) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return [_value(here, one) for one in node.elts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not _value(here, node.operand)
    if isinstance(node, ast.BoolOp):
        values = [_value(here, one) for one in node.values]
        return all(values) if isinstance(node.op, ast.And) else any(values)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARE:
        if _is_environ(here, node.comparators[0]) and isinstance(node.ops[0], ast.In):
            return False
        left, right = _value(here, node.left), _value(here, node.comparators[0])
        return _COMPARE[type(node.ops[0])](left, right)
    if isinstance(node, ast.Call):
        return _call(here, node)
    if isinstance(node, ast.Name):
        return _only([*_named(here, node.id, node)])
    if isinstance(node, ast.Attribute):
        return _only([*_fields(here, node.attr)])
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return _only([*_fields(here, str(node.slice.value))])
    raise Unknown


def _only(found: list[Any]) -> Any:
    if not found or any(one != found[0] for one in found):
        raise Unknown
    return found[0]


def _is_environ(here: View, node: ast.expr) -> bool:
    return origin(here, node) == "os.environ"


def _call(here: View, call: ast.Call) -> Any:
    """Return what a reading call gives where the key is missing, or its conversion."""
    name = origin(here, call.func) or ""
    if name in ("os.getenv", "os.environ.get"):
        return _value(here, call.args[1]) if len(call.args) > 1 else None
    if isinstance(call.func, ast.Attribute):
        if call.func.attr == "lower" and not call.args:
            return str(_value(here, call.func.value)).lower()
        if (
            call.func.attr in ("get", "pop")
            and call.args
            and isinstance(call.args[0], ast.Constant)
        ):
            found = [*_fields(here, str(call.args[0].value))]
            return _only(found) if found else _fallback(here, call.args[1:])
    if isinstance(call.func, ast.Name) and call.func.id in ("bool", "int") and len(call.args) == 1:
        value = _value(here, call.args[0])
        try:
            return bool(value) if call.func.id == "bool" else int(value)
        except ValueError:
            raise Unknown from None
    if (
        isinstance(call.func, ast.Name)
        and call.func.id == "getattr"
        and len(call.args) > 1
        and isinstance(call.args[1], ast.Constant)
    ):
        found = [*_fields(here, str(call.args[1].value))]
        return _only(found) if found else _fallback(here, call.args[2:])
    raise Unknown


def _fallback(here: View, rest: list[ast.expr]) -> Any:
    return _value(here, rest[0]) if rest else None


def _named(here: View, name: str, at: ast.AST) -> Iterator[Any]:
    """Yield the values that a plain name has at first: constants, parameters' defaults."""
    home = here.names.binding(name, at)
    if home is None:
        raise Unknown
    for node in here.nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if (
                    isinstance(target, ast.Name)
                    and target.id == name
                    and scope_of(here, node) is home[0]
                ):
                    yield _value(here, node.value)
    function = home[0]
    if not isinstance(function, FUNCTIONS):
        return
    # What another file hands over, a test say, is no default of this one.
    named = at if isinstance(at, ast.Name) else None
    given = [one for there, one in arguments(here, named) if there is here] if named else []
    if default := default_of(function, name):
        given.append(default)
    values = [_value(here, one) for one in given]
    yield from [True] if True in values else values


def _fields(here: View, name: str) -> Iterator[Any]:
    """Yield the defaults of settings of a name, in this file and those that it may import."""
    for source in {here.source.path: here.source, **_loaded(here)}.values():
        yield from _fields_of(here, source, name)


def _loaded(here: View) -> dict[str, Source]:
    """Return the files that this one imports from."""
    found = {}
    for node in here.nodes:
        if isinstance(node, ast.ImportFrom) and node.module and "*" not in node.module:
            tail = node.module.replace(".", "/")
            for path in (f"{tail}.py", f"{tail}/__init__.py"):
                for folder in ("", "src/", here.source.path.rpartition("/")[0] + "/"):
                    source = here.files.get(folder.lstrip("/") + path)
                    if source is not None:
                        found[source.path] = source
    return found


def _fields_of(here: View, source: Source, name: str) -> Iterator[Any]:
    for node in nodes_of(source.tree):
        if isinstance(node, ast.ClassDef):
            for statement in node.body:
                if (
                    isinstance(statement, ast.Assign | ast.AnnAssign)
                    and statement.value is not None
                ):
                    targets = (
                        statement.targets
                        if isinstance(statement, ast.Assign)
                        else [statement.target]
                    )
                    if any(isinstance(one, ast.Name) and one.id == name for one in targets):
                        yield from _constant(statement.value)
        elif isinstance(node, ast.Call):
            yield from _option(node, name)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == name:
                    yield from _constant(value)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Attribute) and target.attr == name:
                if isinstance(node.value, ast.Name) and source is here.source:
                    yield from _stored(here, node.value)
                yield from _constant(node.value)


def _stored(here: View, name: ast.Name) -> Iterator[Any]:
    """Yield what is stored under a setting's name: `self.fast = fast`."""
    try:
        yield _value(here, name)
    except Unknown:
        return


def _constant(value: ast.expr) -> Iterator[Any]:
    if isinstance(value, ast.Constant):
        yield value.value
    elif isinstance(value, ast.Call):
        default = next((word.value for word in value.keywords if word.arg == "default"), None)
        first = default or (value.args[0] if value.args else None)
        if isinstance(first, ast.Constant):
            yield first.value


def _option(call: ast.Call, name: str) -> Iterator[Any]:
    """Yield the default of a command-line option that is stored under a name."""
    called = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    flags = [
        one.value
        for one in call.args
        if isinstance(one, ast.Constant) and isinstance(one.value, str)
    ]
    words = {word.arg: word.value for word in call.keywords}
    if called in ("DEFINE_boolean", "DEFINE_bool"):
        if flags[:1] == [name] and len(call.args) > 1:
            yield from _constant(call.args[1])
        return
    if called not in ("add_argument", "option"):
        return
    dest = words.get("dest")
    stored = (
        {dest.value}
        if isinstance(dest, ast.Constant)
        else {part.lstrip("-").replace("-", "_") for flag in flags for part in flag.split("/")[:1]}
    )
    if name not in stored:
        return
    if "default" in words:
        yield from _constant(words["default"])
        return
    action = words.get("action")
    kind = action.value if isinstance(action, ast.Constant) else ""
    if kind in ("store_true", "store_false"):
        yield kind == "store_false"
    elif action is not None or not words.get("required"):
        yield None
