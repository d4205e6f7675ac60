"""What compiles out of reach of an edit: strings, notebooks, configuration that names a function.

And keys that are cleaned of the wrapper's prefix in a way that misses some.
"""

from __future__ import annotations

import ast
import json
import re

from porttool.calls.find import find_sites
from porttool.calls.values import Finding
from porttool.calls.view import View, column_of, constant_value, view
from porttool.errors import UnparsableSource
from porttool.source.syntax import parse_source

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
_NEXT = "put it behind a switch by hand"


def strings_with_code(here: View) -> list[Finding]:
    """Return the strings of a file that hold code or configuration which compiles."""
    found = []
    for node in here.nodes:
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            continue
        text = node.value
        if _TARGET.search(text):
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
                return True
    return False


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
    found = []
    for number, cell in enumerate(cells, 1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        lines = cell.get("source", [])
        code = lines if isinstance(lines, str) else "".join(map(str, lines))
        for line in code.splitlines():
            if _CALL.search(line) and not line.lstrip().startswith("#"):
                written = text.find(json.dumps(line)[1:-1])
                at = text.count("\n", 0, written) + 1 if written >= 0 else 1
                what = f"cell {number} of this notebook calls torch.compile"
                found.append(Finding(path, at, 1, what, _NEXT, "hand"))
    return found


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


def leading_strips(here: View) -> list[Finding]:
    """Return the places that take the wrapper's prefix off the front of keys only."""
    found = []
    for node in here.nodes:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr not in ("removeprefix", "lstrip", "startswith") or not node.args:
            continue
        prefix = constant_value(here, node.args[0])
        if isinstance(prefix, str) and prefix.strip(".").endswith("_orig_mod"):
            what = "only a leading `_orig_mod.` is taken off: keys of inner modules keep theirs"
            if node.func.attr == "lstrip":
                what = "lstrip takes single characters off, not a prefix"
            next = 'drop the segment wherever it stands: key.replace("_orig_mod.", "")'
            found.append(Finding(here.source.path, node.lineno, column_of(here, node), what, next))
    return found
