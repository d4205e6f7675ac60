"""Who calls a function of the analysed files, and which argument goes to which parameter."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from porttool.deciding.dataflow import decorated, members
from porttool.deciding.dataflow.fileindex import FileIndex, Scope
from porttool.deciding.dataflow.project import ClassInfo, decorators
from porttool.deciding.dataflow.values import (
    Atom,
    CallSite,
    ClassRef,
    Function,
    Instance,
    Nothing,
    Partial,
    Place,
    Unknown,
)
from porttool.frozen import dataclass

if TYPE_CHECKING:
    from porttool.deciding.dataflow.evaluate import Evaluation


@dataclass(frozen=True)
class Spread:
    """A parameter that starred arguments may give: which of them, and where in them it stands.

    `exact` says that it stands nowhere else.
    """

    sources: tuple[ast.expr, ...]
    key: int | str
    exact: bool


def argument(site: CallSite, scope: Scope, name: str) -> ast.expr | Spread | None:
    """Return the expression for a parameter, None for its default, or what it is taken out of."""
    assert site.call is not None  # nobody knows what is given where there is no call
    if site.values is None:
        return bind(scope, site.call.args, site.call.keywords, name, site.skip)
    return bind(scope, list(site.values), list(site.keywords), name, site.skip)


def receiver_name(scope: Scope) -> str | None:
    """Return the name by which a method knows its object or class."""
    node = scope.node
    if scope.owner is None or isinstance(node, ast.Lambda):
        return None
    if "staticmethod" in decorators(scope):
        return None
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    first = [*node.args.posonlyargs, *node.args.args][:1]
    return first[0].arg if first else None


def bind(
    scope: Scope,
    arguments: list[ast.expr],
    keywords: list[ast.keyword],
    name: str,
    skip: int,
) -> ast.expr | Spread | None:
    """Match a parameter with the arguments of one call; `skip` parameters are filled already."""
    node = scope.node
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    for keyword in keywords:
        if keyword.arg == name:
            return keyword.value
    positional = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)][skip:]
    if name in positional:
        position = positional.index(name)
        for i, argument in enumerate(arguments):
            if isinstance(argument, ast.Starred):
                rest = tuple(arguments[i:])
                return Spread(rest, position - i, exact=len(rest) == 1)
            if i == position:
                return argument
    double = tuple(keyword.value for keyword in keywords if keyword.arg is None)
    return Spread(double, name, exact=True) if double else None


def given(scope: Scope, call: ast.Call, name: str, skip: int) -> ast.expr | Spread | None:
    """Match a parameter with the arguments of a direct call."""
    return bind(scope, call.args, call.keywords, name, skip)


def filled(scope: Scope, call: ast.Call) -> int:
    """Return how many parameters a direct call fills by itself: one where there is an object."""
    own = receiver_name(scope)
    return 1 if own is not None and not _passes_receiver(scope, call) else 0


def _passes_receiver(scope: Scope, call: ast.Call) -> bool:
    """Tell whether a method is called through its class, with the object as first argument."""
    function = call.func
    if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Name):
        return False
    return (
        scope.owner is not None
        and function.value.id == scope.owner.name
        and ("classmethod" not in decorators(scope))
    )


def default_of(scope: Scope, name: str) -> ast.expr | None:
    """Return the expression of a parameter's default."""
    node = scope.node
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    positional = [*node.args.posonlyargs, *node.args.args]
    with_default = positional[len(positional) - len(node.args.defaults) :]
    pairs = [
        *zip(with_default, node.args.defaults, strict=True),
        *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True),
    ]
    return next((default for argument, default in pairs if argument.arg == name), None)


def call_sites(flow: Evaluation, scope: Scope) -> list[CallSite]:
    """Return the places that may call a function, in the order of the files."""
    found = flow.cell(("sites", scope), lambda: dict.fromkeys(_sites(flow, scope)))
    return [site for site in found if isinstance(site, CallSite)]


