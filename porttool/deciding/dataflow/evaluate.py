"""Values of expressions, worked out backwards from the ones that are asked for.

A question follows names to their bindings, attributes to their assignments, parameters to the
calls, calls to the returns.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Hashable, Mapping
from functools import partial

from porttool.deciding.dataflow import calls, containers, declared, members, outside
from porttool.deciding.dataflow.fileindex import Binding, FileIndex, Scope
from porttool.deciding.dataflow.fixpoint import Answers
from porttool.deciding.dataflow.project import ClassInfo, Project, imported
from porttool.deciding.dataflow.reaching import reaching
from porttool.deciding.dataflow.values import (
    Box,
    ClassRef,
    Frame,
    Function,
    Instance,
    ModuleRef,
    Nested,
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
        callee: str,
        unwrap: str,
        pending: Mapping[ast.AST, str] | None = None,
    ) -> None:
        self.project = project
        self.seeds = seeds
        self.pending = pending or {}
        self.callee = callee
        self.unwrap = unwrap
        self._frames: dict[Hashable, Frame] = {}
        self._reaching: dict[Scope, dict[ast.Name, frozenset[Binding]]] = {}
        self._answers = Answers()
        self._additions: dict[tuple[ast.AST, str], dict[containers.Addition, None]] = {}
        self._adding = False

    def ask(self, node: ast.expr, file: FileIndex) -> Value:
        """Return the settled value of an expression."""
        limit = sys.getrecursionlimit()
        # A value may come a long way; on Python 3.11 its frames are not on the C stack.
        sys.setrecursionlimit(max(limit, _DEEP))
        try:
            frame = self.frame(file)
            return self._answers.settled(("asked", node), lambda: self.value(node, frame))
        finally:
            sys.setrecursionlimit(limit)

    def cell(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """Answer a question that has a name, once, whatever circle it is part of."""
        return self._answers.cell(key, compute)

    def additions(self, box: Box) -> list[containers.Addition]:
        """Return the places known to add to a container; who asks is told of further ones."""
        self._answers.use(("additions", box.node, box.kind))
        if not self._adding:
            self._adding = True
            for file in self.project.files.values():
                for addition in containers.additions(file):
                    self._answers.later(addition, partial(self._feed, addition))
        return list(self._additions.get((box.node, box.kind), ()))

    def _feed(self, addition: containers.Addition) -> Value:
        """Note for every container that a place may add to that it does."""
        for atom in self.value(addition.receiver, self.frame(addition.file)):
            if isinstance(atom, Box):
                known = self._additions.setdefault((atom.node, atom.kind), {})
                if addition not in known:
                    known[addition] = None
                    self._answers.grew(("additions", atom.node, atom.kind))
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
        evaluate = _EXPRESSIONS.get(type(node))
        if evaluate is None:
            return {Plain("a plain value", Place(node, frame.file)): None}
        return evaluate(self, node, frame)

    def _name(self, node: ast.Name, frame: Frame) -> Value:
        return self.cell(("name", node, frame), lambda: self._look_up(node, frame))

    def _look_up(self, node: ast.Name, frame: Frame) -> Value:
        start: Scope | None = frame.file.scope_at.get(node, frame.file.module)
        scope = start
        innermost = True  # nothing but comprehensions between the name and the scope
        while scope is not None:
            if scope.kind == "class" and not innermost:
                scope = scope.above
                continue
            if node.id in scope.bindings:
                bindings = self._bindings(node, scope, innermost)
                if bindings:
                    values = [self.bound(b, self.frame_for(b.scope, frame)) for b in bindings]
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

    def _bindings(self, node: ast.Name, scope: Scope, innermost: bool) -> list[Binding]:
        everything = scope.bindings[node.id]
        if scope.kind == "comprehension" or not innermost or len(everything) == 1:
            return everything
        if scope not in self._reaching:
            self._reaching[scope] = reaching(scope)
        reached = self._reaching[scope].get(node)
        if reached is None:
            return everything
        return [binding for binding in everything if binding in reached] or list(reached)

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
                return {Function(binding.scope.file.scopes[binding.node]): None}
            case "class":
                return {ClassRef(self.project.classes[binding.node]): None}
            case "param":
                return calls.parameter(self, binding, frame)
            case "import":
                return self.definition(imported(binding, self.project), file)
            case "other":
                return {Plain("something caught or matched", place): None}
        if binding.value is None:
            return self._annotated(binding)
        value = self.value(binding.value, frame)
        if binding.kind == "aug":
            others = [atom for atom in value if isinstance(atom, Box)]
            return value if others else {Plain("a result of arithmetic", place): None}
        if binding.kind == "with":
            value = calls.entered(self, value, binding, frame)
        if binding.kind == "for":
            value = containers.iterate(self, value, Place(binding.value, file))
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
            relation, thing, rest = containers.source_of(thing, binding.route)
            if rest:
                relation = "comes out of"
        elif binding.kind == "with":
            relation = "is what `with` gives for"
        elif binding.route:
            relation, thing = _unpacked(thing, binding.route)
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
        return {Box(_BOXES[type(node)], node, frame): None}

    def _choice(self, node: ast.IfExp, frame: Frame) -> Value:
        if outside.unwraps(node, self.unwrap):
            return {Plain("an unwrapped module", Place(node, frame.file)): None}
        return union((self.value(node.body, frame), self.value(node.orelse, frame)))

    def _either(self, node: ast.BoolOp, frame: Frame) -> Value:
        return union([self.value(part, frame) for part in node.values])

    def _walrus(self, node: ast.NamedExpr, frame: Frame) -> Value:
        return self.value(node.value, frame)

    def _inner(self, node: ast.Await | ast.Starred, frame: Frame) -> Value:
        return self.value(node.value, frame)

    def _lambda(self, node: ast.Lambda, frame: Frame) -> Value:
        return {Function(frame.file.scopes[node]): None}

    def _constant(self, node: ast.Constant, frame: Frame) -> Value:
        if node.value is None:
            return {Nothing(): None}
        return {Plain("a constant", Place(node, frame.file)): None}

    def _operation(self, node: ast.BinOp, frame: Frame) -> Value:
        if isinstance(node.op, ast.Add | ast.BitOr | ast.Mult):
            both = union((self.value(node.left, frame), self.value(node.right, frame)))
            boxes = [atom for atom in both if isinstance(atom, Box)]
            if boxes:
                dicts = all(box.kind in containers.DICTS for box in boxes)
                return {Box("joined dicts" if dicts else "joined", node, frame): None}
        return {Plain("a result of arithmetic", Place(node, frame.file)): None}

    # -- what is inside of modules -----------------------------------------------------------

    def owned(self, cls: ClassInfo) -> Value:
        """Return the wrapped objects that a torch module holds as its parts."""
        if not cls.is_module:
            return {}
        return self.cell(("owned", cls), lambda: self._owned(cls))

    def _owned(self, cls: ClassInfo) -> Value:
        family = {member.scope for member in cls.family()}
        names = {
            name
            for file in self.project.files.values()
            for name, stores in file.stores.items()
            if any(store.scope.home.owner in family for store in stores)
        }
        found: list[Value] = []
        for name in sorted(names):
            value = members.member(self, Instance(cls), name, Place(cls.node, cls.scope.file))
            found.append(self.wrapped_inside(value))
        return union(found)

    def _wrapped_contents(self, box: Box) -> Value:
        return self.wrapped_inside(containers.contents(self, box))

    def wrapped_inside(self, value: Value) -> Value:
        """Return the wrapped objects among a value and inside its modules and their containers.

        What a person still has to decide counts as wrapped here.
        """
        found: list[Value] = []
        for atom, step in value.items():
            still_open = isinstance(atom, Unknown) and atom.sure
            if isinstance(atom, Wrapped | Nested) or still_open:
                found.append({atom: step})
            elif isinstance(atom, Box) and atom.kind == "modules":
                inside = partial(self._wrapped_contents, atom)
                found.append(self.cell(("inside", atom), inside))
            elif isinstance(atom, Instance):
                found.append(self.owned(atom.cls))
        return union(found)


def _unpacked(node: ast.expr, route: tuple[int | str, ...]) -> tuple[str, ast.expr]:
    """Follow an unpacking into a written-out tuple; else say that the target is a part of it."""
    while route and isinstance(node, ast.Tuple | ast.List):
        part = route[0]
        plain = not any(isinstance(item, ast.Starred) for item in node.elts)
        if not (plain and isinstance(part, int) and -len(node.elts) <= part < len(node.elts)):
            break
        node, route = node.elts[part], route[1:]
    return ("is a part of" if route else "is"), node


_BOXES: dict[type[ast.expr], str] = {
    ast.List: "literal",
    ast.Set: "literal",
    ast.Tuple: "tuple",
    ast.Dict: "dict",
    ast.ListComp: "comprehension",
    ast.SetComp: "comprehension",
    ast.GeneratorExp: "comprehension",
    ast.DictComp: "dict comprehension",
}

_EXPRESSIONS: dict[type[ast.expr], Callable[..., Value]] = {
    ast.Name: Evaluation._name,
    ast.Attribute: Evaluation._attribute,
    ast.Call: Evaluation._call,
    ast.Subscript: Evaluation._subscript,
    ast.IfExp: Evaluation._choice,
    ast.BoolOp: Evaluation._either,
    ast.NamedExpr: Evaluation._walrus,
    ast.Await: Evaluation._inner,
    ast.Starred: Evaluation._inner,
    ast.Lambda: Evaluation._lambda,
    ast.Constant: Evaluation._constant,
    ast.BinOp: Evaluation._operation,
    **dict.fromkeys(_BOXES, Evaluation._box),
}
