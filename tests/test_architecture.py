"""`docs/ARCHITECTURE.md` is true: every module has a row, and imports go up the table only."""

import ast
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
ROOMS = {
    "porttool": ROOT / "porttool",
    "coolrl_lost_cities": ROOT / "src" / "coolrl_lost_cities" / "games" / "classic",
}
PACKAGE = {"porttool": "porttool", "coolrl_lost_cities": "coolrl_lost_cities.games.classic"}
# Of the standard library, what starts or talks to processes counts as outside too.
WATCHED = {"subprocess", "multiprocessing", "socket", "concurrent"}
PRINTING = {"print", "echo", "secho", "Console"}


@dataclass(frozen=True)
class Row:
    module: str
    outside: frozenset[str]


def rows(room):
    """Read a room's table: the module in the first cell, what it may import in the last one."""
    section = PAGE.partition(f"## The room `{room}`")[2].partition("\n## ")[0]
    found = []
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if match := re.fullmatch(r"`([\w.]+)`", cells[0]):
            found.append(Row(match[1], frozenset(re.findall(r"`([\w.]+)`", cells[-1]))))
    return found


def modules(room):
    """Map every file of a room to the row that it belongs to: its own, or its folder's."""
    folder, names = ROOMS[room], {row.module for row in rows(room)}
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = list(path.relative_to(folder).with_suffix("").parts)
        if parts[-1] == "__init__":
            parts.pop()
            if ".".join(parts) not in names:
                continue  # a folder of rows; `test_folders_hold_no_code` looks at it
        while parts and ".".join(parts) not in names and len(parts) > 1:
            parts.pop()
        if parts:
            found[path] = ".".join(parts)
    return found


def imports(path):
    """Yield the full dotted names that a file imports, those inside functions too."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def row_of(name, room, names):
    """Return the row that an imported name belongs to, None where it is outside of the room."""
    prefix = PACKAGE[room] + "."
    parts = name.removeprefix(prefix).split(".") if name.startswith(prefix) else []
    while parts and ".".join(parts) not in names:
        parts.pop()
    return ".".join(parts) or None


@pytest.mark.parametrize("room", ROOMS)
def test_every_module_has_a_row_and_every_row_a_module(room):
    described = [row.module for row in rows(room)]
    assert len(described) == len(set(described))
    assert sorted(set(modules(room).values())) == sorted(described)


def test_folders_hold_no_code():
    """A package's own file says what the folder is about, and does nothing when it is imported."""
    for room, folder in ROOMS.items():
        described = {row.module for row in rows(room)}
        for path in folder.rglob("__init__.py"):
            name = ".".join(path.parent.relative_to(folder).parts)
            if name and name not in described:
                kinds = {type(node) for node in ast.parse(path.read_bytes()).body}
                assert kinds <= {ast.Expr}, path


@pytest.mark.parametrize("room", ROOMS)
def test_imports_go_up_the_table_only(room):
    order = {row.module: index for index, row in enumerate(rows(room))}
    for path, module in modules(room).items():
        for name in imports(path):
            target = row_of(name, room, order)
            if target is not None and target != module:
                assert order[target] < order[module], (
                    f"{module} imports {target}, which is below it"
                )


@pytest.mark.parametrize("room", ROOMS)
def test_what_comes_from_outside_is_named_in_the_table(room):
    allowed = {row.module: row.outside for row in rows(room)}
    for path, module in modules(room).items():
        tops = {name.partition(".")[0] for name in imports(path)} - {room, "__future__"}
        outside = {top for top in tops if top not in sys.stdlib_module_names or top in WATCHED}
        assert outside <= allowed[module], f"{module} imports {sorted(outside - allowed[module])}"


def test_the_rooms_never_import_each_other():
    other = {"porttool": "coolrl_lost_cities", "coolrl_lost_cities": "porttool"}
    for room in ROOMS:
        for path in modules(room):
            assert other[room] not in {name.partition(".")[0] for name in imports(path)}, path


@pytest.mark.parametrize("room", ROOMS)
def test_only_the_command_line_prints(room):
    for path, module in modules(room).items():
        if module.rpartition(".")[2] in ("cli", "console", "probes"):
            continue
        for node in ast.walk(ast.parse(path.read_bytes())):
            called = node.func if isinstance(node, ast.Call) else None
            name = getattr(called, "id", getattr(called, "attr", None))
            assert name not in PRINTING, f"{path}:{node.lineno} prints"


def test_the_rule_can_be_broken():
    """The checks above would fail on a file that breaks them."""
    order = {"errors": 0, "cli": 1}
    assert row_of("porttool.cli.main", "porttool", order) == "cli"
    assert row_of("porttool.nowhere", "porttool", order) is None
    assert row_of("typer", "porttool", order) is None
