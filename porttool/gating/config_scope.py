"""How a place in the code spells the configuration that holds the switch.

Only what is annotated as the root class, built by it, or assigned from such a thing counts. Two
different objects that qualify, or none, are for a person to decide.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping

from porttool.frozen import dataclass
from porttool.plan.switch import SwitchPlan
from porttool.source.nodes import walk
from porttool.source.scopes import Function, bound_names, own_nodes, parameters
from porttool.source.syntax import Names, Source, parents

_USUAL_NAMES = ("config", "cfg", "conf", "args", "settings", "options", "opts", "hparams", "params")


@dataclass(frozen=True)
class Spelling:
    """An expression that is the configuration; equal origins are the same object."""

    text: str
    origin: str
    from_line: int  # it holds from the statement on this line


@dataclass(frozen=True)
class _File:
    source: Source
    switch: SwitchPlan
    names: Names


@dataclass(frozen=True)
class Unclear:
    """Why no single expression can be named."""

    reasons: tuple[str, ...]


def config_expression(source: Source, scope: ast.AST, switch: SwitchPlan) -> str | Unclear:
    """Return how the config is written inside `scope`, a function of `source`."""
    found = config_spellings(source, scope, switch)
    origins = {spelling.origin for spelling in found}
    if len(origins) == 1:
        return found[0].text
    if found:
        names = ", ".join(f"`{spelling.text}`" for spelling in found)
        return Unclear((f"several objects are a {switch.root} here: {names}",))
    loose = [
        argument.arg
        for function in _functions_around(scope, parents(source.tree))
        for argument in parameters(function)
        if argument.arg in _USUAL_NAMES
    ]
    named = ", ".join(f"`{name}`" for name in dict.fromkeys(loose))
    if len(set(loose)) > 1:
        return Unclear((f"{named} could each hold the switch; none is known to be {switch.root}",))
    if loose:
        return Unclear((f"{named} is not annotated as {switch.root}, so it may be anything",))
    return Unclear((f"nothing in scope is known to be a {switch.root}",))


def config_spellings(source: Source, scope: ast.AST, switch: SwitchPlan) -> tuple[Spelling, ...]:
    """Return every expression known to be the config in a scope, the nearest first."""
    above = parents(source.tree)
    file = _File(source, switch, Names(source.tree))
    found: list[Spelling] = []
    hidden: set[str] = set()
    for function in _functions_around(scope, above):
        for spelling in _in_function(file, function):
            if spelling.text not in hidden:
                found.append(spelling)
        hidden |= {argument.arg for argument in parameters(function)} | bound_names(function.body)
        owner = above.get(function)
        if isinstance(owner, ast.ClassDef):
            first = parameters(function)[0].arg if parameters(function) else None
            if first is not None and not _is_static(function):
                found += _attributes(file, owner, function, first)
    for statement in source.tree.body:
        if isinstance(statement, ast.AnnAssign) and _is_root(file, statement.annotation):
            text = ast.unparse(statement.target)
            if text not in hidden and text.isidentifier():
                found.append(Spelling(text, f"module.{text}", 0))
    return tuple(found)


def _functions_around(scope: ast.AST, above: Mapping[ast.AST, ast.AST]) -> Iterator[Function]:
    here: ast.AST | None = scope
    while here is not None:
        if isinstance(here, ast.FunctionDef | ast.AsyncFunctionDef):
            yield here
        here = above.get(here)


def _is_static(function: Function) -> bool:
    return any(
        isinstance(decorator, ast.Name) and decorator.id in ("staticmethod", "classmethod")
        for decorator in function.decorator_list
    )


def _in_function(file: _File, function: Function) -> Iterator[Spelling]:
    """Yield parameters and single assignments of a function that are the config."""
    rebound = bound_names(function.body)
    for argument in parameters(function):
        if (
            argument.annotation is not None
            and argument.arg not in rebound
            and argument not in (function.args.vararg, function.args.kwarg)
            and _is_root(file, argument.annotation)
        ):
            yield Spelling(argument.arg, f"{function.name}:{argument.arg}", function.lineno)
    for statement in function.body:
        target, value, annotation = _assignment(statement)
        if not isinstance(target, ast.Name):
            continue
        built = isinstance(value, ast.Call) and _is_root(file, value.func)
        known = built or (annotation is not None and _is_root(file, annotation))
        if known and _num_stores(function, target.id) == 1:
            yield Spelling(target.id, f"{function.name}:{target.id}", statement.lineno)


def _assignment(
    statement: ast.AST,
) -> tuple[ast.expr | None, ast.expr | None, ast.expr | None]:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        return statement.targets[0], statement.value, None
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        return statement.target, statement.value, statement.annotation
    return None, None, None


def _num_stores(function: Function, name: str) -> int:
    arguments = sum(argument.arg == name for argument in parameters(function))
    stores = sum(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store | ast.Del)
        for node in own_nodes(function.body)
    )
    return arguments + stores


def _attributes(file: _File, owner: ast.ClassDef, here: Function, self_name: str) -> list[Spelling]:
    """Return `self.X` for every attribute whose every assignment in the class is the config."""
    found: dict[str, Spelling] = {}
    for statement in owner.body:
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and _is_root(file, statement.annotation)
        ):
            name = statement.target.id
            found[name] = Spelling(f"{self_name}.{name}", f"{owner.name}.{name}", 0)
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if statement is not here and statement.name not in ("__init__", "__post_init__"):
            continue  # nobody knows whether it has run
        inside = {spelling.text: spelling.origin for spelling in _in_function(file, statement)}
        own = parameters(statement)[0].arg if parameters(statement) else ""
        for node in statement.body:
            target, value, annotation = _assignment(node)
            if not isinstance(target, ast.Attribute) or ast.unparse(target.value) != own:
                continue
            known = annotation is not None and _is_root(file, annotation)
            origin = f"{owner.name}.{target.attr}" if known else None
            if isinstance(value, ast.Name):
                origin = inside.get(value.id, origin)
            if origin is not None:
                # Outside the constructor the attribute is there from the start.
                line = target.lineno if statement is here else 0
                found[target.attr] = Spelling(f"{self_name}.{target.attr}", origin, line)
    num_stores = Counter(
        node.attr
        for statement in (owner.body if found else ())
        if isinstance(statement, Function)
        for node in walk(statement)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del)
    )
    return [spelling for name, spelling in found.items() if num_stores[name] <= 1]


def _is_root(file: _File, annotation: ast.expr) -> bool:
    """Tell whether an annotation, or a callee, is the switch's root class."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            annotation = ast.parse(annotation.value, mode="eval").body
        except SyntaxError:
            return False
        origin = file.names.qualified(annotation, file.source.tree)
    else:
        origin = file.names.qualified(annotation)
    if file.source.path == file.switch.module:
        return isinstance(annotation, ast.Name) and annotation.id == file.switch.root
    if origin is None or origin.split(".")[-1] != file.switch.root:
        return False
    written = [part for part in origin.split(".")[:-1] if part]
    path = file.switch.module.removesuffix(".py").removesuffix("/__init__").split("/")
    # Either the module itself, or a package around it that hands the class on.
    return any(path[: len(path) - cut][-len(written) :] == written for cut in range(len(path))) or (
        not written and origin.startswith(".")
    )
