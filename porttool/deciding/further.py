"""Files that have a say about a port though they name nothing of it: found by what was not found.

Deciding goes looking for definitions and for callers. Where the files at hand do not hold them, and
onto has a file that may, that file is to be read as well, and everything decided once more.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from porttool.deciding.dataflow import Flow
from porttool.deciding.dataflow.fileindex import FileIndex, Scope, parameters
from porttool.deciding.dataflow.project import imported, is_root
from porttool.deciding.dataflow.values import Outside, Place, Plain, Unknown, steps_of

_EVERYWHERE = ("src", "lib", "python", "__init__")


class Listing:
    """All Python files of a tree, found by the names under which they may be imported."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._by_tail: dict[str, list[tuple[list[str], str]]] = defaultdict(list)
        for path in paths:
            parts = path.removesuffix(".py").split("/")
            if parts[-1] == "__init__" and len(parts) > 1:
                parts.pop()
            self._by_tail[parts[-1]].append((parts, path))

    def modules(self, dotted: str, importer: str) -> Iterator[str]:
        """Yield the files that a dotted name may come from, its packages among them."""
        names = dotted.split(".")
        folder = importer.split("/")[:-1]
        for length in range(len(names), 0, -1):
            wanted = names[:length]
            for parts, path in self._by_tail.get(wanted[-1], ()):
                head = parts[: len(parts) - length]
                if parts[-length:] == wanted and is_root(head, folder, wanted):
                    yield path


def further_files(
    flow: Flow,
    listing: Listing,
    naming: Callable[[Iterable[str]], Iterable[str]],
    searched: set[str],
) -> set[str]:
    """Return the files of onto that may change what was decided.

    `naming` returns the files of onto that hold any of some words; `searched` are names for which
    that was done in an earlier round, and is added to.
    """
    project = flow.project
    missed, asked = _trail(flow)
    found = {
        path
        for dotted, importer in missed
        for name, home in _through_stars(flow, dotted, importer, set())
        for path in listing.modules(name, home)
    }
    found |= set(_given_to_strangers(flow, listing))
    names = {scope.name for scope in asked} - searched
    searched |= names
    if names:
        parts = {part for scope in asked for part in _named_with(scope)}
        callers = set(naming(names)) - project.files.keys()
        found |= callers & set(naming(parts)) if callers else set()
    return found - project.files.keys()


def _trail(flow: Flow) -> tuple[dict[tuple[str, str], None], dict[Scope, None]]:
    """Return what the decisions rest on: names that nothing defines, and whose callers count."""
    missed: dict[tuple[str, str], None] = {}
    asked: dict[Scope, None] = {}
    for path, node in flow.judged:
        for atom, way in flow.value(path, node).items():
            if isinstance(atom, Outside):
                missed[atom.name, path] = None
            elif isinstance(atom, Plain) and atom.of is not None:
                missed |= _callee(flow, atom.of)
            elif isinstance(atom, Unknown):
                # A base class may be missing, or who sets the attribute: all that the file imports.
                missed |= {key: None for key in flow.project.missed if key[1] == path}
                asked |= dict.fromkeys(_functions_around(flow, path, node))
            for step in steps_of(way):
                if step.verb == "is given" and isinstance(step.subject, Place):
                    asked |= dict.fromkeys(_function_of(step.subject))
    return missed, asked


def _callee(flow: Flow, place: Place) -> dict[tuple[str, str], None]:
    """Return the dotted name of what made an object, where the files do not define it."""
    if not isinstance(place.node, ast.Call):
        return {}
    atoms = flow.value(place.file.path, place.node.func)
    return {(atom.name, place.file.path): None for atom in atoms if isinstance(atom, Outside)}


def _through_stars(
    flow: Flow, dotted: str, importer: str, seen: set[str]
) -> Iterator[tuple[str, str]]:
    """Yield a dotted name, and those by which packages may take it from other modules with `*`."""
    if dotted in seen:
        return
    seen.add(dotted)
    yield dotted, importer
    package, _, name = dotted.rpartition(".")
    home = flow.project.module(package, flow.project.files[importer]) if package else None
    if home is None:
        return
    for star in home.stars:
        module = flow.project.absolute(star, home)
        yield from _through_stars(flow, f"{module}.{name}", home.path, seen)


def _function_of(parameter: Place) -> Iterator[Scope]:
    file = parameter.file
    scope = file.scopes.get(file.above[file.above[parameter.node]])
    if scope is None or scope.name == "<lambda>":
        return
    owner = scope.owner
    yield owner if owner is not None and scope.name == "__init__" else scope


def _functions_around(flow: Flow, path: str, node: ast.AST) -> Iterator[Scope]:
    """Yield the functions around an expression whose parameters it may be about."""
    file = flow.project.files[path]
    here: ast.AST | None = node
    while here is not None:
        if isinstance(here, ast.FunctionDef | ast.AsyncFunctionDef):
            for argument in parameters(here):
                yield from _function_of(Place(argument, file))
        here = file.above.get(here)


def _named_with(scope: Scope) -> set[str]:
    """Return the words of which a file that calls a function has one: its class, its modules."""
    above = scope.above if scope.kind == "function" else None
    if above is not None and above.kind == "class":
        return {above.name, *_modules(scope.file)}
    return _modules(scope.file)


def _modules(file: FileIndex) -> set[str]:
    parts = file.path.removesuffix(".py").split("/")
    return {part for part in parts[-3:] if part.isidentifier() and part not in _EVERYWHERE}


def _given_to_strangers(flow: Flow, listing: Listing) -> Iterator[str]:
    """Yield the files whose functions are given a wrapped object by a call."""
    for file in flow.project.files.values():
        for bindings in file.module.bindings.values():
            for binding in bindings:
                if binding.kind != "import":
                    continue
                dotted = imported(binding, flow.project)
                paths = [
                    path
                    for path in listing.modules(dotted, file.path)
                    if path not in flow.project.files
                ]
                name = binding.target.asname or binding.target.name.partition(".")[0]  # type: ignore[attr-defined]
                calls = (_call_of(use, file) for use in file.names.get(name, ())) if paths else ()
                if any(call and flow.gives_wrapped(file.path, call) for call in calls):
                    yield from paths


def _call_of(use: ast.AST, file: FileIndex) -> ast.Call | None:
    """Return the call whose callee begins with a name (`name.attribute(...)`)."""
    here = use
    while isinstance(above := file.above.get(here), ast.Attribute):
        here = above
    return above if isinstance(above, ast.Call) and above.func is here else None
