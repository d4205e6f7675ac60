"""Keys with the wrapper's prefix: cleaned in a way that misses some, or spoils clean ones."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from porttool.calls.find import doubt
from porttool.calls.flow import earlier
from porttool.calls.values import Finding, Site
from porttool.calls.view import (
    COMPREHENSIONS,
    View,
    ancestors,
    constant_value,
    function_of,
    origin,
    statement_of,
    uses,
)
from porttool.source.nodes import walk

_CONSUME = "consume_prefix_in_state_dict_if_present"
_PREFIX = "_orig_mod."
_ANYWHERE = f'drop the segment wherever it stands: key.replace("{_PREFIX}", "")'


def leading_strips(here: View) -> list[Finding]:
    """Return the places that take the wrapper's prefix off the front of keys only."""
    found: list[Finding] = []
    if _PREFIX.strip(".") not in here.source.text:
        return found
    for node in here.nodes:
        if not isinstance(node, ast.Call) or not node.args:
            continue
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if (origin(here, node.func) or "").rpartition(".")[2] == _CONSUME:
            words = [word.value for word in node.keywords if word.arg == "prefix"]
            given = [*node.args[1:2], *words]
        elif method in ("removeprefix", "lstrip", "startswith"):
            holders = (one for one in ancestors(here, node) if isinstance(one, COMPREHENSIONS))
            around = next(holders, None)
            if method == "startswith" and around is not None and not _collects(around, node):
                continue  # keys are counted or checked here, not cleaned
            given = node.args[:1]
        else:
            continue
        if given and _is_prefix(here, given[0]):
            what = "only a leading `_orig_mod.` is taken off: keys of inner modules keep theirs"
            if method == "lstrip":
                what = "lstrip takes single characters off, not a prefix"
            found.append(doubt(here, node, what, _ANYWHERE))
    return found


def granted_prefixes(here: View) -> Iterator[Finding]:
    """Yield the places where a key without the wrapper's prefix comes out wrong, or is left out."""
    if _PREFIX.strip(".") not in here.source.text:
        return
    for node in here.nodes:
        if isinstance(node, ast.Subscript):
            if _cuts(here, node) and not _asked(here, node):
                yield doubt(
                    here, node, "a key without `_orig_mod.` comes out wrong here", _ANYWHERE
                )
        elif isinstance(node, COMPREHENSIONS):
            for test in (test for clause in node.generators for test in clause.ifs):
                if _asks(here, test) and _collects(node, test):
                    what = "keys without `_orig_mod.` are left out here"
                    yield doubt(here, test, what, "take every key, and drop the segment")


def _is_prefix(here: View, node: ast.expr) -> bool:
    text = constant_value(here, node)
    return isinstance(text, str) and text.strip(".").endswith("_orig_mod")


def _cuts(here: View, node: ast.Subscript) -> bool:
    """Tell whether a part of a key is taken that is only there behind the prefix."""
    value, index = node.value, node.slice
    if isinstance(index, ast.Slice):
        lower = index.lower
        if isinstance(lower, ast.Call) and isinstance(lower.func, ast.Name) and lower.args:
            return lower.func.id == "len" and _is_prefix(here, lower.args[0])
        number = constant_value(here, lower) if lower is not None else None
        return number == len(_PREFIX) and _is_key(here, value)
    if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.args):
        return False
    part = index.value if isinstance(index, ast.Constant) else None
    wanted = {"split": 1, "partition": 2}.get(value.func.attr)
    return part == wanted and wanted is not None and _is_prefix(here, value.args[0])


def _is_key(here: View, value: ast.expr) -> bool:
    """Tell whether a name runs over the keys of a `state_dict()`."""
    if not isinstance(value, ast.Name):
        return False
    for one in ancestors(here, value):
        clauses = one.generators if isinstance(one, COMPREHENSIONS) else [one]
        for loop in clauses:
            if not isinstance(loop, ast.comprehension | ast.For):
                continue
            names = [part.id for part in walk(loop.target) if isinstance(part, ast.Name)]
            if value.id in names[:1]:
                return "state_dict" in ast.unparse(loop.iter)
    return False


def _asks(here: View, test: ast.expr) -> bool:
    """Tell whether a test is that a key has the prefix."""
    if isinstance(test, ast.Call) and isinstance(test.func, ast.Attribute) and test.args:
        return test.func.attr == "startswith" and _is_prefix(here, test.args[0])
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.ops[0], ast.In)
        and _is_prefix(here, test.left)
    )


def _collects(comprehension: ast.AST, test: ast.expr) -> bool:
    """Tell whether a comprehension gives more than the keys that it asks about, to look at."""
    if isinstance(comprehension, ast.DictComp):
        return True
    if not isinstance(comprehension, ast.ListComp | ast.SetComp | ast.GeneratorExp):
        return False
    asked = {one.id for one in walk(test) if isinstance(one, ast.Name)}
    names = [one.id for one in walk(comprehension.elt) if isinstance(one, ast.Name)]
    return not asked.issuperset(names)


def _asked(here: View, node: ast.AST) -> bool:
    """Tell whether the code around a node asks for the prefix first."""
    around = function_of(here, node) or statement_of(here, node)
    holders = [one for one in ancestors(here, node) if isinstance(one, ast.If | ast.While)]
    tests = [
        one.test
        for one in [*walk(around), *holders]
        if isinstance(one, ast.If | ast.IfExp | ast.While | ast.Assert)
    ]
    clauses = [
        test for one in walk(around) if isinstance(one, ast.comprehension) for test in one.ifs
    ]
    parts = (part for test in [*tests, *clauses] for part in walk(test))
    return any(_asks(here, part) for part in parts if isinstance(part, ast.expr))


def old_keys(here: View, site: Site, reads: Sequence[ast.expr]) -> Iterator[Finding]:
    """Yield a note where keys are loaded that an earlier run may have saved from the wrapper."""
    if "_orig_mod" in here.source.text or site.kind == "method":
        return
    for use in reads:
        method = here.above[use]
        call = here.above[method]
        if (
            isinstance(method, ast.Attribute)
            and method.attr == "load_state_dict"
            and isinstance(call, ast.Call)
            and call.args
            and not _saved_here(here, call.args[0])
            and not earlier(here, use, site)
        ):
            yield replace(
                doubt(
                    here,
                    call,
                    "a checkpoint that was saved before may have `_orig_mod.` in its keys, "
                    "and such keys load no more",
                    'load {key.replace("_orig_mod.", ""): value for key, value in ...}',
                ),
                kind="note",
            )


def _saved_here(here: View, keys: ast.expr) -> bool:
    """Tell whether keys come from a `state_dict()` of this very file."""
    while isinstance(keys, ast.Subscript | ast.Attribute):
        keys = keys.value
    values = [here.above[use] for use in uses(here, keys)]
    stored = [one.value for one in values if isinstance(one, ast.Assign)]
    return any("state_dict()" in ast.unparse(one) for one in (keys, *stored))
