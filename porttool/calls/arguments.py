"""What a parameter is given where its function is called, in its file and in those around it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from porttool.calls.neighbours import files_around
from porttool.calls.view import FUNCTIONS, View, spelled, variable_scope, view
from porttool.source.scopes import Function


def arguments(here: View, name: ast.Name) -> Iterator[tuple[View, ast.expr]]:
    """Yield each argument for a parameter with its file; its default for a call that has none."""
    function = variable_scope(here, name)
    if not isinstance(function, FUNCTIONS):
        return
    names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    holder, called = here.above[function], function.name
    if isinstance(holder, ast.ClassDef):
        names = names if "staticmethod" in map(spelled, function.decorator_list) else names[1:]
        called = holder.name if called == "__init__" else called
    default = default_of(function, name.id)
    for source in {here.source.path: here.source, **here.files}.values():
        there = here if source is here.source else view(source, files_around(here, source))
        for node in there.nodes:
            if not isinstance(node, ast.Call) or _last_word(node.func) != called:
                continue
            given = next((word.value for word in node.keywords if word.arg == name.id), None)
            if given is None and name.id in names[: len(node.args)]:
                given = node.args[names.index(name.id)]
            if given is not None:
                yield there, given
            elif default is not None:
                yield here, default


def default_of(function: Function, name: str) -> ast.expr | None:
    """Return the default of a function's parameter."""
    positional = [*function.args.posonlyargs, *function.args.args]
    defaults = function.args.defaults
    for argument, default in zip(reversed(positional), reversed(defaults), strict=False):
        if argument.arg == name:
            return default
    keyword_only = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    return next((given for argument, given in keyword_only if argument.arg == name), None)


def _last_word(named: ast.expr) -> str:
    return named.attr if isinstance(named, ast.Attribute) else getattr(named, "id", "")
