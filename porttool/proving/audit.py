"""A second opinion on every decided place, from names alone.

Written apart from the dataflow, and knowing much less: it follows one assignment, one loop, one
`zip` at a time, and only where nothing else of that name is bound. Mostly it cannot tell. Where it
can, and the decision is the opposite, one of the two is wrong, and a person has to look.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal

from porttool.frozen import dataclass
from porttool.learning.lesson import Lesson
from porttool.proving.bindings import Bound, FileNames, Place
from porttool.proving.patterns import Tail, match, parse_pattern
from porttool.source.syntax import Names, Source, Span, span_of, text_of

Kind = Literal["wrapped", "plain"]
Shape = Literal["object", "list", "dict"]

_DEPTH = 6  # names followed from one to the next before the audit gives up
_PLAIN_CLASS = re.compile(
    r"(?:Optimizer|Adam|AdamW|Adamax|NAdam|RAdam|Adagrad|Adadelta|SGD|ASGD|RMSprop|Rprop|LBFGS"
    r"|SparseAdam|\w*LR|\w*Scheduler|GradScaler|\w*Sampler|DataLoader|\w*ReplayBuffer)"
)
_NAMED_KINDS = ("object", "rebind", "list", "dict")


@dataclass(frozen=True)
class NamedSeed:
    """What the audit has to know of a seed: where it is bound, to which name, and how wrapped."""

    path: str
    scope: str
    line: int
    target: str | None
    kind: str
    call: str


@dataclass(frozen=True)
class Judged:
    """What the audit has to know of a decision: the place, and what is done there."""

    key: str
    path: str
    span: Span
    action: str


@dataclass(frozen=True)
class Opinion:
    """What an expression is by its name; `why` tells how that was read off the text."""

    kind: Kind
    shape: Shape
    why: str


@dataclass(frozen=True)
class Doubt:
    """A place where names say the opposite of what was decided; `key` is None where nothing was."""

    key: str | None
    path: str
    scope: str
    line: int
    column: int
    text: str
    span: Span
    reason: str


def audit_names(
    sources: Mapping[str, Source],
    lesson: Lesson,
    placed: Iterable[NamedSeed],
    decisions: Iterable[Judged],
    settled: Collection[str] = (),
) -> tuple[Doubt, ...]:
    """Return where names alone contradict the decisions; keys in `settled` are not looked at.

    A place that is asked about contradicts nothing: somebody looks at it already.
    """
    methods = _methods(lesson)
    if not methods:
        return ()
    audit = _Audit(sources, lesson, tuple(placed))
    ordered = sorted(decisions, key=lambda decision: decision.action != "hazard")
    judged = {(decision.path, decision.span): decision for decision in ordered}
    doubts = []
    for path, source in sources.items():
        if not any(f".{method}" in source.text for method in methods):
            continue
        for place in audit.names(path).calls(methods):
            span = span_of(source, place.node)
            decision = judged.get((path, span))
            action = decision.action if decision else "nothing"
            if action in ("ask", "hazard") or (decision and decision.key in settled):
                continue
            opinion = audit.opinion(source, place)
            wrong = opinion is not None and (opinion.kind == "wrapped") != (action == "rewrite")
            if opinion is None or not wrong or (decision is None and opinion.kind == "plain"):
                continue
            doubts.append(
                Doubt(
                    key=decision.key if decision else None,
                    path=path,
                    scope=place.scope,
                    line=place.node.lineno,
                    column=span.start - source.line_starts[place.node.lineno - 1],
                    text=text_of(source, place.node),
                    span=span,
                    reason=_reason(opinion, action),
                )
            )
    return tuple(doubts)


def _reason(opinion: Opinion, action: str) -> str:
    done = {"skip": "left alone", "rewrite": "rewritten"}.get(action, "not looked at")
    return f"the audit by names disagrees: {opinion.why}, and it would be {done}"


def _methods(lesson: Lesson) -> frozenset[str]:
    """Return the methods that rules rewrite on a receiver (`$X.state_dict()`: "state_dict")."""
    found = set()
    for rule in lesson.rules:
        pattern = parse_pattern(rule.before)
        function = pattern.func if isinstance(pattern, ast.Call) else None
        on_name = isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)
        if on_name and isinstance(function, ast.Attribute) and rule.before.startswith("$X."):
            found.add(function.attr)
    return frozenset(found)


class _Audit:
    """The files by their names, read one by one as they are needed."""

    def __init__(
        self, sources: Mapping[str, Source], lesson: Lesson, placed: tuple[NamedSeed, ...]
    ) -> None:
        self._sources = sources
        self._placed = [seed for seed in placed if seed.target and seed.kind in _NAMED_KINDS]
        self._makers = Counter((s.path, s.scope) for s in placed if s.kind == "return" and s.scope)
        self._files: dict[str, FileNames] = {}
        self._helpers = {helper.name.rpartition(".")[2] for helper in lesson.helpers}
        self._templates = [parse_pattern(rule.after) for rule in lesson.rules]

    def names(self, path: str) -> FileNames:
        """Return a file by its names; each is walked once, and only if somebody asks."""
        if path not in self._files:
            self._files[path] = FileNames(self._sources[path])
        return self._files[path]

    def opinion(self, source: Source, place: Place) -> Opinion | None:
        """Return what the receiver of a call is by its name, None where names cannot tell."""
        call = place.node
        assert isinstance(call, ast.Call)
        assert isinstance(call.func, ast.Attribute)
        if place.scope.rpartition(".")[2] in self._helpers or self._is_routed(source, place):
            return None
        receiver = call.func.value
        written = ast.unparse(receiver)
        if any(written in ast.unparse(test) for test in place.tests):
            return None  # the program asks about the object itself before it calls
        found = self._resolve(receiver, place, _DEPTH)
        return found if found is not None and found.shape == "object" else None

    def _is_routed(self, source: Source, place: Place) -> bool:
        """Tell whether a call is part of what a rule writes, around an object of its own."""
        names = Names(source.tree)
        for outer in [place.node, *place.above]:
            for template in self._templates:
                found = match(template, outer, names)
                if found is None:
                    continue
                held = [value for values in found.found.values() for value in values]
                inside = [
                    node
                    for value in held
                    for part in (
                        [*value.args, *value.keywords] if isinstance(value, Tail) else [value]
                    )
                    for node in ast.walk(part)
                ]
                if not any(node is place.node for node in inside):
                    return True
        return False

    # -- names, followed one at a time -------------------------------------------------------

    def _resolve(self, node: ast.expr, at: Place, depth: int) -> Opinion | None:
        if depth == 0:
            return None
        if isinstance(node, ast.Name):
            return self._name(node.id, at, depth)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, at, depth)
        if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Slice):
            return _element(self._resolve(node.value, at, depth - 1), ("list", "dict"))
        if isinstance(node, ast.Call):
            return self._call(node, at)
        if isinstance(node, ast.ListComp):
            return _collection(self._resolve(node.elt, at.inside(node), depth - 1), "list")
        if isinstance(node, ast.DictComp):
            return _collection(self._resolve(node.value, at.inside(node), depth - 1), "dict")
        return None

    def _name(self, name: str, at: Place, depth: int) -> Opinion | None:
        scope, bindings = at.file.lookup(name, at)
        seed = self._seed_of(name, at.file, scope, bindings, at)
        if seed is not None or self._is_target(name, at.file.path, scope):
            return seed
        return self._single(bindings, depth)

    def _attribute(self, node: ast.Attribute, at: Place, depth: int) -> Opinion | None:
        if not (isinstance(node.value, ast.Name) and node.value.id == at.self_name and at.owner):
            return self._stored_anywhere(node.attr, depth)
        if len(at.file.lookup(at.self_name, at)[1]) != 1:
            return None  # `self` is bound again
        target = f"self.{node.attr}"
        for file, owner in self._ancestry(at.file, at.owner):
            if file.is_defined(owner, node.attr):
                return None  # what a property or a field gives is not read off its name
            bindings = file.attributes(owner, node.attr)
            seed = self._seed_of(target, file, owner, bindings, at)
            if seed is not None or self._is_target(target, file.path, owner):
                return seed
            if bindings:
                return self._single(bindings, depth)
        return None

    def _single(self, bindings: list[Bound], depth: int) -> Opinion | None:
        """Return what a name is when all that it is bound to is the same; else nobody can tell."""
        found = {self._bound(binding, depth) for binding in bindings}
        if len(found) == 1:
            return found.pop()
        kinds = {(opinion.kind, opinion.shape) if opinion else None for opinion in found}
        first = next(iter(found), None)
        return first if first and len(kinds) == 1 and first.kind == "plain" else None

    def _bound(self, binding: Bound, depth: int) -> Opinion | None:
        if binding.annotation is not None and binding.value is None:
            return self._annotated(binding.annotation)
        if binding.value is None:
            return None
        found = self._resolve(binding.value, binding.at, depth - 1)
        if binding.how == "element":
            return _element(found, ("list",))
        if binding.how == "value":
            return _element(found, ("dict",))
        return found if binding.how == "is" else None

    def _seed_of(
        self, target: str, file: FileNames, scope: str, bindings: list[Bound], at: Place
    ) -> Opinion | None:
        """Return that a name is a seed's, where every binding of it is a seed and comes before."""
        seeds = self._seeds(target, file.path, scope)
        stores = {id(binding.statement) for binding in bindings}
        here = [seed for seed in seeds if seed.path == at.file.path and seed.scope == at.scope]
        if not seeds or len(stores) != len({seed.line for seed in seeds}):
            return None
        if any(seed.line >= at.node.lineno for seed in here):
            return None
        shapes = {_shape(seed) for seed in seeds}
        values = [binding.value for binding in bindings]
        if len(shapes) != 1 or any(binding.how != "is" for binding in bindings):
            return None
        shape = shapes.pop()
        # Of `[a, b]` one may be wrapped and the other not; of a comprehension all are.
        whole = all(isinstance(value, ast.ListComp | ast.DictComp) for value in values)
        if shape != "object" and not whole:
            return None
        if "." not in target and any(binding.conditional for binding in bindings):
            return None
        line = min(seed.line for seed in seeds)
        return Opinion("wrapped", shape, f"`{target}` is wrapped at {file.path}:{line}")

    def _seeds(self, target: str, path: str, scope: str) -> list[NamedSeed]:
        """Return the seeds of a local or module name in a scope, of `self.x` in a class."""
        return [
            seed
            for seed in self._placed
            if seed.target == target
            and seed.path == path
            and (seed.scope.rpartition(".")[0] if "." in target else seed.scope) == scope
        ]

    def _is_target(self, target: str, path: str, scope: str) -> bool:
        return bool(self._seeds(target, path, scope))

    def _ancestry(self, file: FileNames, owner: str) -> Iterator[tuple[FileNames, str]]:
        """Yield a class and its bases, as far as each base is one class of one file by its name."""
        seen = set()
        here: tuple[FileNames, str] | None = (file, owner)
        while here is not None and (here[0].path, here[1]) not in seen:
            seen.add((here[0].path, here[1]))
            yield here
            bases = [base for base in here[0].bases(here[1]) if base not in _ROOTS]
            here = self._class_named(bases[0]) if len(bases) == 1 else None

    def _class_named(self, name: str) -> tuple[FileNames, str] | None:
        found = [
            self.names(path)
            for path, source in self._sources.items()
            if re.search(rf"(?m)^class {re.escape(name)}\b", source.text)
        ]
        return (found[0], name) if len(found) == 1 else None

    def _stored_anywhere(self, attribute: str, depth: int) -> Opinion | None:
        """Return that an attribute is plain, where every file that sets one of that name says so.

        Whose attribute it is, names do not tell; so none may be a seed's.
        """
        if any(seed.target and seed.target.endswith(f".{attribute}") for seed in self._placed):
            return None
        bindings = [
            binding
            for path, source in self._sources.items()
            if attribute in source.text
            for binding in self.names(path).attributes(None, attribute)
        ]
        found = self._single(bindings, depth)
        return found if found and found.kind == "plain" else None

    def _call(self, node: ast.Call, at: Place) -> Opinion | None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else None
        if isinstance(node.func, ast.Name):
            name = node.func.id
            scope, bindings = at.file.lookup(name, at)
            makers = self._makers[at.file.path, name] if not scope and len(bindings) == 1 else 0
            made = makers and makers == at.file.returns(name) and _is_bare(bindings[0].statement)
            if made:
                return Opinion("wrapped", "object", f"`{name}` returns a wrapped object")
        if name and self._is_plain_class(name):
            return Opinion("plain", "object", f"it is made by `{ast.unparse(node.func)}`")
        return None

    def _annotated(self, annotation: ast.expr) -> Opinion | None:
        name = annotation.attr if isinstance(annotation, ast.Attribute) else None
        name = annotation.id if isinstance(annotation, ast.Name) else name
        if name and self._is_plain_class(name):
            return Opinion("plain", "object", f"it is annotated `{ast.unparse(annotation)}`")
        return None

    def _is_plain_class(self, name: str) -> bool:
        """Tell whether a class is an optimizer or the like by its name, and none of the project."""
        own = any(
            re.search(rf"(?m)^\s*(?:class|def) {name}\b", source.text)
            for source in self._sources.values()
            if name in source.text
        )
        return bool(_PLAIN_CLASS.fullmatch(name)) and not own


def _shape(seed: NamedSeed) -> Shape:
    if seed.call.startswith("list(map("):
        return "list"
    if seed.kind == "rebind":
        return "list" if seed.call.startswith("[") else "dict" if seed.call[0] == "{" else "object"
    return "list" if seed.kind == "list" else "dict" if seed.kind == "dict" else "object"


def _is_bare(statement: ast.AST) -> bool:
    return isinstance(statement, ast.FunctionDef) and not statement.decorator_list


_ROOTS = frozenset({"object", "Module", "ABC", "Protocol", "Generic"})


def _element(found: Opinion | None, shapes: tuple[str, ...]) -> Opinion | None:
    if found is None or found.shape not in shapes:
        return None
    return Opinion(found.kind, "object", f"{found.why}, and it is an element of that")


def _collection(found: Opinion | None, shape: Shape) -> Opinion | None:
    if found is None or found.shape != "object":
        return None
    return Opinion(found.kind, shape, found.why)