def _sites(flow: Evaluation, scope: Scope) -> Iterator[CallSite]:
    if scope.name == "<lambda>":
        above = scope.file.above.get(scope.node)
        yield from _handed_on(flow, scope.node, scope.file, above, skip=0)
        return
    cls = flow.project.class_of(scope.owner)
    if cls is not None and scope.name in ("__init__", "__new__"):
        for call, file in constructions(flow, cls):
            yield CallSite(Place(call, file), call, skip=1)
        yield from _initialisations(flow, cls)
        return
    if cls is not None and "setter" in decorators(scope):
        yield from _by_assignment(flow, cls, scope.name)
        return
    if cls is not None and scope.name in ("__setitem__", "__call__"):
        yield from _by_syntax(flow, cls, scope.name)
    for decorator in decorated.decorators_with_own_calls(flow, scope):
        yield CallSite(Place(decorator, scope.file), None)
    for use, file in flow.project.uses(scope.name):
        match = _refers(flow, use, file, scope)
        if match is None:
            continue
        skip = 1 if receiver_name(scope) is not None and match != "unbound" else 0
        above = file.above.get(use)
        if isinstance(above, ast.Call) and above.func is use:
            yield CallSite(Place(use, file), above, skip=skip, doubtful=match == "doubtful")
        elif match != "doubtful":
            yield from _handed_on(flow, use, file, above, skip)


def _by_assignment(flow: Evaluation, cls: ClassInfo, name: str) -> Iterator[CallSite]:
    """Yield the assignments that run a property's setter."""
    family = set(cls.family())
    for binding in flow.project.stores(name):
        target, file = binding.target, binding.scope.file
        assert isinstance(target, ast.Attribute)
        atoms = flow.value(target.value, flow.frame(file))
        if not any(isinstance(atom, Instance) and atom.cls in family for atom in atoms):
            continue
        if binding.value is None or binding.route or binding.kind != "assign":
            yield CallSite(Place(target, file), None)
            continue
        call = flow.stand_in(target, target.value, (binding.value,))
        yield CallSite(Place(target, file), call, skip=1)


def _by_syntax(flow: Evaluation, cls: ClassInfo, name: str) -> Iterator[CallSite]:
    """Yield where `object[key] = value` or `object(...)` calls a method of a class."""
    family = set(cls.family())

    def is_one(node: ast.expr, file: FileIndex) -> bool:
        atoms = flow.value(node, flow.frame(file))
        return any(isinstance(atom, Instance) and atom.cls in family for atom in atoms)

    for file in flow.project.files.values():
        for binding in file.items if name == "__setitem__" else ():
            target = binding.target
            if not isinstance(target, ast.Subscript) or not is_one(target.value, file):
                continue
            if binding.value is None or binding.route or binding.kind != "assign":
                yield CallSite(Place(target, file), None)
                continue
            call = flow.stand_in(target, target.value, (target.slice, binding.value))
            yield CallSite(Place(target, file), call, skip=1)
        for calls in file.calls.values() if name == "__call__" else ():
            for call in calls:
                if is_one(call.func, file):
                    yield CallSite(Place(call, file), call, skip=1)


def _refers(
    flow: Evaluation, use: ast.Name | ast.Attribute, file: FileIndex, scope: Scope
) -> str | None:
    """Tell how a use refers to a function: "bound", "unbound", "doubtful", or not at all."""
    if isinstance(use, ast.Name) and scope.owner is not None:
        return None
    frame = flow.frame(file)
    if isinstance(use, ast.Attribute):
        receivers = flow.value(use.value, frame)
        if receivers and all(isinstance(atom, Unknown | Nothing) for atom in receivers):
            special = scope.name.startswith("__")
            return "doubtful" if scope.owner is not None and not special else None
    for atom in flow.value(use, frame):
        if isinstance(atom, Function) and atom.scope is scope:
            return "bound" if atom.receiver is not None else "unbound"
    return None


