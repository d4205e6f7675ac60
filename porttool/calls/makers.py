"""Functions that give back an object that is compiled already, here or in an imported file."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from porttool.calls.conditions import gate_of
from porttool.calls.find import find_sites
from porttool.calls.flow import loads, result_of, wrapped_variable
from porttool.calls.kinds import class_definition
from porttool.calls.neighbours import module_source
from porttool.calls.runtime import pieces_in
from porttool.calls.values import Site
from porttool.calls.view import (
    FUNCTIONS,
    View,
    class_of,
    function_of,
    is_after,
    origin,
    scope_of,
    spelled,
    uses,
    view,
)
from porttool.source.nodes import walk
from porttool.source.scopes import Function


def given_compiled(here: View, site: Site, sites: Sequence[Site]) -> bool:
    """Tell whether what a site wraps comes from a function that compiles what it gives back."""
    if site.kind not in ("call", "optimize") or site.target is None:
        return False
    values = [site.target]
    raw = wrapped_variable(site)
    for store in uses(here, raw) if raw is not None else ():
        holder = here.above[store]
        if (
            isinstance(holder, ast.Assign)
            and store in holder.targets
            and is_after(site.whole, holder)
            and scope_of(here, holder) is scope_of(here, site.whole)
        ):
            values = [holder.value]  # the last one in front of the site
    return any(
        isinstance(value, ast.Call)
        and (
            _compiles(here, value.func, site, sites)
            or _compiles_itself(here, value.func, site, sites)
        )
        for value in values
    )


def _compiles_itself(here: View, named: ast.expr, site: Site, sites: Sequence[Site]) -> bool:
    """Tell whether a class compiles its objects when they are made: `self.compile()`."""
    found = class_definition(here, named)
    if found is None:
        return False
    there, definition = found
    others = sites if there.source is here.source else find_sites(there)[0]
    pieces = pieces_in(there.source.tree)
    for node in walk(definition):
        if (
            isinstance(node, ast.Call)
            and spelled(node.func) in pieces
            and list(map(spelled, node.args)) == ["self"]
            and getattr(function_of(there, node), "name", "") == "__init__"
        ):
            return True  # gated before
    return any(
        one is not site
        and one.kind == "method"
        and (one.target is None or spelled(one.target) == "self")
        and class_of(there, one.whole) is definition
        and getattr(function_of(there, one.whole), "name", "") == "__init__"
        and gate_of(there, one) is None
        for one in others
    )


def _compiles(here: View, named: ast.expr, site: Site, sites: Sequence[Site]) -> bool:
    for function in functions_named(here, named):
        others = [one for one in sites if one is not site]
        if function in here.above and any(_gives(here, one, function) for one in others):
            return True
    meant = origin(here, named) if isinstance(named, ast.Name | ast.Attribute) else None
    return meant is not None and any(_compiles_there(*one) for one in _imported(here, meant))


def functions_named(here: View, named: ast.expr) -> Iterator[Function]:
    """Yield the file's own functions, and methods of `self`, that a callee may mean."""
    method = isinstance(named, ast.Attribute) and spelled(named.value) == "self"
    word = named.attr if isinstance(named, ast.Attribute) and method else getattr(named, "id", "")
    for node in here.nodes:
        if (
            isinstance(node, FUNCTIONS)
            and node.name == word
            and isinstance(here.above[node], ast.ClassDef) is method
        ):
            yield node


def _gives(here: View, site: Site, function: Function) -> bool:
    """Tell whether a function gives back what a site in it makes."""
    if site.kind not in ("call", "optimize") or function_of(here, site.whole) is not function:
        return False
    result = result_of(here, site)
    return isinstance(here.above[result.top], ast.Return) or any(
        isinstance(here.above[use], ast.Return) for use in loads(here, result.targets)
    )


def _compiles_there(there: View, function: Function) -> bool:
    """Tell whether a function of another file does, behind no switch of its own."""
    sites, _ = find_sites(there)
    if any(_gives(there, one, function) and gate_of(there, one) is None for one in sites):
        return True
    pieces = pieces_in(there.source.tree)
    return any(
        isinstance(node, ast.Return)
        and isinstance(node.value, ast.Call)
        and spelled(node.value.func) in pieces
        for node in walk(function)
    )


def _imported(here: View, meant: str) -> Iterator[tuple[View, Function]]:
    """Yield the function that an import leads to, where its file is among those that are known."""
    module, _, name = meant.rpartition(".")
    source = module_source(here, module) if module else None
    if source is None:
        return
    for statement in source.tree.body:
        if isinstance(statement, FUNCTIONS) and statement.name == name:
            yield view(source, here.files), statement
