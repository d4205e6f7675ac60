"""What makes a clean pick a silent bug: the commit wraps an object, or reads what wrappers change.

A pick moves the lines that the commit has changed. Where these wrap a network, main may have gained
places since that read its weights, and no line of the commit is about those: git sees no conflict.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from porttool.errors import UnparsableSource
from porttool.git.commits import CommitFacts, TreeId
from porttool.git.objects import Objects
from porttool.learning.rewriting import names_of
from porttool.source.nodes import nodes_of
from porttool.source.syntax import Source, parse_source
from porttool.wrappers import TABLE, Wrapper

_CALL_THEIR_FIRST = ("functools.partial", "builtins.map")


def why_rules(
    objects: Objects,
    commit: CommitFacts,
    onto: TreeId,
    paths: Iterable[str],
    wrappers: Sequence[Wrapper] = TABLE,
) -> tuple[str, ...]:
    """Return why a plain pick of a commit may be wrong though it is clean, empty where it is not.

    `paths` are those that it changed. Only Python files count, and only what the commit adds: a
    call of a wrapper while onto's Python files differ from the commit's parent's, or a call of a
    method whose result a wrapper changes, in a file that wraps something on either side.
    """
    parent = objects.commit(commit.parents[0]).tree
    python = [path for path in paths if path.endswith(".py")]
    sides = [objects.read_many(tree, python) for tree in (parent, commit.tree, onto)]
    reasons: list[str] = []
    for path in python:
        before, after, there = (side.get(path) for side in sides)
        # Parsing is dear, and without a wrapper's name on any side there is nothing to find.
        if after is not None and _mention(wrappers, before, after, there):
            reasons += _reasons(path, before, after, there, wrappers)
    moved = reasons and _python_moved(objects, parent, onto)
    return tuple(dict.fromkeys(reasons)) if moved else ()


def _reasons(
    path: str, before: bytes | None, after: bytes, there: bytes | None, wrappers: Sequence[Wrapper]
) -> Iterator[str]:
    now = _calls(path, after, wrappers)
    then, onto = (_calls(path, data, wrappers) for data in (before, there))
    callees = {wrapper.callee: wrapper for wrapper in wrappers}
    wrapping = [callee for callee in callees if (now | then | onto)[callee]]
    changed = {method for callee in wrapping for method in callees[callee].methods}
    for name, number in now.items():
        if number <= then[name]:
            continue
        if name in callees:
            yield f"{path} wraps with {name}: what reads the wrapped object elsewhere is not in it"
        elif name in changed:
            by = ", ".join(c for c in wrapping if name in callees[c].methods)
            yield f"{path} calls {name}, whose result {by} changes there"


def _calls(path: str, data: bytes | None, wrappers: Sequence[Wrapper]) -> Counter[str]:
    """Count calls of wrappers, by callee, and of the methods whose results they change."""
    if data is None:
        return Counter()
    try:
        source = parse_source(path, data)
    except UnparsableSource:
        return Counter()
    return Counter(_found(source, wrappers))


def _found(source: Source, wrappers: Sequence[Wrapper]) -> Iterator[str]:
    names = names_of(source.tree)
    methods = {method for wrapper in wrappers for method in wrapper.methods}
    for node in nodes_of(source.tree):
        called: list[ast.expr] = []
        if isinstance(node, ast.Call):
            called = [node.func]
            if names.qualified(node.func) in _CALL_THEIR_FIRST and node.args:
                called.append(node.args[0])
            if isinstance(node.func, ast.Attribute) and node.func.attr in methods:
                yield node.func.attr
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            # One with arguments is a call, and comes by itself.
            called = [d for d in node.decorator_list if not isinstance(d, ast.Call)]
        for expression in called:
            origin = names.qualified(expression, node)
            yield from (wrapper.callee for wrapper in wrappers if wrapper.is_called(origin))


def _mention(wrappers: Sequence[Wrapper], *sides: bytes | None) -> bool:
    words = {name.rpartition(".")[2].encode() for wrapper in wrappers for name in wrapper.names}
    return any(word in side for side in sides if side for word in words)


def _python_moved(objects: Objects, parent: TreeId, onto: TreeId) -> bool:
    return any(change.path.endswith(".py") for change in objects.changed(parent, onto))
