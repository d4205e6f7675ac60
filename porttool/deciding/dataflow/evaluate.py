"""Values of expressions, worked out backwards from the ones that are asked for.

A question follows names to their bindings, attributes to their assignments, parameters to the
calls, calls to the returns.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from functools import partial

from porttool.deciding.dataflow import (
    calls,
    containers,
    declared,
    decorated,
    makers,
    members,
    narrowing,
    opaque,
    outside,
    parts,
    records,
    stored,
)
from porttool.deciding.dataflow.additions import Addition, additions_in
from porttool.deciding.dataflow.fileindex import Binding, FileIndex, Scope, unpacked
from porttool.deciding.dataflow.fixpoint import Answers
from porttool.deciding.dataflow.project import Project, imported
from porttool.deciding.dataflow.reaching import reaching
from porttool.deciding.dataflow.values import (
    BOX_KINDS,
    Atom,
    Box,
    ClassRef,
    Frame,
    Function,
    Instance,
    ModuleRef,
    Nothing,
    Outside,
    Place,
    Plain,
    Unknown,
    Value,
    Wrapped,
    prefixed,
    stepped,
    union,
)
from porttool.wrappers import Wrapper

_DEEP = 60_000
_MAX_CONTEXTS = 2


class Evaluation:
    """Values of expressions in a set of files.

    `seeds` are the expressions that get wrapped ("object") or whose elements do ("wrapped list",
    "wrapped dict"); `pending` are those that a person still has to decide about, with the reason.
    """

    def __init__(
        self,
        project: Project,
        seeds: Mapping[ast.AST, str],
        *,
        wrapper: Wrapper,
        pending: Mapping[ast.AST, str] | None = None,
    ) -> None:
        self.project = project
        self.seeds = seeds
        self.pending = pending or {}
        self.wrapper = wrapper
        self.unwrap = wrapper.unwrap
        self._frames: dict[Hashable, Frame] = {}
        self._reaching: dict[Scope, dict[ast.Name, frozenset[Binding]]] = {}
        self._answers = Answers()
        self._additions: dict[tuple[ast.AST, str], dict[Addition, None]] = {}
        self._adding = False
        self._handings: dict[Place, dict[opaque.Handing, None]] = {}
        self._handing = False
        self._stand_ins: dict[Hashable, ast.Call] = {}
        self._names: dict[Hashable, ast.expr] = {}
        self._starred: dict[ast.expr, ast.Starred] = {}
        self.fields: dict[ast.Call, tuple[str, ...]] = {}  # of named tuples, by what makes them
        self.raw: dict[ast.expr, Value] = {}  # what stands in for functions below decorators

    def ask(self, node: ast.expr, file: FileIndex) -> Value:
        """Return the settled value of an expression."""
        frame = self.frame(file)
        return self._settled(("asked", node), lambda: self.value(node, frame))

    def _settled(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        limit = sys.getrecursionlimit()
        # A value may come a long way; on Python 3.11 its frames are not on the C stack.
        sys.setrecursionlimit(max(limit, _DEEP))
        try:
            return self._answers.settled(key, compute)
        finally:
            sys.setrecursionlimit(limit)

    def ask_held(self, node: ast.expr, file: FileIndex) -> Value:
        """Return the wrapped objects that come along with an expression, settled."""
        frame = self.frame(file)
        return self._settled(
            ("asked", "held", node), lambda: parts.held(self, self.value(node, frame))
        )

    def ask_pickled(self, node: ast.expr, file: FileIndex) -> Value:
        """Return the wrapped objects that are pickled with an expression, settled."""
        frame = self.frame(file)
        return self._settled(
            ("asked", "pickled", node), lambda: parts.pickled(self, self.value(node, frame))
        )

    def ask_given(self, call: ast.Call, file: FileIndex) -> Value:
        """Return the wrapped objects that a call is given, settled."""
        frame = self.frame(file)
        compute = partial(opaque.held_by_arguments, self, call, frame)
        return self._settled(("asked", "given", call), compute)

    def given(self, origin: Place) -> Value:
        """Return the doubts about what an object that is not analysed may hand back."""
        return self._settled(("asked", origin), lambda: opaque.given(self, origin))

    def cell(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """Answer a question that has a name, once, whatever circle it is part of."""
        return self._answers.cell(key, compute)

    def stand_in(
        self,
        node: ast.expr,
        function: ast.expr,
        arguments: tuple[ast.expr, ...],
        keywords: tuple[ast.keyword, ...] = (),
    ) -> ast.Call:
        """Return the call that a place stands for (`submit(f, x)` for `f(x)`), always the same."""
        key = (node, function, arguments, keywords)
        if key not in self._stand_ins:
            call = ast.Call(function, list(arguments), list(keywords))
            self._stand_ins[key] = ast.copy_location(call, node)
        return self._stand_ins[key]

    def starred(self, node: ast.expr) -> ast.Starred:
        """Return `*node`, always the same."""
        if node not in self._starred:
            self._starred[node] = ast.copy_location(ast.Starred(node, ast.Load()), node)
        return self._starred[node]

    def named_stand_in(self, key: Hashable, at: ast.expr) -> ast.expr:
        """Return an expression without a text of its own, whose value stands in `raw`."""
        if key not in self._names:
            self._names[key] = ast.copy_location(ast.Name("_", ast.Load()), at)
        return self._names[key]

    def additions(self, box: Box) -> list[Addition]:
        """Return the places known to add to a container; who asks is told of further ones."""
        self._answers.use(("additions", box.node, box.kind))
        if not self._adding:
            self._adding = True
            for file in self.project.files.values():
                for addition in additions_in(file):
                    self._answers.later(addition, partial(self._feed, addition))
        return list(self._additions.get((box.node, box.kind), ()))

    def _feed(self, addition: Addition) -> Value:
        """Note for every container that a place may add to that it does."""
        receiver, file = addition.receiver, addition.file
        atoms = self.value(receiver, self.frame(file))
        if isinstance(receiver, ast.Attribute) and stored.is_aimless(self, receiver.value, file):
            # It is one of somebody's containers of that name; nobody tells whose.
            atoms = union((atoms, stored.containers_named(self, receiver.attr)))
            addition = replace(addition, aimless=True)
        for atom in atoms:
            boxes: Iterable[Atom] = (atom,)
            if isinstance(atom, Instance):
                boxes = records.own_container(self, atom)
            for box in boxes:
                if not isinstance(box, Box):
                    continue
                known = self._additions.setdefault((box.node, box.kind), {})
                if addition not in known:
                    known[addition] = None
                    self._answers.grew(("additions", box.node, box.kind))
        return {}

    def handings(self, origin: Place) -> list[opaque.Handing]:
        """Return the places known to hand something to an object; as `additions` otherwise."""
        self._answers.use(("handings", origin))
        if not self._handing:
            self._handing = True
            for file in self.project.files.values():
                for handing in opaque.handings(file):
                    self._answers.later(handing, partial(self._hand, handing))
        return list(self._handings.get(origin, ()))

    def _hand(self, handing: opaque.Handing) -> Value:
        for origin in opaque.receives(self, handing):
            known = self._handings.setdefault(origin, {})
            if handing not in known:
                known[handing] = None
                self._answers.grew(("handings", origin))
        return {}

    # -- frames ------------------------------------------------------------------------------

    def frame(self, file: FileIndex) -> Frame:
        """Return the frame in which functions stand for all of their calls."""
        return self._frames.setdefault(file, Frame(file))

    def call_frame(
        self, scope: Scope, call: ast.Call, caller: Frame, receiver: Instance | ClassRef | None
    ) -> Frame:
        """Return the frame of one call; calls too deep in other calls share one."""
        if caller.depth >= _MAX_CONTEXTS:
            return self.frame(scope.file)
        key = (scope, call, caller, receiver)
        found = self._frames.get(key)
        if found is None:
            depth = caller.depth + 1
            found = Frame(scope.file, scope, call, caller, receiver, depth)
            self._frames[key] = found
        return found

    def frame_for(self, scope: Scope, frame: Frame) -> Frame:
        """Return the frame for something written in a scope, seen from a frame."""
        home: Scope | None = scope.home
        return frame if frame.function is home else self.frame(scope.file)

    # -- expressions -------------------------------------------------------------------------

    def value(self, node: ast.expr, frame: Frame) -> Value:
        """Return what an expression may stand for."""
        shape = self.seeds.get(node)
        if shape == "object":
            return {Wrapped(Place(node, frame.file)): None}
        if shape is not None:
            return {Box(shape, node, frame): None}
        if node in self.pending:
            return {Unknown(self.pending[node], sure=True): None}
        if node in self.raw:
            return self.raw[node]
        evaluate = _EXPRESSIONS.get(type(node))
        if evaluate is None:
            return {Plain("a plain value", Place(node, frame.file)): None}
        return evaluate(self, node, frame)

    def _name(self, node: ast.Name, frame: Frame) -> Value:
        def compute() -> Value:
            return narrowing.narrowed(self, node, self._look_up(node, frame), frame)

        return self.cell(("name", node, frame), compute)

    def same_bindings(self, one: ast.Name, other: ast.Name, file: FileIndex) -> bool:
        """Tell whether two uses of a name read what the same statements bound."""
        scopes = [file.scope_at.get(node, file.module) for node in (one, other)]
        if scopes[0].home is not scopes[1].home:
            return False
        scope = scopes[0]
        while one.id not in scope.bindings and scope.kind == "comprehension" and scope.above:
            scope = scope.above
        if one.id not in scope.bindings:
            return False
        innermost = [set(self._bindings(node, scope, innermost=True)) for node in (one, other)]
        return innermost[0] == innermost[1]

    def _look_up(self, node: ast.Name, frame: Frame) -> Value:
        start: Scope | None = frame.file.scope_at.get(node, frame.file.module)
        scope = start
        innermost = True  # nothing but comprehensions between the name and the scope
        while scope is not None:
            if scope.kind == "class" and not innermost:
                scope = scope.above
                continue
            if node.id in scope.bindings:
                bindings = self._bindings(node, scope, innermost=innermost)
                if bindings:
                    values = [self.bound(b, self.frame_for(b.scope, frame)) for b in bindings]
                    if scope.kind == "module":
                        values.append(stored.into_module(self, scope.file, node.id))
                    return union(values)
            if scope.kind != "comprehension":
                innermost = False
            scope = scope.above
        for star in frame.file.stars:
            dotted = f"{self.project.absolute(star, frame.file)}.{node.id}"
            found = self.definition(dotted, frame.file)
            if not any(isinstance(atom, Outside) for atom in found):
                return found
        if node.id == "super":
            return {Outside("builtins.super"): None}
        return {Outside(f"builtins.{node.id}"): None}

    def _bindings(self, node: ast.Name, scope: Scope, *, innermost: bool) -> list[Binding]:
        added = self.project.added(scope, node.id)
        everything = [*scope.bindings[node.id], *(binding for binding, _ in added)]
        if scope.kind == "comprehension" or not innermost or len(everything) == 1:
            return everything
        if scope not in self._reaching:
            self._reaching[scope] = reaching(scope, self.project.added_in(scope))
        reached = self._reaching[scope].get(node)
        if reached is None:
            return everything
        # `nonlocal` and `global` of other functions, which may run at any time.
        return [b for b in everything if b in reached or b.scope.home is not scope] or [*reached]

    def definition(self, dotted: str, importer: FileIndex) -> Value:
        """Return what a dotted name from an import stands for."""
        found = self.project.definition(dotted, importer)
        if isinstance(found, FileIndex):
            return {ModuleRef(found): None}
        if isinstance(found, Binding):
            name = dotted.rpartition(".")[2]
            return self.module_member(found.scope.file, name)
        return {Outside(dotted): None}

    def module_member(self, file: FileIndex, name: str) -> Value:
        """Return what a name at the top of a file stands for, whoever set it."""
        bindings = file.module.bindings.get(name, [])
        frame = self.frame(file)
        return self.cell(
            ("module", file, name), lambda: union([self.bound(b, frame) for b in bindings])
        )

    def bound(self, binding: Binding, frame: Frame) -> Value:
        """Return what one binding gives its target."""
        return self.cell(("bound", binding, frame), lambda: self._bound(binding, frame))

    def _bound(self, binding: Binding, frame: Frame) -> Value:
        file = binding.scope.file
        place = Place(binding.target, file)
        match binding.kind:
            case "function":
                return decorated.defined(self, binding.scope.file.scopes[binding.node])
            case "class":
                return {ClassRef(self.project.classes[binding.node]): None}
            case "param":
                return calls.parameter(self, binding, frame)
            case "import":
                return self.definition(imported(binding, self.project), file)
            case "caught":
                return declared.caught(self, binding)
        if binding.value is None:
            return self._annotated(binding)
        value = self.value(binding.value, frame)
        if binding.kind == "with":
            value = calls.entered(self, value, binding, frame)
        if binding.kind == "for":
            value = containers.iterate(self, value, Place(binding.value, file))
        if binding.kind == "aug" and not any(isinstance(atom, Box) for atom in value):
            return {Plain("a result of arithmetic", place): None}
        for part in binding.route:
            value = containers.component(self, value, part, Place(binding.target, file))
        return self._told(value, binding, place)

    def _told(self, value: Value, binding: Binding, place: Place) -> Value:
        """Add the step that a binding is, in words a reader can follow."""
        assert binding.value is not None
        thing: ast.expr = binding.value
        if isinstance(thing, ast.Constant) or thing in self.seeds:
            return value
        relation = "is"
        if binding.kind == "for":
            relation, thing, rest = makers.source_of(thing, binding.route)
            if rest:
                relation = "comes out of"
        elif binding.kind == "with":
            relation = "is what `with` gives for"
        elif binding.route:
            relation, thing = unpacked(thing, binding.route)
        return stepped(value, place, relation, Place(thing, place.file), place)

    def _annotated(self, binding: Binding) -> Value:
        """Return what an annotation without a value promises."""
        statement = binding.node
        if isinstance(statement, ast.AnnAssign):
            return declared.by_annotation(
                self, statement.annotation, binding.scope.file, "nothing in the files sets it"
            )
        return {}

    def _attribute(self, node: ast.Attribute, frame: Frame) -> Value:
        def compute() -> Value:
            place = Place(node, frame.file)
            receivers = self.value(node.value, frame)
            return union(
                [
                    prefixed(step, members.member(self, atom, node.attr, place))
                    for atom, step in receivers.items()
                ]
            )

        return self.cell(("attribute", node, frame), compute)

    def _call(self, node: ast.Call, frame: Frame) -> Value:
        return self.cell(("call", node, frame), lambda: calls.called(self, node, frame))

    def _subscript(self, node: ast.Subscript, frame: Frame) -> Value:
        def compute() -> Value:
            value = self.value(node.value, frame)
            return containers.item(self, value, node.slice, Place(node, frame.file))

        return self.cell(("item", node, frame), compute)

    def _box(self, node: ast.expr, frame: Frame) -> Value:
        return {Box(BOX_KINDS[type(node)], node, frame): None}

    def _choice(self, node: ast.IfExp, frame: Frame) -> Value:
        if outside.unwraps(node, self.unwrap):
            return {Plain("an unwrapped module", Place(node, frame.file)): None}
        return union((self.value(node.body, frame), self.value(node.orelse, frame)))

    def _either(self, node: ast.BoolOp, frame: Frame) -> Value:
        return union([self.value(part, frame) for part in node.values])

    def _walrus(self, node: ast.NamedExpr, frame: Frame) -> Value:
        return self.value(node.value, frame)

    def _awaited(self, node: ast.Await, frame: Frame) -> Value:
        return containers.awaited(self, self.value(node.value, frame))

    def _inner(self, node: ast.Starred, frame: Frame) -> Value:
        return self.value(node.value, frame)

    def _sent(self, node: ast.Yield, frame: Frame) -> Value:
        """Return what is sent into a generator; nobody follows which one."""
        if any(True for _ in self.project.calls("send")):
            why = f"it is what is sent into a generator ({Place(node, frame.file).at})"
            return {Unknown(why, sure=True): None}
        return {Nothing(): None}

    def _delegated(self, node: ast.YieldFrom, frame: Frame) -> Value:
        """Return what the generator that was delegated to returns in the end."""
        found: list[Value] = []
        for atom, way in self.value(node.value, frame).items():
            if isinstance(atom, Box) and atom.kind == "yields":
                scope = atom.frame.file.scopes[atom.node]
                given = [self.value(returned, atom.frame) for returned in scope.returns]
                found.append(prefixed(way, union(given)))
            elif isinstance(atom, Unknown):
                found.append({atom: way})
        return union(found) or {Nothing(): None}

    def _lambda(self, node: ast.Lambda, frame: Frame) -> Value:
        return {Function(frame.file.scopes[node]): None}

    def _constant(self, node: ast.Constant, frame: Frame) -> Value:
        if node.value is None:
            return {Nothing(): None}
        return {Plain("a constant", Place(node, frame.file)): None}

    def _operation(self, node: ast.BinOp | ast.UnaryOp, frame: Frame) -> Value:
        # Operands are looked at more than once, and a chain of operators is as deep as it is long.
        return self.cell(("operation", node, frame), lambda: self._operated(node, frame))

    def _operated(self, node: ast.BinOp | ast.UnaryOp, frame: Frame) -> Value:
        if isinstance(node, ast.UnaryOp):
            return calls.by_operator(self, node, frame)
        if isinstance(node.op, ast.Sub):
            left = self.value(node.left, frame)
            if any(isinstance(atom, Box) for atom in left):
                return left
        if isinstance(node.op, ast.Add | ast.BitOr | ast.Mult | ast.BitAnd | ast.BitXor):
            both = union((self.value(node.left, frame), self.value(node.right, frame)))
            boxes = [atom for atom in both if isinstance(atom, Box)]
            if boxes:
                dicts = all(box.kind in containers.DICTS for box in boxes)
                return {Box("joined dicts" if dicts else "joined", node, frame): None}
        return calls.by_operator(self, node, frame)


_EXPRESSIONS: dict[type[ast.expr], Callable[..., Value]] = {
    ast.Name: Evaluation._name,
    ast.Attribute: Evaluation._attribute,
    ast.Call: Evaluation._call,
    ast.Subscript: Evaluation._subscript,
    ast.IfExp: Evaluation._choice,
    ast.BoolOp: Evaluation._either,
    ast.NamedExpr: Evaluation._walrus,
    ast.Await: Evaluation._awaited,
    ast.Yield: Evaluation._sent,
    ast.YieldFrom: Evaluation._delegated,
    ast.UnaryOp: Evaluation._operation,
    ast.Starred: Evaluation._inner,
    ast.Lambda: Evaluation._lambda,
    ast.Constant: Evaluation._constant,
    ast.BinOp: Evaluation._operation,
    **dict.fromkeys(BOX_KINDS, Evaluation._box),
}
