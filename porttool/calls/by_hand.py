"""What compiles out of reach of an edit: strings, notebooks, settings that name a function."""

from __future__ import annotations

import ast
import json
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from porttool.calls.conditions import gate_of
from porttool.calls.find import find_sites
from porttool.calls.values import Finding, Gate, Site
from porttool.calls.view import View, column_of, view
from porttool.errors import UnparsableSource
from porttool.source.syntax import parse_source

_TARGETS = ("torch.compile", "torch._dynamo.optimize")
_TARGET = re.compile(r"_target_:\s*[\"']?torch\.(compile|_dynamo\.optimize)\b")
_CALL = re.compile(r"\btorch\.compile\(|@torch\.compile\b|\b_dynamo\.optimize\(")
_RUNS = {
    "exec",
    "eval",
    "compile",
    "run",
    "Popen",
    "check_call",
    "check_output",
    "system",
    "write_text",
    "write",
    "call",
}
_WRITES = {"write", "write_text"}
_NEXT = "put it behind a switch by hand"


def strings_with_code(here: View) -> list[Finding]:
    """Return the strings of a file that hold code or configuration which compiles."""
    found = []
    for node in here.nodes:
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            continue
        text = node.value
        if _TARGET.search(text) or (text in _TARGETS and _is_target(here, node)):
            what = "configuration in a string names torch.compile as what to call"
        elif _CALL.search(text) and (
            _is_run(here, node) or _is_cell(here, node) or _is_script(text)
        ):
            what = "code in a string calls torch.compile"
        else:
            continue
        found.append(
            Finding(here.source.path, node.lineno, column_of(here, node), what, _NEXT, "hand")
        )
    return found


def _is_target(here: View, node: ast.Constant) -> bool:
    """Tell whether a string is what Hydra is to call: `{"_target_": "torch.compile"}`."""
    above = here.above[node]
    if isinstance(above, ast.keyword):
        return above.arg == "_target_"
    return isinstance(above, ast.Dict) and any(
        isinstance(key, ast.Constant) and key.value == "_target_" and value is node
        for key, value in zip(above.keys, above.values, strict=True)
    )


def _is_run(here: View, node: ast.Constant) -> bool:
    """Tell whether a string is handed to what runs or writes it, by itself or by a name."""
    above = here.above[node]
    names: set[str] = set()
    if isinstance(above, ast.Assign):
        names = {one.id for one in above.targets if isinstance(one, ast.Name)}
    for call in here.nodes:
        if not isinstance(call, ast.Call):
            continue
        called = (
            call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        )
        if called not in _RUNS:
            continue
        given = [*call.args, *(word.value for word in call.keywords)]
        for one in given:
            elements = one.elts if isinstance(one, ast.List | ast.Tuple) else [one]
            if any(
                each is node or (isinstance(each, ast.Name) and each.id in names)
                for each in elements
            ):
                return called not in _WRITES or _parses(node.value)
    return False


def _parses(text: object) -> bool:
    """Tell whether a text is Python, not a sentence that names a call."""
    try:
        ast.parse(textwrap.dedent(str(text)))
    except (SyntaxError, ValueError):
        return False
    return True


def _is_cell(here: View, node: ast.AST) -> bool:
    """Tell whether a string is the source of a notebook's cell."""
    above = here.above[node]
    while isinstance(above, ast.List | ast.Tuple):
        node, above = above, here.above[above]
    if not isinstance(above, ast.Dict):
        return False
    for key, value in zip(above.keys, above.values, strict=True):
        if isinstance(key, ast.Constant) and key.value == "source" and value is node:
            return True
    return False


def _is_script(text: str) -> bool:
    """Tell whether a text is a program of its own: it imports torch and compiles."""
    if not re.search(r"^\s*(import|from) torch\b", text, re.MULTILINE):
        return False
    try:
        source = parse_source("string", text.encode())
    except UnparsableSource:
        return False
    sites, doubts = find_sites(view(source, {}))
    return bool(sites or doubts)


def notebook_findings(path: str, data: bytes) -> list[Finding]:
    """Return the cells of a notebook that compile; lines are the notebook's own where seen."""
    try:
        text = data.decode("utf-8")
        cells = json.loads(text).get("cells", [])
    except (UnicodeDecodeError, ValueError, AttributeError):
        return [Finding(path, 1, 1, "this notebook cannot be read", "look at it by hand", "hand")]
    lines = list(_code_lines(cells))
    found = []
    for index in sorted(_compiling(path, [line for _, line in lines])):
        number, line = lines[index]
        written = text.find(json.dumps(line)[1:-1])
        at = text.count("\n", 0, written) + 1 if written >= 0 else 1
        what = f"cell {number} of this notebook calls torch.compile"
        found.append(Finding(path, at, 1, what, _NEXT, "hand"))
    return found


def _code_lines(cells: list[Any]) -> Iterator[tuple[int, str]]:
    """Yield the lines of a notebook's code, each with the number of its cell."""
    for number, cell in enumerate(cells, 1):
        if isinstance(cell, dict) and cell.get("cell_type") == "code":
            lines = cell.get("source", [])
            code = lines if isinstance(lines, str) else "".join(map(str, lines))
            yield from ((number, line) for line in code.splitlines())


def _compiling(path: str, lines: list[str]) -> set[int]:
    """Return which lines compile: as a program where all of them are one, else by their text."""
    by_text = {
        index
        for index, line in enumerate(lines)
        if _CALL.search(line) and not line.lstrip().startswith("#")
    }
    # IPython's own commands are no Python.
    code = [re.sub(r"^(\s*)[%!?].*", r"\1pass", line) for line in lines]
    try:
        source = parse_source(path, "\n".join(code).encode())
    except UnparsableSource:
        return by_text
    here = view(source, {})
    sites, doubts = find_sites(here)
    found = {site.line - 1 for site in sites} | {one.line - 1 for one in doubts}
    return (by_text | found) - {site.line - 1 for site in sites if _is_off(here, site)}


def _is_off(here: View, site: Site) -> bool:
    """Tell whether a site is behind a switch that is not on by default."""
    gate = gate_of(here, site)
    return isinstance(gate, Gate) and not gate.on_by_default


def settings_findings(path: str, data: bytes) -> list[Finding]:
    """Return the lines of a YAML file that name torch.compile as a function to call."""
    text = data.decode("utf-8", "replace")
    return [
        Finding(
            path, number, match.start() + 1,
            "this configuration names torch.compile as what to call", _NEXT, "hand",
        )
        for number, line in enumerate(text.splitlines(), 1)
        if not line.lstrip().startswith("#") and (match := _TARGET.search(line))
    ]  # fmt: skip
