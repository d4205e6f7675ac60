"""Which file imports which, in one tree; and whether the imports of a port find what they name."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from porttool.errors import NeedsPerson, UnparsableSource
from porttool.git.commits import TreeId
from porttool.git.objects import Objects
from porttool.source.nodes import nodes_of
from porttool.source.scopes import bound_names, imported_names
from porttool.source.syntax import parse_source


def check_imports(objects: Objects, onto: TreeId, made: TreeId, experiment: TreeId) -> None:
    """Refuse a port that imports what the experiment has, and the port's own tree does not.

    Raises NeedsPerson with the first such import, for instance of a file that onto has deleted.
    """
    old, new, theirs = (Modules(objects, tree) for tree in (onto, made, experiment))
    for change in objects.changed(onto, made):
        if change.status == "deleted" or not change.path.endswith(".py"):
            continue
        for statement in new.new_imports(change.path, old):
            homes = new.homes(change.path, statement)
            for name in [alias.name for alias in statement.names]:
                found = any(new.brings(home, name) for home in homes) or new.is_module(
                    change.path, statement, name
                )
                if not found and (homes or theirs.homes(change.path, statement)):
                    raise NeedsPerson(
                        f"the port would import `{name}`, and nothing there has that name",
                        where=f"{change.path}:{statement.lineno} (as it would be written)",
                        why=f"`{ast.unparse(statement)}` finds "
                        + (f"{', '.join(homes)} without it" if homes else "no file any more"),
                        next=f"give {change.path} that name on the branch that it is ported to, "
                        "and run the port again",
                    )


class Modules:
    """Which file imports which when it is loaded; files are read when they are asked about.

    Modules are looked for in the folders that a file is in, and in `roots`.
    """

    def __init__(self, objects: Objects, tree: TreeId, *, roots: Iterable[str] = ()) -> None:
        self._objects = objects
        self._tree = tree
        self._roots = [tuple(root.split("/")) for root in roots]
        self._trees: dict[str, ast.Module] = {}

    def has(self, path: str) -> bool:
        """Tell whether there is a file of that path."""
        entry = self._objects.entry(self._tree, path)
        return entry is not None and entry.is_file

    def imports_name(self, path: str, name: str) -> bool:
        """Tell whether a file imports a name at its top level already."""
        statements = self._parsed(path).body
        imports = [one for one in statements if isinstance(one, ast.Import | ast.ImportFrom)]
        return any(name in imported_names(one) for one in imports)

    def definition_behind(self, path: str, name: str) -> tuple[str, ast.Module, ast.stmt] | None:
        """Return the one definition that a file imports by a name: its file, that tree, itself."""
        found = [
            (home, self._parsed(home), statement)
            for one in self._parsed(path).body
            if isinstance(one, ast.ImportFrom)
            and any(alias.name == name and alias.asname in (None, name) for alias in one.names)
            for home in self.homes(path, one)
            for statement in self._parsed(home).body
            if name in bound_names([statement])
        ]
        return found[0] if len(found) == 1 else None

    def loaded_by(self, path: str) -> set[str]:
        """Return the files that are loaded when a file is, itself apart."""
        found: set[str] = set()
        waiting = [path]
        while waiting:
            here = waiting.pop()
            new = [one for one in self._imported(here) if one not in found]
            found.update(new)
            waiting += new
        return found - {path}

    def name_for(self, importer: str, path: str, others: Iterable[str]) -> str | None:
        """Return the absolute name by which a file can import another one; None where none shows.

        Both are below one folder for imports, or the imports of `others` show such a folder.
        """
        target, above = _dotted(path), self._root(path)
        shown = {
            root
            for other in dict.fromkeys((path, *others))
            for root in self._roots_shown(other)
            if target[: len(root)] == list(root)
        }
        if above in shown or above == self._root(importer):
            shown = {above}
        return ".".join(target[len(shown.pop()) :]) if len(shown) == 1 else None

    def _root(self, path: str) -> tuple[str, ...]:
        """Return the folder that the packages around a file are in."""
        folder = PurePosixPath(path).parent.parts
        while folder and self.has("/".join((*folder, "__init__.py"))):
            folder = folder[:-1]
        return folder

    def _roots_shown(self, path: str) -> Iterator[tuple[str, ...]]:
        """Yield the folder in which each absolute import of a file finds a file of the tree."""
        folder = PurePosixPath(path).parent.parts
        for statement in _imports(self._parsed(path)):
            names = [alias.name for alias in statement.names]
            if isinstance(statement, ast.ImportFrom):
                names = [statement.module or ""] if not statement.level else []
            for parts in (name.split(".") for name in names):
                for found in self._files(parts, folder, level=0):
                    if _dotted(found)[-len(parts) :] == parts:
                        yield tuple(_dotted(found)[: -len(parts)])

    def brings(self, path: str, name: str) -> bool:
        """Tell whether a file has a name that another one may import from it."""
        bound = bound_names(self._parsed(path).body)
        return name == "*" or name in bound or "*" in bound or "__getattr__" in bound

    def new_imports(self, path: str, before: Modules) -> Iterator[ast.ImportFrom]:
        """Yield the `from` imports of a file that it had not before."""
        old = {ast.unparse(one) for one in _imports(before._parsed(path))}
        for statement in _imports(self._parsed(path)):
            if isinstance(statement, ast.ImportFrom) and ast.unparse(statement) not in old:
                yield statement

    def homes(self, path: str, statement: ast.ImportFrom) -> list[str]:
        """Return the files that a `from` import may read from, none where it is not in the tree."""
        folder = PurePosixPath(path).parent.parts
        parts = statement.module.split(".") if statement.module else []
        found = self._files(parts, folder, level=statement.level)
        return [one for one in found if _dotted(one)[-len(parts) :] == parts]

    def is_module(self, path: str, statement: ast.ImportFrom, name: str) -> bool:
        """Tell whether a `from` import names a file of a package."""
        parts = [*(statement.module.split(".") if statement.module else []), name]
        found = self._files(parts, PurePosixPath(path).parent.parts, level=statement.level)
        return any(_dotted(one)[-len(parts) :] == parts for one in found)

    def _imported(self, path: str) -> Iterator[str]:
        folder = PurePosixPath(path).parent.parts
        for statement in _when_loaded(self._parsed(path).body):
            if isinstance(statement, ast.Import):
                for alias in statement.names:
                    yield from self._files(alias.name.split("."), folder, level=0)
                continue
            base = statement.module.split(".") if statement.module else []
            for alias in statement.names:
                yield from self._files([*base, alias.name], folder, level=statement.level)

    def _files(self, parts: list[str], folder: tuple[str, ...], *, level: int) -> Iterator[str]:
        """Yield the files that `parts`, and the packages around it, may be."""
        if level:
            roots = [folder[: len(folder) - level + 1]]
        else:
            roots = [*(folder[:count] for count in range(len(folder) + 1)), *self._roots]
        for root in roots:
            for count in range(1, len(parts) + 1):
                name = "/".join((*root, *parts[:count]))
                for path in (f"{name}.py", f"{name}/__init__.py"):
                    if self.has(path):
                        yield path

    def _parsed(self, path: str) -> ast.Module:
        if path not in self._trees:
            data = self._objects.read(self._tree, path) or b""
            try:
                self._trees[path] = parse_source(path, data).tree
            except UnparsableSource:
                self._trees[path] = ast.Module([], [])  # nothing can load it
        return self._trees[path]


def _when_loaded(body: Iterable[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports that run when a module is loaded."""
    for statement in body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            yield statement
        elif isinstance(statement, ast.If | ast.Try | ast.With | ast.ClassDef):
            if isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test):
                yield from _when_loaded(statement.orelse)
                continue
            for field in ("body", "orelse", "finalbody"):
                yield from _when_loaded(getattr(statement, field, ()))
            for handler in getattr(statement, "handlers", ()):
                yield from _when_loaded(handler.body)


def _imports(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in nodes_of(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node


def _dotted(path: str) -> list[str]:
    parts = list(PurePosixPath(path).with_suffix("").parts)
    return parts[:-1] if parts[-1] == "__init__" else parts
