"""What calls give, and what parameters are given."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from porttool.deciding.dataflow import (
    callers,
    containers,
    declared,
    makers,
    members,
    opaque,
    outside,
    parts,
    records,
)
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
    RecordType,
    Unknown,
    Value,
    Wrapped,
    prefixed,
    stepped,
    union,
)

if TYPE_CHECKING:
    from porttool.deciding.dataflow.evaluate import Evaluation

_OF_MAPPINGS = ("get", "pop", "setdefault", "values", "items")
# Methods of a torch module that give its parts.
_PARTS = {
    "children": "parts",
    "modules": "parts",
    "named_children": "named parts",
    "named_modules": "named parts",
    "get_submodule": "part",
}
# Methods that are given the class, whatever stands in front of them.
_OF_THE_CLASS = ("__new__", "__init_subclass__", "__class_getitem__")


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
        if name in ("modules", "named_modules"):
            parts = "parts" if name == "modules" else "named parts"
            return {Box(parts, node, frame): None}  # the wrapper itself is the first
        return {Plain(opaque.result_of(name), place): None}
    if isinstance(atom, Plain):
        # `pool.apply(f, (x,))` is not `module.apply(f)`.
        if name in outside.SAME_OBJECT and len(node.args) < 2:
            return {atom: None}
        return opaque.method(flow, atom, name, node, frame)
    if isinstance(atom, Box):
        return makers.method(flow, atom, name, node, frame)
    if isinstance(atom, Nothing):
        return {}
    if isinstance(atom, Unknown) and name in outside.SAME_OBJECT:
        return {atom: None}
    if isinstance(atom, Instance) and not members.methods(atom.cls, name, upward=atom.upward):
        value = members.member(flow, atom, name, Place(node.func, frame.file))
        if all(isinstance(other, Unknown) for other in value):
            return _inherited(flow, atom, name, node, frame)
    found: list[Value] = []
    for target in members.member(flow, atom, name, Place(node.func, frame.file)):
        found.append(applied(flow, target, node, frame))
    return union(found)


def _inherited(flow: Evaluation, atom: Instance, name: str, node: ast.Call, frame: Frame) -> Value:
    """Return what a method gives that comes from a class which is not analysed."""
    place = Place(node, frame.file)
    own = records.own_container(flow, atom)
    if atom.cls.is_module and name in outside.SAME_OBJECT:
        return {atom: None}
    if name in ("_replace", "__new__"):
        return {Instance(atom.cls): None}
    if atom.cls.is_module and name in _PARTS:
        inside = union((parts.owned(flow, atom.cls), {Plain("a part of a module", place): None}))
        return inside if name == "get_submodule" else {Box(_PARTS[name], node, frame): None}
    if name in _OF_MAPPINGS and members.methods(atom.cls, "__getitem__") and not own:
        if name in ("values", "items"):
            return {Box(name, node, frame): None}
        rest = [flow.value(argument, frame) for argument in node.args[1:]]
        return union([special(flow, atom, "__getitem__", place), *rest])
    if own:
        boxes = [box for box in own if isinstance(box, Box)]
        return union([makers.method(flow, box, name, node, frame) for box in boxes])
    if name in ("__getattribute__", "__getattr__"):
        return {Unknown(f"it is looked up by name, through `{name}`", sure=True): None}
    return {Plain(opaque.result_of(name), place, opaque.origin_of(atom)): None}


def applied(flow: Evaluation, atom: Atom, node: ast.Call, frame: Frame) -> Value:
    """Return what calling one possibility gives."""
    place = Place(node, frame.file)
    if _is_wrapper(flow, atom):
        return {Wrapped(place): None}
    match atom:
        case Function(scope, receiver):
            return returned(flow, scope, flow.call_frame(scope, node, frame, receiver))
        case ClassRef(cls):
            if any(name.endswith("TypedDict") for name in cls.outside):
                return {Box("dict call", node, frame): None}
            return {Instance(cls): None}
        case Instance():
            if members.methods(atom.cls, "__call__"):
                return special(flow, atom, "__call__", place, call=node, frame=frame)
            return {Plain("an output", place): None}
        case RecordType(fields):
            flow.fields[node] = fields
            return {Box("record", node, frame): None}
        case Partial(function):
            given = flow.stand_in(
                node,
                atom.call.args[0],
                (*atom.call.args[1:], *node.args),
                (*atom.call.keywords, *node.keywords),
            )
            # Its arguments come from two places; names mean the same in both of one function.
            same = atom.frame is frame or atom.frame.function is None
            return applied(flow, function, given, frame if same else flow.frame(frame.file))
        case Outside(dotted):
            return outside.called(flow, dotted, node, frame)
        case Unknown():
            # The reason stays: one that grew with every call would grow for ever in a circle.
            name = members.last_name(node.func)
            return {Unknown(atom.reason, hint=name or atom.hint, sure=atom.sure): None}
        case ModuleRef() | Nothing():
            return {}
        case Plain() if atom.of is not None:
            return opaque.method(flow, atom, "it", node, frame)
        case _:
            return {Plain("an output", place): None}


def _is_wrapper(flow: Evaluation, atom: Atom) -> bool:
    """Tell whether a class or function of the analysed files is the wrapper."""
    if isinstance(atom, ClassRef):
        scope = atom.cls.scope
    elif isinstance(atom, Function) and atom.receiver is None:
        scope = atom.scope
    else:
        return False
    return flow.wrapper.is_defined(scope.file.path, scope.qualname)


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
    if found:
        return union(found)
    return {Plain(f"what `{name}` gives", place, opaque.origin_of(atom)): None}


_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
    ast.BitOr: "or",
    ast.BitAnd: "and",
    ast.BitXor: "xor",
    ast.USub: "neg",
    ast.UAdd: "pos",
    ast.Invert: "invert",
}


def by_operator(flow: Evaluation, node: ast.BinOp | ast.UnaryOp, frame: Frame) -> Value:
    """Return what an operator gives: a number, but for objects whose class defines it."""
    place = Place(node, frame.file)
    name = _OPERATORS.get(type(node.op))
    found: list[Value] = [{Plain("a result of arithmetic", place): None}]
    operands = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.operand,)
    for side, operand in zip(("", "r"), operands, strict=False):
        for atom in flow.value(operand, frame) if name else ():
            method = f"__{side}{name}__"
            if isinstance(atom, Instance) and members.methods(atom.cls, method):
                found.append(special(flow, atom, method, place))
    return union(found[1:] or found)


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
    assert binding.value is not None
    return handed_by(flow, value, Place(binding.value, binding.scope.file))


def handed_by(flow: Evaluation, value: Value, place: Place) -> Value:
    """Return what context managers hand over when they are entered."""
    found: list[Value] = []
    for atom, way in value.items():
        if isinstance(atom, Box) and atom.kind == "yields":
            found.append(prefixed(way, containers.contents(flow, atom)))
        elif isinstance(atom, Instance):
            names = [n for n in ("__enter__", "__aenter__") if members.methods(atom.cls, n)]
            # Without any it comes from a class that is not analysed, and most often gives itself.
            given = [special(flow, atom, name, place) for name in names] or [{atom: None}]
            found.append(prefixed(way, union(given)))
        else:
            found.append({atom: way})
    return union(found)


def mapped(flow: Evaluation, node: ast.Call, frame: Frame) -> Value:
    """Return what `map(function, ...)` gives one by one."""
    if not node.args:
        return {}
    found: list[Value] = []
    for atom in flow.value(node.args[0], frame):
        if _is_wrapper(flow, atom):
            found.append({Wrapped(Place(node, frame.file)): None})
        elif isinstance(atom, Function):
            found.append(returned(flow, atom.scope, flow.frame(atom.scope.file)))
        elif isinstance(atom, ClassRef):
            found.append({Instance(atom.cls): None})
        elif isinstance(atom, Outside) and flow.wrapper.is_called(atom.name):
            found.append({Wrapped(Place(node, frame.file)): None})
        elif isinstance(atom, Partial) and isinstance(atom.function, Function):
            scope = atom.function.scope
            found.append(returned(flow, scope, flow.frame(scope.file)))
        else:
            # `map` with a function of which nothing is known, a method of a data frame, ...
            held = opaque.held_by_arguments(flow, node, frame)
            place = Place(node, frame.file)
            why = f"what is mapped at {place.at} may come back as it is"
            doubt: Value = {Unknown(why, sure=True): next(iter(held.values()))} if held else {}
            found.append(doubt or {Plain("what a mapped function gives", place): None})
    return union(found)


def run(flow: Evaluation, node: ast.Call, frame: Frame) -> Value:
    """Return what a function gives that a call hands to somebody who runs it (`submit(f, x)`)."""
    name = members.last_name(node.func)
    first = 1 if name == "run_in_executor" else 0
    if len(node.args) <= first:
        return {}
    arguments, keywords = tuple(node.args[first + 1 :]), tuple(node.keywords)
    if name in ("apply", "apply_async"):
        packed = next((k.value for k in keywords if k.arg == "args"), None)
        packed = arguments[0] if packed is None and arguments else packed
        arguments = (flow.starred(packed),) if packed else ()
        if isinstance(packed, ast.Tuple | ast.List):
            arguments = tuple(packed.elts)
        keywords = ()
    call = flow.stand_in(node, node.args[first], arguments, keywords)
    found = [applied(flow, atom, call, frame) for atom in flow.value(node.args[first], frame)]
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
            of_class = "classmethod" in decorators(scope) or scope.name in _OF_THE_CLASS
            return {ClassRef(cls) if of_class else Instance(cls): None}
    bound = frame.function is scope and frame.receiver is not None and scope.owner is None
    first = [*node.args.posonlyargs, *node.args.args][:1]
    if bound and first == [argument] and frame.receiver is not None:
        return {frame.receiver: None}  # what a decorator put in place of a method
    if argument in (node.args.vararg, node.args.kwarg):
        kind = "arguments given" if argument is node.args.vararg else "keywords"
        known = frame if frame.function is scope else flow.frame(scope.file)
        return {Box(kind, argument, known): None}
    if frame.function is scope and frame.call is not None and frame.caller is not None:
        skip = 1 if bound else callers.filled(scope, frame.call)
        given = callers.given(scope, frame.call, argument.arg, skip)
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
    given: ast.expr | callers.Spread | None,
    *,
    frame: Frame,
    call: ast.Call,
    each: bool = False,
) -> Value:
    if isinstance(given, callers.Spread):
        value = _out_of(flow, given, argument.arg, frame=frame, call=call, each=each)
        return value or _default(flow, scope, argument.arg)
    if given is None and members.last_name(call.func) == "partial":
        why = f"`partial` leaves `{argument.arg}` open at {Place(call, frame.file).at}"
        return {Unknown(why, hint=argument.arg): None}
    if given is None:
        return _default(flow, scope, argument.arg)
    place = Place(given, frame.file)
    value = flow.value(given, frame)
    if each:
        value = containers.iterate(flow, value, place)
    return stepped(value, Place(argument, scope.file), "is given", place, place)


def _out_of(
    flow: Evaluation,
    spread: callers.Spread,
    name: str,
    *,
    frame: Frame,
    call: ast.Call,
    each: bool,
) -> Value:
    """Return what starred arguments give a parameter."""
    found: list[Value] = []
    for source in spread.sources:
        inner = source.value if isinstance(source, ast.Starred) else source
        place = Place(inner, frame.file)
        value = flow.value(inner, frame)
        value = containers.iterate(flow, value, place) if each else value
        if not isinstance(source, ast.Starred) and isinstance(spread.key, int):
            found.append(value)  # stands behind a starred one
            continue
        for atom, way in value.items():
            if isinstance(atom, Box) and isinstance(spread.key, str):
                inside = containers.dict_values(flow, atom, spread.key)
                inside = inside if containers.is_dict(atom) else {}
            elif isinstance(atom, Box) and spread.exact:
                inside = containers.component(flow, {atom: None}, spread.key, place)
            elif isinstance(atom, Box):
                inside = containers.contents(flow, atom)
            else:
                stars = "double-starred" if isinstance(spread.key, str) else "starred"
                why = f"it comes out of a {stars} argument ({Place(call, frame.file).at})"
                inside = {Unknown(why, hint=name, sure=True): None}
            found.append(prefixed(way, inside))
    return union(found)


def _default(flow: Evaluation, scope: Scope, name: str) -> Value:
    expression = callers.default_of(scope, name)
    return flow.value(expression, flow.frame(scope.file)) if expression is not None else {}
