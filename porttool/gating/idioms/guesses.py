"""What settings seem to be when nothing tells: by their names, and by what is read from them."""

from __future__ import annotations

import ast
import re

from porttool.gating.idioms.bindings import reads_of
from porttool.gating.idioms.lookup import Sources, argument_for, calls_of, class_around
from porttool.gating.idioms.origins import USUAL_NAMES, Opaque, Settings, of_parser
from porttool.gating.idioms.parsers import known_dests, parsers_in
from porttool.source.nodes import nodes_of, walk
from porttool.source.scopes import Function
from porttool.source.syntax import Source

_OF_OPTIMIZERS = {"step", "zero_grad", "param_groups", "state_dict", "load_state_dict", "state"}
# Names that hold settings now and then only: taken for them where they are read like settings.
LOOSE_NAMES = ("opt", "options", "hparams", "flags", "hp", "hps", "arguments")
_OF_PARSERS = ("args", "opt", "opts", "options", "flags", "arguments", "hparams", "config", "cfg")
_OF_MAPPINGS = ("get", "items", "keys", "values", "setdefault", "pop", "update", "copy")
_ROWS = re.compile(
    r"(typing\.|t\.|collections\.abc\.)?(tuple|list|set|frozenset|"
    r"Tuple|List|Set|FrozenSet|Sequence|Iterable|Iterator|Collection)\b"
)


def guessed(
    sources: Sources, source: Source, function: Function, argument: ast.arg
) -> Settings | Opaque | None:
    """Say what a parameter of a usual name is when nobody tells: by what is read from it."""
    name = argument.arg
    if name not in (*USUAL_NAMES, *LOOSE_NAMES):
        return None
    if argument in (function.args.vararg, function.args.kwarg):
        return None
    attributes, items = reads_of(function, name)
    if not attributes and not items and _is_sequence(function, argument):
        return None
    if name in LOOSE_NAMES and not attributes and not items:
        return None
    if name == "opt" and attributes & _OF_OPTIMIZERS:
        return None  # an optimizer is called `opt` as often as options are
    if argument.annotation is not None and ast.unparse(argument.annotation) not in (
        "argparse.Namespace",
        "Namespace",
        "Any",
    ):
        return Opaque(f"what `{name}: {ast.unparse(argument.annotation)}` can hold is not known")
    bound = class_around(source, function) is not None
    given = [
        argument_for(call.node, function, name, bound=bound)
        for call in calls_of(sources, source, function)
    ]
    if not given and name in _OF_PARSERS and not items:
        parsers = parsers_in(sources, source)
        if len(parsers) == 1:
            dests = known_dests(sources, parsers[0])
            if dests is not None and attributes <= dests:
                return of_parser(parsers[0])
    if items and not given and attributes <= {"get", "items", "keys", "values", "setdefault"}:
        return Settings("dict", "get", None)
    return Opaque(f"nothing tells what `{name}` holds, so it may be anything")


def _is_sequence(function: Function, argument: ast.arg) -> bool:
    """Tell whether a parameter holds arguments in a row, and no settings."""
    if argument.annotation is not None and _ROWS.match(ast.unparse(argument.annotation)):
        return True
    for node in walk(function):
        if isinstance(node, ast.Starred | ast.Subscript | ast.For | ast.comprehension):
            value = node.iter if isinstance(node, ast.For | ast.comprehension) else node.value
            if isinstance(value, ast.Name) and value.id == argument.arg:
                return True
    return False


def is_row(function: Function, name: str, statement: ast.stmt | None) -> bool:
    """Tell whether a local takes over a function's `*name`, or is a list or tuple as written."""
    rest = (function.args.vararg, function.args.kwarg)
    value = getattr(statement, "value", None)
    made = isinstance(value, ast.Tuple | ast.List | ast.ListComp | ast.GeneratorExp)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        made = value.func.id in ("tuple", "list", "sorted", "map", "zip", "filter")
    return made or any(one is not None and one.arg == name for one in rest)


def uses_of(source: Source, text: str) -> set[str]:
    """Return how a file reads an expression: its attributes, or its items by their names."""
    ways: set[str] = set()
    for node in nodes_of(source.tree):
        if not isinstance(node, ast.Attribute | ast.Subscript):
            continue
        if isinstance(node.value, ast.Name | ast.Attribute) and ast.unparse(node.value) == text:
            if isinstance(node, ast.Subscript):
                named = isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
                ways.add("item" if named else "other")
            elif node.attr not in _OF_MAPPINGS:
                ways.add("attribute")
            elif node.attr == "get":
                ways.add("item")
    return ways
