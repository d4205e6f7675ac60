"""What an experiment wraps objects in: a wrapper that is known, or what looks like another one."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from porttool.errors import PortError, UnparsableSource
from porttool.experiment import Experiment, learn_experiment
from porttool.frozen import dataclass
from porttool.git.quarantine import Quarantine
from porttool.learning.lesson import Lesson
from porttool.plan.plan import Plan
from porttool.source.nodes import nodes_of
from porttool.source.syntax import Names, parse_source
from porttool.wrappers import TABLE, Wrapper, known_wrapper

Files = Mapping[str, bytes]


@dataclass(frozen=True)
class Possible:
    """A call of the experiment's that takes what stood there alone before, and gives it back."""

    callee: str
    path: str
    line: int
    wrapped: str


def lessons_by_wrapper(
    quarantine: Quarantine, plan: Plan, experiment: Experiment
) -> tuple[list[Lesson], str]:
    """Learn with every wrapper that the experiment brings in; the one that wraps most goes first.

    Also returns what stood in the way, "" where nothing did.
    """
    before, after = experiment.sides(quarantine)
    found: list[Lesson] = []
    refused = ""
    for wrapper in TABLE:
        if not _brought_in(before, after, wrapper):
            continue
        described = plan.wrapper.model_copy(update={"callee": wrapper.callee})
        try:
            lesson = learn_experiment(
                quarantine, plan.model_copy(update={"wrapper": described}), experiment
            )
        except PortError as error:
            refused = refused or f"{error.what} ({error.where})"
            continue
        if lesson.seeds:
            found.append(lesson)
    found.sort(key=lambda lesson: -len(lesson.seeds))
    return found, "" if found else refused


def _brought_in(before: Files, after: Files, wrapper: Wrapper) -> bool:
    """Tell whether a changed file uses the wrapper more often than it did."""
    words = [name.rpartition(".")[2].encode() for name in wrapper.names]
    for path, data in after.items():
        old = before.get(path, b"")
        if path.endswith(".py") and any(data.count(word) > old.count(word) for word in words):
            return True
    return False


def possible_wrappers(before: Files, after: Files) -> tuple[Possible, ...]:
    """Return the calls that a change has put around expressions which were there."""
    found: dict[str, Possible] = {}
    for path in sorted(after):
        if not path.endswith(".py") or path not in before:
            continue
        try:
            old, new = (parse_source(path, files[path]) for files in (before, after))
        except UnparsableSource:
            continue
        were = {ast.unparse(node) for node in nodes_of(old.tree) if isinstance(node, ast.expr)}
        names = Names(new.tree)
        module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for node in nodes_of(new.tree):
            if not isinstance(node, ast.Call) or not node.args or ast.unparse(node) in were:
                continue
            inner = ast.unparse(node.args[0])
            plain = isinstance(node.args[0], ast.Constant | ast.Name)
            callee = names.qualified(node.func, node)
            if callee is None and isinstance(node.func, ast.Name):
                callee = f"{module}.{node.func.id}"
            last = (callee or "").rpartition(".")[2]
            if callee and last[:1].isupper() and inner in were and not plain:
                possible = Possible(callee.lstrip("."), path, node.lineno, inner)
                if known_wrapper(callee) is None:
                    found.setdefault(callee, possible)
    return tuple(found.values())
