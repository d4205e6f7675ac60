"""What a name means across files: its definition, what binds it where, who calls a function."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import lru_cache

from porttool.frozen import dataclass
from porttool.source.nodes import KEPT, nodes_of
from porttool.source.scopes import (
    Function,
    bound_names,
    local_names,
    own_nodes,
    parameters,
)
from porttool.source.syntax import Names, Source, parents

Sources = Mapping[str, Source]
_MAX_IMPORTS = 6  # re-exports that are followed


@dataclass(frozen=True)
class Definition:
    """A top-level statement that gives a name its only meaning in a file."""

    source: Source
    node: ast.stmt


@dataclass(frozen=True)
class Call:
    """A call of a function of interest, and the file it stands in."""

    source: Source
    node: ast.Call


def module_path(sources: Sources, importer: str, dotted: str, level: int = 0) -> str | None:
    """Return the file that an import loads; None where none or several files could be meant."""
    parts = [part for part in dotted.split(".") if part]
    folder = importer.split("/")[:-1]
    if level:
        base = folder[: len(folder) - (level - 1)]
        found = _existing(sources, [*base, *parts])
        return found[0] if found else None
    if not parts:
        return None
    beside = _existing(sources, [*folder, *parts])
    if beside:
        return beside[0]
    ends = ("/".join(parts) + ".py", "/".join([*parts, "__init__.py"]))
    matches = [
        path for path in sources if path in ends or path.endswith(tuple("/" + e for e in ends))
    ]
    return matches[0] if len(matches) == 1 else None


def _existing(sources: Sources, parts: list[str]) -> list[str]:
    return [
        path
        for path in ("/".join(parts) + ".py", "/".join([*parts, "__init__.py"]))
        if path in sources
    ]


def definition(sources: Sources, source: Source, expression: ast.expr) -> Definition | None:
    """Return the top-level definition that a name or a dotted name leads to, imports followed.

    The caller has made sure that no function around the expression binds the name itself.
    """
    words: list[str] = []
    while isinstance(expression, ast.Attribute):
        words.insert(0, expression.attr)
        expression = expression.value
    if not isinstance(expression, ast.Name):
        return None
    return _defined(sources, source, [expression.id, *words], _MAX_IMPORTS)


def _defined(sources: Sources, source: Source, words: list[str], left: int) -> Definition | None:
    """Follow `words` from the top of a file."""
    first, *rest = words
    found = top_level_binding(source, first)
    if found is None or not left:
        return None
    if not isinstance(found, ast.Import | ast.ImportFrom):
        return None if rest else Definition(source, found)
    for path, tail in _imported(sources, source.path, found, first):
        words = [*tail, *rest]
        if words:
            return _defined(sources, sources[path], words, left - 1)
    if isinstance(found, ast.Import) and rest:
        # `import package.module` binds `package`: the module is among the words that follow.
        dotted = [alias.name for alias in found.names if not alias.asname]
        for name in dotted:
            parts = name.split(".")
            if words[: len(parts)] == parts and len(words) > len(parts):
                home = module_path(sources, source.path, name)
                if home is not None:
                    return _defined(sources, sources[home], words[len(parts) :], left - 1)
    return None


def _imported(
    sources: Sources, importer: str, statement: ast.Import | ast.ImportFrom, name: str
) -> Iterator[tuple[str, list[str]]]:
    """Yield (file, words to follow in it) for what an import binds to `name`."""
    for alias in statement.names:
        if (alias.asname or alias.name.partition(".")[0]) != name:
            continue
        if isinstance(statement, ast.Import):
            if alias.asname or "." not in alias.name:
                path = module_path(sources, importer, alias.name)
                if path is not None:
                    yield path, []
            continue
        module = statement.module or ""
        below = module_path(
            sources, importer, f"{module}.{alias.name}" if module else alias.name, statement.level
        )
        if below is not None:
            yield below, []
        else:
            home = module_path(sources, importer, module, statement.level)
            if home is not None:
                yield home, [alias.name]


def top_level_binding(source: Source, name: str) -> ast.stmt | None:
    """Return the one statement at the top of a file that binds a name, guards and `with` included.

    None where several do, or a function by `global`: what the name means then depends on what runs.
    """
    bindings, changed = _top_level_bindings(source.tree)
    found = bindings.get(name, ())
    return found[0] if len(found) == 1 and name not in changed else None


def top_level_names(source: Source) -> list[str]:
    """Return the names that a file binds at its top, in the order of their first bindings."""
    return list(_top_level_bindings(source.tree)[0])


@lru_cache(maxsize=KEPT)
def _top_level_bindings(tree: ast.Module) -> tuple[dict[str, list[ast.stmt]], set[str]]:
    """Return the statements that bind each name, and the names that a function binds anew.

    A file is asked for all its names, and each answer would take a walk through the whole of it.
    """
    bindings: dict[str, list[ast.stmt]] = {}
    for node in module_statements(tree):
        for name in sorted(bound_names([node])):
            bindings.setdefault(name, []).append(node)
    changed = {
        name for node in nodes_of(tree) if isinstance(node, ast.Global) for name in node.names
    }
    return bindings, changed


def module_statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements that run as a file is loaded, those in `if`, `with` and `try` too."""
    yield from _flat(tree.body)


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if isinstance(statement, ast.If | ast.With | ast.Try):
            for name in ("body", "orelse", "finalbody"):
                yield from _flat(getattr(statement, name, []))
            for handler in getattr(statement, "handlers", []):
                yield from _flat(handler.body)
        else:
            yield statement


