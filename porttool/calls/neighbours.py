"""The files around one file: those that it imports, and those that import it."""

from __future__ import annotations

import ast
import posixpath
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache

from porttool.calls.view import View, module_word, view
from porttool.errors import UnparsableSource
from porttool.source.nodes import KEPT, nodes_of
from porttool.source.syntax import Source, parse_source

_HOPS = 4
_OUTSIDE = sys.stdlib_module_names | {"torch"}
_IMPORTS = re.compile(
    rb"^[ \t]*(?:from[ \t]+[\w.]+[ \t]+import[ \t]*(?:\([^)]*\)|.*)|import[ \t].*)", re.MULTILINE
)
_WORDS = re.compile(rb"[A-Za-z_]\w*")


class Project:
    """The files of a project, by path, and which of them mention which module in an import.

    What is asked of all files at once is read from their text, once: a project may be large.
    """

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self.contents = contents

    @cached_property
    def modules(self) -> Mapping[str, list[str]]:
        """Map the last word of a module's name to the files that it may be."""
        found: dict[str, list[str]] = {}
        for path in self.contents:
            found.setdefault(module_word(path), []).append(path)
        return found

    @cached_property
    def importers(self) -> Mapping[str, list[str]]:
        """Map a word to the files that have it in an import."""
        found: dict[str, list[str]] = {}
        for path in self.contents:
            words: set[bytes] = set()
            for statement in _IMPORTS.findall(self.contents[path]):
                words.update(_WORDS.findall(statement))
            for word in words:
                found.setdefault(word.decode(), []).append(path)
        return found

    def parsed(self, path: str) -> Source | None:
        """Return a file, or None where it does not parse."""
        try:
            return parse_source(path, self.contents[path])
        except (UnparsableSource, KeyError):
            return None


class Neighbours(Mapping[str, Source]):
    """A file and those around it, by path; found and parsed when one is first asked for."""

    def __init__(self, source: Source, project: Project) -> None:
        self._source = source
        self._project = project

    @cached_property
    def _files(self) -> dict[str, Source]:
        return _around(self._source, self._project)

    def __getitem__(self, path: str) -> Source:
        return self._files[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def alone(self, path: str) -> Source | None:
        """Return one file of the project, whether it is around this one or not."""
        return self._project.parsed(path)

    def of(self, source: Source) -> Neighbours:
        """Return the files around another one."""
        return Neighbours(source, self._project)

    def importing(self) -> Iterator[str]:
        """Yield the path of each other file that may import this one; nothing is parsed for it."""
        for path in self._project.importers.get(module_word(self._source.path), ()):
            if path != self._source.path:
                yield path

    def text(self, path: str) -> str:
        """Return what a file holds, unparsed."""
        return self._project.contents[path].decode("utf-8", "replace")


def module_source(here: View, module: str) -> Source | None:
    """Return the file that a module named in an import is, where it is among those around."""
    dots = len(module) - len(module.lstrip("."))
    folder = posixpath.dirname(here.source.path)
    for _ in range(dots - 1):
        folder = posixpath.dirname(folder)
    tail = module.lstrip(".").replace(".", "/")
    for start in [folder] if dots else [folder, "", "src"]:
        for path in (f"{tail}.py", f"{tail}/__init__.py") if tail else ("__init__.py",):
            source = _one(here, posixpath.join(start, path))
            if source is not None:
                return source
    return None


def _one(here: View, path: str) -> Source | None:
    """Return a file by its path, without a look for all that are around this one."""
    if isinstance(here.files, Neighbours):
        return here.files.alone(path)
    return here.files.get(path)


def through_imports(here: View, dotted: str, depth: int = _HOPS) -> str:
    """Return where a name comes from at first, imports of the project's other files followed.

    `compat.tc` is torch.compile where `compat.py` has `from torch import compile as tc`.
    """
    module, _, rest = dotted.rpartition(".")
    if module.partition(".")[0] in _OUTSIDE:
        return dotted
    while module.strip(".") and depth:
        source = module_source(here, module)
        if source is None:
            module, _, more = module.rpartition(".")
            rest = f"{more}.{rest}"
            continue
        there = view(source, files_around(here, source))
        name, _, attributes = rest.partition(".")
        bound = there.names.binding(name, source.tree)
        roots = {root for root in bound[1] if root} if bound else set()
        if len(roots) != 1:
            return dotted
        joint = f".{attributes}" if attributes else ""
        return through_imports(there, f"{roots.pop()}{joint}", depth - 1)
    return dotted


def files_around(here: View, source: Source) -> Mapping[str, Source]:
    """Return the files around another file than the one that is looked at."""
    return here.files.of(source) if isinstance(here.files, Neighbours) else here.files


def mentioned_elsewhere(here: View, name: str) -> bool:
    """Tell whether another file that knows this one mentions a name of it."""
    if isinstance(here.files, Neighbours):
        return any(name in here.files.text(path) for path in here.files.importing())
    word = re.compile(rf"\b{re.escape(module_word(here.source.path))}\b")
    return any(
        path != here.source.path and name in source.text and word.search(source.text) is not None
        for path, source in here.files.items()
    )


def mentioning(here: View, name: str) -> list[View] | None:
    """Return the other files that know this one and mention a name; None where one is unseen."""
    if not isinstance(here.files, Neighbours):
        return None if mentioned_elsewhere(here, name) else []
    found = []
    for path in here.files.importing():
        if name in here.files.text(path):
            source = here.files.get(path)
            if source is None:
                return None
            found.append(view(source, here.files.of(source), here.marks))
    return found


def _around(source: Source, project: Project) -> dict[str, Source]:
    found = {source.path: source}
    fresh = [source]
    for _ in range(_HOPS):
        paths = dict.fromkeys(path for one in fresh for path in _imported(one, project))
        others = [project.parsed(path) for path in paths if path not in found]
        fresh = [one for one in others if one is not None]
        found |= {one.path: one for one in fresh}
    word = module_word(source.path)
    for path in project.importers.get(word, ()):
        other = project.parsed(path) if path not in found else None
        if other is not None and any(word in module.split(".") for module in _modules(other)):
            found[path] = other
    return found


def _imported(source: Source, project: Project) -> Iterator[str]:
    """Yield the files that the imports of a file may mean, by how their paths end."""
    for module in _modules(source):
        tail = "/" + module.replace(".", "/")
        for path in project.modules.get(module.rpartition(".")[2], ()):
            if f"/{path}".endswith((f"{tail}.py", f"{tail}/__init__.py")):
                yield path


def _modules(source: Source) -> tuple[str, ...]:
    return _modules_of(source.tree)


@lru_cache(maxsize=KEPT)
def _modules_of(tree: ast.Module) -> tuple[str, ...]:
    found: list[str] = []
    for node in nodes_of(tree):
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.module:
                found.append(node.module)
            joint = f"{node.module}." if node.module else ""
            found += (f"{joint}{alias.name}" for alias in node.names if alias.name != "*")
    return tuple(dict.fromkeys(found))
