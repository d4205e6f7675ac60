"""Whether anything that was there before can reach a file that the branch adds."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from porttool.source.nodes import nodes_of

# Loaded by Python, pytest or a packaging tool without being imported by name.
_LOADED_ANYWAY = (
    "__init__.py",
    "__main__.py",
    "conftest.py",
    "setup.py",
    "sitecustomize.py",
    "usercustomize.py",
)
# Formats that nothing reads unless it is told their name, or the folder they are in.
_INERT = (".md", ".rst", ".txt", ".yaml", ".yml", ".csv", ".png", ".svg", ".patch", ".bundle")


def new_file_objection(
    path: str, onto: Mapping[str, bytes], trees: Mapping[str, ast.Module]
) -> str | None:
    """Return why a new file may take part in what onto does.

    `onto` holds the files from before, `trees` the Python files that existed, as the branch leaves
    them. A file that is loaded by pattern from its folder is not seen.
    """
    name = PurePosixPath(path).name
    if name in _LOADED_ANYWAY:
        return f"a new {name} is loaded without being imported"
    if path.endswith(".py"):
        names = module_names(path, onto)
        for other, tree in trees.items():
            line = _importing_line(tree, other, path, names)
            if line is not None:
                return f"{other}:{line} imports it"
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


def _importing_line(tree: ast.Module, importer: str, path: str, names: Iterable[str]) -> int | None:
    for dotted, level, line in imports(tree):
        if loads(dotted, level, importer, path, names):
            return line
    return None
