"""Threads other than the one that compiles, which call what is compiled."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from porttool.calls.find import doubt
from porttool.calls.values import Finding
from porttool.calls.view import FUNCTIONS, View, origin, spelled
from porttool.source.nodes import walk

_THREADS = (
    "asyncio.to_thread",
    "concurrent.futures.ThreadPoolExecutor",
    "concurrent.futures.thread.ThreadPoolExecutor",
    "multiprocessing.dummy.Pool",
    "multiprocessing.pool.ThreadPool",
    "threading.Thread",
    "threading.Timer",
)
_STARTS = {
    "submit",
    "to_thread",
    "map",
    "run_in_executor",
    "apply_async",
    "imap",
    "starmap",
    "Thread",
    "Timer",
    "imap_unordered",
    "map_async",
}


def other_threads(here: View, reads: Sequence[ast.expr]) -> Iterator[Finding]:
    """Yield the places where a thread other than the one that compiles calls the object."""
    if not any(_starts_threads(here, node) for node in here.nodes):
        return
    seen = set(map(id, reads))
    for node in here.nodes:
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else spelled(node.func)
        if name not in _STARTS and not _runs_in_thread(here, node):
            continue
        given = [*node.args, *(word.value for word in node.keywords)]
        bodies: list[ast.AST] = [*given]
        for one in given:
            called = one.id if isinstance(one, ast.Name) else getattr(one, "attr", None)
            bodies += [f for f in here.nodes if isinstance(f, FUNCTIONS) and f.name == called]
        if any(id(inner) in seen for body in bodies for inner in walk(body)):
            yield doubt(
                here,
                node,
                "a compiled module is called from other threads: torch's compiler is not "
                "thread-safe, and its settings hold for one thread",
                "compile and call it once in the main thread, and gate it by hand",
            )


def _starts_threads(here: View, node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute) and node.attr in ("run_in_executor", "ThreadPoolExecutor"):
        return True
    return isinstance(node, ast.Name | ast.Attribute) and origin(here, node) in _THREADS


def _runs_in_thread(here: View, call: ast.Call) -> bool:
    """Tell whether a call makes an object of the file's own subclass of Thread."""
    return any(
        isinstance(node, ast.ClassDef)
        and node.name == spelled(call.func)
        and any(origin(here, base) == "threading.Thread" for base in node.bases)
        for node in here.nodes
    )