def _handed_on(
    flow: Evaluation, use: ast.AST, file: FileIndex, above: ast.AST | None, skip: int
) -> Iterator[CallSite]:
    """Follow a function that is an argument: of `map`, `submit`, `Thread`, or of anything."""
    keyword = above if isinstance(above, ast.keyword) else None
    call = file.above.get(keyword) if keyword is not None else above
    if not isinstance(call, ast.Call):
        yield CallSite(Place(use, file), None)
        return
    if call.func is use:
        yield CallSite(Place(use, file), call, skip=skip)
        return
    function = call.func
    last = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    place = call.args.index(use) if use in call.args else None
    if keyword is not None and keyword.arg in ("target", "func", "function"):
        named = {k.arg: k.value for k in call.keywords}
        values = named.get("args")
        known = named.get("kwargs")
        extra: tuple[ast.keyword, ...] = ()
        if isinstance(known, ast.Dict):
            extra = tuple(
                ast.keyword(key.value, value)
                for key, value in zip(known.keys, known.values, strict=True)
                if isinstance(key, ast.Constant) and isinstance(key.value, str)
            )
        elements = tuple(values.elts) if isinstance(values, ast.Tuple | ast.List) else ()
        if values is None or elements:
            yield CallSite(Place(use, file), call, elements, extra, skip=skip)
            return
    if place == 0 and last in ("map", "filter", "imap", "imap_unordered", "map_async"):
        yield CallSite(Place(use, file), call, tuple(call.args[1:]), each=True, skip=skip)
    elif place == 0 and last in ("starmap", "starmap_async") and len(call.args) > 1:
        packed = (flow.starred(call.args[1]),)
        yield CallSite(Place(use, file), call, packed, each=True, skip=skip)
    elif place == 0 and last in ("submit", "partial", "apply_async", "call_soon", "to_thread"):
        rest = call.args[1:]
        if last == "apply_async" and rest and isinstance(rest[0], ast.Tuple):
            rest = rest[0].elts
        yield CallSite(Place(use, file), call, tuple(rest), tuple(call.keywords), skip=skip)
    elif (
        place is not None
        and place + 1 < len(call.args)
        and isinstance(call.args[place + 1], ast.Tuple)
    ):
        # `start_process(work, (a, b), ...)`: a function with its arguments in a tuple.
        following = call.args[place + 1]
        assert isinstance(following, ast.Tuple)
        yield CallSite(Place(use, file), call, tuple(following.elts), skip=skip)
    elif last in ("sorted", "min", "max", "sort") and keyword is not None and call.args:
        yield CallSite(Place(use, file), call, tuple(call.args[:1]), each=True, skip=skip)
    else:
        yield CallSite(Place(use, file), None)


def constructions(flow: Evaluation, cls: ClassInfo) -> list[tuple[ast.Call, FileIndex]]:
    """Return the calls that make an object of a class, or of one derived without an `__init__`."""
    found = flow.cell(("made", cls), lambda: dict.fromkeys(_constructions(flow, cls)))
    return [
        (site.call, site.place.file)
        for site in found
        if isinstance(site, CallSite) and site.call is not None
    ]


def _constructions(flow: Evaluation, cls: ClassInfo) -> Iterator[CallSite]:
    for made in cls.descendants():
        own = members.methods(made, "__init__")
        if made is not cls and own and own[0].owner is made.scope:
            continue
        for use, file in flow.project.uses(made.name):
            call = file.above.get(use)
            if not (isinstance(call, ast.Call) and call.func is use):
                continue
            if any(_makes(atom, made) for atom in flow.value(use, flow.frame(file))):
                yield CallSite(Place(call, file), call)
    for call, file in flow.project.calls("cls"):
        scope = file.scope_at.get(call)
        owner = scope.home.owner if scope is not None else None
        if owner is not None and flow.project.class_of(owner) in cls.family():
            yield CallSite(Place(call, file), call)


def _makes(atom: Atom, cls: ClassInfo) -> bool:
    if isinstance(atom, Partial):
        atom = atom.function
    return isinstance(atom, ClassRef) and atom.cls is cls


def _initialisations(flow: Evaluation, cls: ClassInfo) -> Iterator[CallSite]:
    """Yield `super().__init__(...)` in derived classes and `Base.__init__(self, ...)`."""
    for call, file in flow.project.calls("__init__"):
        function = call.func
        assert isinstance(function, ast.Attribute)
        receivers = flow.value(function.value, flow.frame(file))
        for atom in receivers:
            if isinstance(atom, Instance) and atom.upward:
                above = atom.cls.ancestors()[1:]
                nearest = next((a for a in above if a.scope.bindings.get("__init__")), None)
                if nearest is cls:
                    yield CallSite(Place(call, file), call, skip=1)
            elif isinstance(atom, ClassRef) and atom.cls is cls:
                yield CallSite(Place(call, file), call)


def _declares_field(statement: ast.Assign) -> bool:
    made = statement.value
    if not isinstance(made, ast.Call):
        return False
    return members.last_name(made.func) in ("field", "attrib", "ib", "Field")


def fields(cls: ClassInfo) -> list[str]:
    """Return the annotated fields in the order of a generated constructor."""
    names: dict[str, None] = {}
    for ancestor in reversed(cls.ancestors()):
        for statement in ancestor.node.body:
            if isinstance(statement, ast.Assign) and _declares_field(statement):
                names |= {t.id: None for t in statement.targets if isinstance(t, ast.Name)}
            if not isinstance(statement, ast.AnnAssign):
                continue
            inherited = "ClassVar" in ast.unparse(statement.annotation)
            if isinstance(statement.target, ast.Name) and not inherited:
                names[statement.target.id] = None
    return list(names)