def straight_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a block that run whenever it does: those in a `with` too."""
    for statement in body:
        if isinstance(statement, ast.With | ast.AsyncWith):
            yield from straight_statements(statement.body)
        else:
            yield statement


def functions_around(source: Source, node: ast.AST) -> list[Function]:
    """Return the functions whose bodies a node stands in, innermost first.

    Decorators, defaults and annotations run outside of their function.
    """
    above = parents(source.tree)
    found: list[Function] = []
    here = node
    while here in above:
        inside, here = here, above[here]
        if isinstance(here, Function) and inside in here.body:
            found.append(here)
    return found


def class_around(source: Source, function: Function) -> ast.ClassDef | None:
    """Return the class that a function is a method of."""
    owner = parents(source.tree).get(function)
    return owner if isinstance(owner, ast.ClassDef) else None


def binding_function(source: Source, name: str, at: ast.AST) -> Function | None:
    """Return the innermost function around a node that binds a name; None: the file, if any."""
    for function in functions_around(source, at):
        names, declared = _names_in(function)
        if name in names:
            return None if name in declared else function
    return None


@lru_cache(maxsize=KEPT)
def _names_in(function: Function) -> tuple[set[str], set[str]]:
    """Return the names that a function binds, and those that it declares global."""
    declared = {
        name
        for node in own_nodes(function.body)
        if isinstance(node, ast.Global)
        for name in node.names
    }
    return local_names(function), declared


def qualified(source: Source, expression: ast.expr) -> str:
    """Return the dotted origin of an expression as its file imports it, "" where nothing tells."""
    return Names(source.tree).qualified(expression) or ""


def class_named(sources: Sources, source: Source, annotation: ast.expr) -> Definition | None:
    """Return the class that an annotation names; `"Config"`, `Config | None` and `Optional` too."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            annotation = ast.parse(annotation.value, mode="eval").body
        except SyntaxError:
            return None
    if isinstance(annotation, ast.Name | ast.Attribute):
        found = definition(sources, source, annotation)
        return found if found and isinstance(found.node, ast.ClassDef) else None
    return None


def calls_of(sources: Sources, source: Source, function: Function) -> list[Call]:
    """Return the calls of a function: those in its own file, and through an import elsewhere.

    A method's are all calls of an attribute of that name; a constructor's those of its class.
    """
    owner = class_around(source, function)
    name = owner.name if owner is not None and function.name == "__init__" else function.name
    method = owner is not None and function.name != "__init__"
    found: list[Call] = []
    for path in sources:
        other = sources[path]
        if name not in other.text:
            continue
        for node in nodes_of(other.tree):
            if not isinstance(node, ast.Call):
                continue
            if method:
                if isinstance(node.func, ast.Attribute) and node.func.attr == name:
                    found.append(Call(other, node))
                continue
            root = node.func
            while isinstance(root, ast.Attribute):
                root = root.value
            if not isinstance(root, ast.Name) or binding_function(other, root.id, node):
                continue
            meant = definition(sources, other, node.func)
            wanted = owner if owner is not None else function
            if meant is not None and meant.node is wanted:
                found.append(Call(other, node))
    return found


def argument_for(call: ast.Call, function: Function, name: str, *, bound: bool) -> ast.expr | None:
    """Return what a call gives for a parameter; None where it gives nothing or cannot be told.

    `bound` says that the first parameter is the object itself.
    """
    for word in call.keywords:
        if word.arg == name:
            return word.value
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        return None
    positional = [*function.args.posonlyargs, *function.args.args][1 if bound else 0 :]
    for index, argument in enumerate(positional):
        if argument.arg == name and index < len(call.args):
            return call.args[index]
    return None


def returned(function: Function) -> list[ast.expr | None]:
    """Return what a function gives back, return by return; nothing for a generator."""
    nodes = list(own_nodes(function.body))
    if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in nodes):
        return []
    return [node.value for node in nodes if isinstance(node, ast.Return)]


def is_parameter(function: Function, name: str) -> bool:
    """Tell whether a name is a parameter that the body never binds again."""
    given = any(argument.arg == name for argument in parameters(function))
    return given and name not in bound_names(function.body)


def simple_assignment(
    statement: ast.stmt,
) -> tuple[ast.expr | None, ast.expr | None, ast.expr | None]:
    """Return target, value and annotation of an assignment to one target."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        return statement.targets[0], statement.value, None
    if isinstance(statement, ast.AnnAssign):
        return statement.target, statement.value, statement.annotation
    return None, None, None
