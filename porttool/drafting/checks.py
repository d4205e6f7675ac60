"""Checks that a project has already: what its files say, and which tests load what is ported."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from porttool.errors import PortError
from porttool.frozen import dataclass
from porttool.git.commits import TreeId
from porttool.git.quarantine import Quarantine
from porttool.modules import Modules

MAX_TESTS = 400  # test files that are read to see what they load
MAX_LISTED = 12


@dataclass(frozen=True)
class FoundCheck:
    """A check for the plan, and why it is there."""

    name: str
    command: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class FoundChecks:
    """The checks of a project, where its modules lie, and the folder of tests, if there is one."""

    checks: tuple[FoundCheck, ...]
    pythonpath: tuple[str, ...]
    test_folder: str = ""


def find_checks(quarantine: Quarantine, tree: TreeId, touched: Iterable[str]) -> FoundChecks:
    """Return the checks that a tree shows signs of, for a port that touches some of its files."""
    paths = quarantine.paths(tree)
    tools = _tools(quarantine.read(tree, "pyproject.toml"))
    found = []
    ruff = [path for path in ("ruff.toml", ".ruff.toml") if path in paths]
    if "ruff" in tools or ruff:
        where = ruff[0] if ruff else "pyproject.toml"
        found.append(FoundCheck("ruff", ("ruff", "check", "."), f"{where} configures ruff"))
    if "files" in tools.get("mypy", {}) or "packages" in tools.get("mypy", {}):
        found.append(FoundCheck("mypy", ("mypy",), "pyproject.toml says what mypy checks"))
    modules = [path for path in touched if path.endswith(".py") and path in paths]
    tests = [path for path in paths if _is_test(path)]
    pythonpath = _pythonpath(quarantine, tree, modules)
    loading = _loading(quarantine, tree, tests, set(modules), pythonpath)
    if loading:
        found.append(
            FoundCheck(
                "tests",
                ("python", "-m", "pytest", "-q", *_shortened(loading, tests)),
                f"{len(loading)} of {len(tests)} test files load what is ported",
            )
        )
    folders = {path.split("/", 1)[0] for path in tests if "/" in path}
    test_folder = next((name for name in ("tests", "test") if name in folders), "")
    return FoundChecks(tuple(found), pythonpath, test_folder)


def _tools(pyproject: bytes | None) -> Mapping[str, Any]:
    try:
        tools: Mapping[str, Any] = tomllib.loads((pyproject or b"").decode()).get("tool", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return {}
    return tools


def _is_test(path: str) -> bool:
    name = PurePosixPath(path).name
    return name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py"))


def _loading(
    quarantine: Quarantine,
    tree: TreeId,
    tests: list[str],
    touched: set[str],
    roots: tuple[str, ...],
) -> list[str]:
    """Return the test files that load one of the touched files, however many imports away."""
    if len(tests) > MAX_TESTS:
        words = sorted({PurePosixPath(path).stem for path in touched})
        naming = set(quarantine.grep(tree, words)) if words else set()
        tests = [path for path in tests if path in naming][:MAX_TESTS]
    modules = Modules(quarantine, tree, roots=roots)
    found = []
    for path in tests:
        try:
            if path in touched or touched & modules.loaded_by(path):
                found.append(path)
        except PortError:
            continue  # a test that does not parse here
    return found


def _shortened(loading: list[str], tests: list[str]) -> list[str]:
    """Return the files, or where they are many the folders that they are in."""
    if len(loading) <= MAX_LISTED:
        return loading
    folders = {str(PurePosixPath(path).parent) for path in loading}
    return sorted(folders) if len(folders) <= MAX_LISTED else [_top(tests)]


def _top(tests: list[str]) -> str:
    tops = {path.split("/", 1)[0] if "/" in path else "." for path in tests}
    return tops.pop() if len(tops) == 1 else "."


def _pythonpath(quarantine: Quarantine, tree: TreeId, touched: list[str]) -> tuple[str, ...]:
    """Return the folders that the touched files are imported from, the top one left out."""
    paths = quarantine.paths(tree)
    found: dict[str, None] = {}
    for path in touched:
        if _is_test(path):
            continue
        folders = PurePosixPath(path).parts[:-1]
        if folders and folders[0] == "src":
            found["src"] = None
            continue
        while folders and "/".join((*folders, "__init__.py")) in paths:
            folders = folders[:-1]
        if folders and "/".join((*PurePosixPath(path).parts[:-1], "__init__.py")) in paths:
            found["/".join(folders)] = None
    return tuple(found)
