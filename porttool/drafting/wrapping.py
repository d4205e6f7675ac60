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
from porttool.source.nodes import nodes_of, walk
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
                possible = Possible(_absolute(callee, path), path, node.lineno, inner)
                if known_wrapper(callee) is None:
                    found.setdefault(callee, possible)
    return tuple(found.values())


def lesson_by_class(
    quarantine: Quarantine, plan: Plan, experiment: Experiment, possible: Possible
) -> Lesson | None:
    """Learn with a wrapper of the project's own, as its class describes it; None where it does not.

    What it is wrapped around is the constructor's first argument, and has to be kept as it is.
    """
    module, _, name = possible.callee.rpartition(".")
    folder = module.replace(".", "/")
    for path in (possible.path, f"{folder}.py", f"{folder}/__init__.py", f"src/{folder}.py"):
        data = quarantine.read(experiment.tree, path)
        found = _class_of(path, data, name) if data is not None else None
        if found is None:
            continue
        kept = _kept_as(found)
        if kept is None:
            return None
        is_module = any(ast.unparse(base).endswith("Module") for base in found.bases)
        described = plan.wrapper.model_copy(
            update={
                "callee": possible.callee,
                "unwrap": kept,
                "prefix": f"{kept}." if is_module else "",
            }
        )
        try:
            lesson = learn_experiment(
                quarantine, plan.model_copy(update={"wrapper": described}), experiment
            )
        except PortError:
            return None
        return lesson if lesson.seeds else None
    return None


def _class_of(path: str, data: bytes, name: str) -> ast.ClassDef | None:
    try:
        body = parse_source(path, data).tree.body
    except UnparsableSource:
        return None
    return next((one for one in body if isinstance(one, ast.ClassDef) and one.name == name), None)


def _kept_as(wrapper: ast.ClassDef) -> str | None:
    """Return the attribute in which a class keeps what its constructor is given first."""
    for method in wrapper.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            given = [argument.arg for argument in method.args.args]
            for node in walk(method):
                target = node.targets[0] if isinstance(node, ast.Assign) else None
                if (
                    isinstance(target, ast.Attribute)
                    and isinstance(node, ast.Assign)
                    and len(given) > 1
                    and ast.unparse(target.value) == given[0]
                    and ast.unparse(node.value) == given[1]
                ):
                    return target.attr
    return None


def _absolute(name: str, path: str) -> str:
    """Return a name in full: a relative import counts from the folder of its file."""
    inside = name.lstrip(".")
    folders = path.split("/")[: -(len(name) - len(inside)) or None] if name != inside else []
    return ".".join((*folders, inside))
