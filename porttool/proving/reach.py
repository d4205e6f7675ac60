"""Whether anything that was there before can reach a file that the branch adds."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath

from porttool.errors import UnparsableSource
from porttool.plan.switch import FlatSwitch, Switch
from porttool.source.nodes import nodes_of
from porttool.source.scopes import Function, bound_names, top_level_name
from porttool.source.syntax import parse_source

TEXT = (".md", ".rst", ".txt")
# Loaded by Python, pytest or a packaging tool without being imported by name.
_LOADED_ANYWAY = (
    "__main__.py",
    "conftest.py",
    "setup.py",
    "sitecustomize.py",
    "usercustomize.py",
)
# Formats that nothing reads unless it is told their name, or the folder they are in.
_INERT = (".md", ".rst", ".txt", ".yaml", ".yml", ".csv", ".png", ".svg", ".patch", ".bundle")


def search_words(
    onto: Mapping[str, bytes],
    branch: Mapping[str, bytes | None],
    switch: Switch | None = None,
    helpers: Iterable[str] = (),
) -> tuple[str, ...]:
    """Return the words by which a file of onto could get at what the branch adds.

    Both arguments hold the changed files only. A proof has to see every file of onto, settings and
    packaging included, that holds one of these as a whole word. What imports a changed file may be
    what hands it the settings that hold a flat switch; what holds the name of one of `helpers` may
    be what a changed file imports it from.
    """
    words: set[str] = set()
    defined: set[str] = set()
    if isinstance(switch, FlatSwitch):
        stems = [path for path in branch if path.endswith(".py")]
        words |= set(map(module_word, stems)) - {""}
        words |= {switch.root.rpartition(".")[2]} if switch.root else set()
    for path, data in branch.items():
        name = PurePosixPath(path)
        if path not in onto:
            words.add(module_word(path) if name.suffix == ".py" else name.name)
            defined |= _definitions(path, data or b"") if name.suffix == ".py" else set()
        elif name.suffix in TEXT:
            words.add(name.name)
        elif name.suffix == ".py" and data is not None:
            old, new = _defined(path, onto[path]), _defined(path, data)
            defined |= _definitions(path, data)
            words |= {
                method
                for owner, methods in new.items()
                if owner and owner in old
                for method in methods - old[owner]
            }
            if any(not added.startswith("_") for added in new.get("", set()) - old.get("", set())):
                words.add(name.stem)  # a star import of the module would take the name over
    return tuple(sorted(words | set(helpers) - defined))


def _definitions(path: str, data: bytes) -> set[str]:
    """Return the names that a file defines at its top level, imports not counted."""
    try:
        names = map(top_level_name, parse_source(path, data).tree.body)
    except UnparsableSource:
        return set()
    return {name for name in names if name}


def _defined(path: str, data: bytes) -> dict[str, set[str]]:
    """Return the top-level names of a file under "", and the methods of each of its classes."""
    try:
        tree = parse_source(path, data).tree
    except UnparsableSource:
        return {}
    found = {"": bound_names(tree.body)}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = {part.name for part in node.body if isinstance(part, Function)}
    return found


def new_file_objection(
    path: str,
    onto: Mapping[str, bytes],
    trees: Mapping[str, ast.Module],
    does: Callable[[str], str | None],
    *,
    new_folder: bool,
) -> str | None:
    """Return why a new file may take part in what onto does.

    `onto` holds the files from before, `trees` the Python files that existed, as the branch leaves
    them. `does` says what the file does when one of these loads it, None where that is nothing. A
    file that is loaded by pattern from its folder is not seen.
    """
    name = PurePosixPath(path).name
    if name == "__init__.py" and not new_folder:
        return "a new __init__.py makes another package of a folder that was there"
    if name in _LOADED_ANYWAY:
        return f"a new {name} is loaded without being imported"
    if path.endswith(".py"):
        names = module_names(path, onto)
        for other, tree in trees.items():
            line = importing_line(tree, other, path, names)
            done = does(other) if line is not None else None
            if done is not None:
                return f"{other}:{line} imports it, and it is not known to do nothing then: {done}"
        words: Iterable[bytes] = [dotted.encode() for dotted in names if "." in dotted]
    elif PurePosixPath(path).suffix in _INERT:
        words = [name.encode()]
    else:
        return f"what reads a new {PurePosixPath(path).suffix or name} file is not known"
    for word in words:
        pattern = re.compile(rb"(?<![\w.])" + re.escape(word) + rb"(?![\w])")
        for other, data in onto.items():
            if other.endswith((".py", ".toml", ".cfg", ".ini", ".yaml", ".yml", ".json")):
                found = pattern.search(data) if word in data else None
                if found is not None:
                    return f"{other}:{data.count(bytes([10]), 0, found.start()) + 1} names it"
    return None


def module_word(path: str) -> str:
    """Return the last name of the module, or package, that a file is."""
    place = PurePosixPath(path)
    return place.parent.name if place.stem == "__init__" else place.stem


def module_names(path: str, onto: Mapping[str, bytes]) -> frozenset[str]:
    """Return the dotted names under which a file can be imported.

    Any folder that is not itself a package may be on the import path.
    """
    parts = path.removesuffix(".py").split("/")
    if parts[-1] == "__init__":
        parts = parts[:-1]
    names = set()
    for start in range(len(parts)):
        folder = "/".join(parts[:start])
        marker = f"{folder}/__init__.py" if folder else "__init__.py"
        if marker not in onto:
            names.add(".".join(parts[start:]))
    return frozenset(names)


def imports(tree: ast.Module) -> Iterable[tuple[str, int, int]]:
    """Yield (dotted name, level, line) for all that a file's imports may load, names included."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, 0, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            yield base, node.level, node.lineno
            for alias in node.names:
                yield f"{base}.{alias.name}" if base else alias.name, node.level, node.lineno


def loads(dotted: str, level: int, importer: str, path: str, names: Iterable[str]) -> bool:
    """Tell whether an import in `importer` loads the module at `path`, known by `names`."""
    if level:
        folder = importer.split("/")[:-level]
        module = "/".join([*folder, *dotted.split(".")]) if dotted else "/".join(folder)
        return module == path.removesuffix(".py").removesuffix("/__init__")
    beside = PurePosixPath(importer).parent == PurePosixPath(path).parent
    if beside and dotted.partition(".")[0] == PurePosixPath(path).stem:
        return True  # a script's own folder comes first on the import path
    return any(dotted == name or dotted.startswith(name + ".") for name in names)


def importing_line(tree: ast.Module, importer: str, path: str, names: Iterable[str]) -> int | None:
    """Return the first line of a file that imports the module at `path`, None where none does."""
    for dotted, level, line in imports(tree):
        if loads(dotted, level, importer, path, names):
            return line
    return None
