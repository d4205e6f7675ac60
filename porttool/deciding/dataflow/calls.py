"""What calls give, and what parameters are given."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from porttool.deciding.dataflow import callers, containers, declared, members, outside
from porttool.deciding.dataflow.fileindex import Binding, FileIndex, Scope
from porttool.deciding.dataflow.project import decorators
from porttool.deciding.dataflow.values import (
    Atom,
    Box,
    ClassRef,
    Frame,
    Function,
    Instance,
    ModuleRef,
    Nested,
    Nothing,
    Outside,
    Partial,
    Place,
    Plain,
    Unknown,
    Value,
    Wrapped,
    prefixed,
    stepped,
    union,
)

if TYPE_CHECKING:
    from porttool.deciding.dataflow.evaluate import Evaluation


def called(flow: Evaluation, node: ast.Call, frame: Frame) -> Value:
    """Return what a call gives."""
    function = node.func
    found: list[Value] = []
    if isinstance(function, ast.Attribute):
        receivers = flow.value(function.value, frame)
        for atom, way in receivers.items():
            given = _method(flow, atom, function.attr, node, frame)
            # A view of a container (`.values()`) finds the way to it by itself.
            views = all(isinstance(made, Box) and made.node is node for made in given)
            found.append(given if views else prefixed(way, given))
    else:
        for atom in flow.value(function, frame):
            found.append(applied(flow, atom, node, frame))
    return union(found)


def _method(flow: Evaluation, atom: Atom, name: str, node: ast.Call, frame: Frame) -> Value:
    place = Place(node, frame.file)
    if isinstance(atom, Wrapped | Nested):
        if name in outside.SAME_OBJECT:
            return {atom: None}
        return {Plain(_result_of(name), place): None}
    if isinstance(atom, Plain):
        return {atom if name in outside.SAME_OBJECT else Plain(_result_of(name), place): None}
    if isinstance(atom, Box):
        return containers.method(flow, atom, name, node, frame)
    if isinstance(atom, Nothing):
        return {}
    if isinstance(atom, Unknown) and name in outside.SAME_OBJECT:
        return {atom: None}
    if isinstance(atom, Instance) and not members.methods(atom.cls, name, upward=atom.upward):
        value = members.member(flow, atom, name, Place(node.func, frame.file))
        if all(isinstance(other, Unknown) for other in value):
            # Inherited from a class that is not analysed.
            if atom.cls.is_module and name in outside.SAME_OBJECT:
                return {atom: None}
            return {Plain(_result_of(name), place): None}
    found: list[Value] = []
    for target in members.member(flow, atom, name, Place(node.func, frame.file)):
        found.append(applied(flow, target, node, frame))
    return union(found)


def _result_of(name: str) -> str:
    if name == "state_dict":
        return "a state dict"
    return f"what `{name}()` gives"


def applied(flow: Evaluation, atom: Atom, node: ast.Call, frame: Frame) -> Value:
    """Return what calling one possibility gives."""
    place = Place(node, frame.file)
    match atom:
        case Function(scope, receiver):
            return returned(flow, scope, flow.call_frame(scope, node, frame, receiver))
        case ClassRef(cls):
            return {Instance(cls): None}
        case Instance():
            if members.methods(atom.cls, "__call__"):
                return special(flow, atom, "__call__", place, call=node, frame=frame)
            return {Plain("an output", place): None}
        case Partial(function):
            return applied(flow, function, node, flow.frame(frame.file))
        case Outside(dotted):
            return outside.called(flow, dotted, node, frame)
        case Unknown():
            # The reason stays: one that grew with every call would grow for ever in a circle.
            name = members.last_name(node.func)
            return {Unknown(atom.reason, hint=name or atom.hint, sure=atom.sure): None}
        case ModuleRef() | Nothing():
            return {}
        case _:
            return {Plain("an output", place): None}


def special(
    flow: Evaluation,
    atom: Instance,
    name: str,
    place: Place,
    *,
    call: ast.Call | None = None,
    frame: Frame | None = None,
) -> Value:
    """Return what a double-underscore method gives, run by the syntax at a place or by a call."""
    found: list[Value] = []
    for scope in members.methods(atom.cls, name):
        inner = flow.frame(scope.file)
        if call is not None and frame is not None:
            inner = flow.call_frame(scope, call, frame, atom)
        found.append(returned(flow, scope, inner))
    return union(found) if found else {Plain(f"what `{name}` gives", place): None}


def iterated(flow: Evaluation, atom: Instance, place: Place) -> Value:
    """Return what looping over an object gives."""
    found: list[Value] = []
    for made, way in special(flow, atom, "__iter__", place).items():
        if isinstance(made, Instance):
            # An iterator; most often the object itself.
            found.append(prefixed(way, special(flow, made, "__next__", place)))
        else:
            found.append(containers.iterate(flow, {made: way}, place))
    return union(found)


def returned(flow: Evaluation, scope: Scope, frame: Frame) -> Value:
    """Return what a function gives back, for one call or for all."""
    return flow.cell(("returned", scope, frame), lambda: _returned(flow, scope, frame))


def _returned(flow: Evaluation, scope: Scope, frame: Frame) -> Value:
    if scope.yields:
        return {Box("yields", scope.node, frame): None}
    found: list[Value] = []
    for expression in scope.returns:
        value = flow.value(expression, frame)
        if scope.name != "<lambda>" and not isinstance(expression, ast.Constant):
            place = Place(expression, scope.file)
            value = stepped(value, f"`{scope.name}`", "returns", place, place)
        found.append(value)
    return union(found) if found else {Nothing(): None}


def entered(flow: Evaluation, value: Value, binding: Binding, frame: Frame) -> Value:
    """Return what `with` hands to its name."""
    del frame
    found: list[Value] = []
    assert binding.value is not None
    place = Place(binding.value, binding.scope.file)
    for atom, way in value.items():
        if isinstance(atom, Box) and atom.kind == "yields":
            found.append(prefixed(way, containers.contents(flow, atom)))
        elif isinstance(atom, Instance):
            found.append(prefixed(way, special(flow, atom, "__enter__", place)))
        else:
            found.append({atom: way})
    return union(found)


def mapped(flow: Evaluation, node: ast.Call, frame: Frame) -> Value:
    """Return what `map(function, ...)` gives one by one."""
    if not node.args:
        return {}
    found: list[Value] = []
    for atom in flow.value(node.args[0], frame):
        if isinstance(atom, Function):
            found.append(returned(flow, atom.scope, flow.frame(atom.scope.file)))
        elif isinstance(atom, ClassRef):
            found.append({Instance(atom.cls): None})
        elif isinstance(atom, Outside) and atom.name == flow.callee:
            found.append({Wrapped(Place(node, frame.file)): None})
        else:
            found.append({Plain("what a mapped function gives", Place(node, frame.file)): None})
    return union(found)


# -- parameters --------------------------------------------------------------------------------


def parameter(flow: Evaluation, binding: Binding, frame: Frame) -> Value:
    """Return what a parameter may be given, by one call or by all."""
    scope = binding.scope
    argument = binding.target
    assert isinstance(argument, ast.arg)
    node = scope.node
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    own = callers.receiver_name(scope)
    if own == argument.arg:
        if frame.function is scope and frame.receiver is not None:
            return {frame.receiver: None}
        cls = flow.project.class_of(scope.owner)
        if cls is not None:
            kind = "classmethod" in decorators(scope)
            return {ClassRef(cls) if kind else Instance(cls): None}
    if argument in (node.args.vararg, node.args.kwarg):
        stars = "*" if argument is node.args.vararg else "**"
        why = f"it comes through `{stars}{argument.arg}` of `{scope.name}`"
        return {Unknown(f"{why} ({Place(argument, scope.file).at})", sure=True): None}
    if frame.function is scope and frame.call is not None and frame.caller is not None:
        given = callers.given(scope, frame.call, argument.arg)
        value = _from_call(flow, scope, argument, given, frame=frame.caller, call=frame.call)
    else:
        value = _from_all_calls(flow, scope, argument)
    return _with_annotation(flow, value, argument, scope.file)


def _with_annotation(flow: Evaluation, value: Value, argument: ast.arg, file: FileIndex) -> Value:
    """Let an annotation say what the calls do not.

    Where it leaves no room for a module (`int`, `str | None`), it settles starred arguments too.
    """
    doubts = [atom for atom in value if isinstance(atom, Unknown)]
    if argument.annotation is None or (value and not doubts):
        return value
    told = declared.by_annotation(
        flow, argument.annotation, file, doubts[0].reason if doubts else ""
    )
    if not all(isinstance(atom, Plain | Nothing) for atom in told):
        doubts = [atom for atom in doubts if not atom.sure]
        if value and not doubts:
            return value
    rest = {atom: way for atom, way in value.items() if atom not in doubts}
    return union((rest, told))


def _from_all_calls(flow: Evaluation, scope: Scope, argument: ast.arg) -> Value:
    sites = callers.call_sites(flow, scope)
    found: list[Value] = []
    for site in sites:
        if site.call is None:
            why = (
                f"`{scope.name}` is handed on at {site.place.at}, so its callers are not all known"
            )
            found.append({Unknown(why, hint=argument.arg): None})
            continue
        if site.doubtful:
            why = f"the call at {site.place.at} may be of another `{scope.name}`"
            found.append({Unknown(why, hint=argument.arg): None})
        given = callers.argument(site, scope, argument.arg)
        frame = flow.frame(site.place.file)
        value = _from_call(
            flow, scope, argument, given, frame=frame, call=site.call, each=site.each
        )
        if site.doubtful:
            value = {atom: way for atom, way in value.items() if isinstance(atom, Wrapped)}
        found.append(value)
    if not sites:
        what = f"`{argument.arg}` of `{scope.name}`"
        why = f"no call in the analysed files says what {what} is given"
        found.append({Unknown(why, hint=argument.arg): None})
        found.append(_default(flow, scope, argument.arg))
    return union(found)


def _from_call(
    flow: Evaluation,
    scope: Scope,
    argument: ast.arg,
    given: ast.expr | str | None,
    *,
    frame: Frame,
    call: ast.Call,
    each: bool = False,
) -> Value:
    if isinstance(given, str):
        return {Unknown(f"{given} ({Place(call, frame.file).at})", argument.arg, sure=True): None}
    if given is None:
        return _default(flow, scope, argument.arg)
    place = Place(given, frame.file)
    value = flow.value(given, frame)
    if each:
        value = containers.iterate(flow, value, place)
    return stepped(value, Place(argument, scope.file), "is given", place, place)


def _default(flow: Evaluation, scope: Scope, name: str) -> Value:
    expression = callers.default_of(scope, name)
    return flow.value(expression, flow.frame(scope.file)) if expression is not None else {}
