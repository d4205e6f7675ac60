"""Which expressions may hold a wrapped object, and the reasons in words."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal, NamedTuple

from porttool.deciding.dataflow import containers, makers, narrowing, opaque, parts
from porttool.deciding.dataflow.added import Added, count_in
from porttool.deciding.dataflow.evaluate import Evaluation
from porttool.deciding.dataflow.fileindex import FileIndex
from porttool.deciding.dataflow.outside import MADE
from porttool.deciding.dataflow.project import Project
from porttool.deciding.dataflow.values import (
    Atom,
    Box,
    ClassRef,
    Instance,
    Nested,
    Nothing,
    Outside,
    Place,
    Plain,
    Step,
    Unknown,
    Value,
    Way,
    Wrapped,
    steps_of,
    union,
)
from porttool.deciding.sites import Decision, PlacedSeed, Told
from porttool.frozen import dataclass
from porttool.learning.lesson import Lesson
from porttool.source.nodes import nodes_of
from porttool.source.syntax import Source, Span, line_at, span_of

Kind = Literal["definite", "may", "no", "unknown"]


@dataclass(frozen=True)
class Holding:
    """What is known of one expression; `chain` gives the reasons from the use to the origin.

    `steps` are the same, each with its place: what `chain` says in one breath may be two of them.
    `shape` says how a wrapped object is held: itself ("object"), by a wrapper around it
    ("nested"), or as a part of a module with keys of its own ("owner"). `hint` is the name or
    annotation to judge an unknown one by; `sure` says that it must be asked whatever the hint.
    """

    kind: Kind
    chain: tuple[str, ...]
    shape: Literal["object", "nested", "owner"] = "object"
    hint: str = ""
    sure: bool = False
    steps: tuple[Told, ...] = ()


class _Said(NamedTuple):
    """A reason in words, and the steps that it tells of."""

    words: str
    steps: tuple[Told, ...]


_SHOWN = 4  # so many steps of a way are told before it is cut short


class Flow:
    """The analysed files; every question is answered when it is asked, and remembered."""

    def __init__(self, project: Project, evaluation: Evaluation, lesson: Lesson) -> None:
        self.project = project
        self.evaluation = evaluation
        self.lesson = lesson
        self.judged: list[tuple[str, ast.expr]] = []

    def holds(self, path: str, node: ast.expr) -> Holding:
        """Tell whether an expression of a file may hold a wrapped object."""
        file = self.project.files[path]
        value = self.evaluation.ask(node, file)
        return self._judged(value, Place(node, file))

    def value(self, path: str, node: ast.expr) -> Value:
        """Return everything that an expression may stand for."""
        return self.evaluation.ask(node, self.project.files[path])

    def qualified(self, path: str, node: ast.expr) -> str | None:
        """Return the dotted name of something imported from outside the analysed files."""
        for atom in self.value(path, node):
            if isinstance(atom, Outside):
                return atom.name
        return None

    def judge(self, path: str, node: ast.expr) -> Holding:
        """Tell what `holds` tells of an expression that a decision rests on, and remember it."""
        self.judged.append((path, node))
        return self.holds(path, node)

    def carries(self, path: str, node: ast.expr) -> Holding | None:
        """Tell how an expression may hold a wrapped object, itself or in containers."""
        file = self.project.files[path]
        value = self.evaluation.ask_held(node, file)
        return self._without_doubts(value, Place(node, file))

    def pickles(self, path: str, node: ast.expr) -> Holding | None:
        """Tell how a wrapped object may come along when an expression is pickled."""
        file = self.project.files[path]
        value = self.evaluation.ask_pickled(node, file)
        return self._without_doubts(value, Place(node, file))

    def _without_doubts(self, value: Value, place: Place) -> Holding | None:
        found: Value = {atom: way for atom, way in value.items() if not isinstance(atom, Unknown)}
        return self._judged(found, place) if found else None

    def gives_wrapped(self, path: str, call: ast.Call) -> bool:
        """Tell whether a call is given a wrapped object, or a container of them."""
        return bool(self.evaluation.ask_given(call, self.project.files[path]))

    def kinds_of_classes(self, path: str, classes: ast.expr) -> set[str]:
        """Tell what the classes of an `isinstance` are: "module", "optimizer", "plain" or "?"."""
        self.value(path, classes)
        file = self.project.files[path]
        return narrowing.kinds_of(self.evaluation, classes, self.evaluation.frame(file))

    def is_class(self, path: str, node: ast.expr) -> bool:
        """Tell whether an expression is a class: one of the files, or one of a torch module."""
        return any(
            isinstance(atom, ClassRef)
            or (isinstance(atom, Outside) and atom.name.startswith("torch.nn."))
            for atom in self.value(path, node)
        )

    def is_container(self, path: str, node: ast.expr) -> bool:
        """Tell whether an expression may be a list, a dictionary, an nn.ModuleList or the like."""
        return any(isinstance(atom, Box) for atom in self.value(path, node))

    def _judged(self, value: Value, place: Place) -> Holding:
        origins = {opaque.origin_of(atom) for atom in value}
        doubts = [self.evaluation.given(origin) for origin in origins if origin is not None]
        value = union([value, *doubts])
        wrapped = [atom for atom in value if isinstance(atom, Wrapped)]
        unknown = [atom for atom in value if isinstance(atom, Unknown)]
        inside = [atom for atom in value if self._inside(atom)]
        others = [
            atom
            for atom in value
            if not isinstance(atom, Wrapped | Unknown | Nothing) and atom not in inside
        ]
        hint = unknown[0].hint if unknown else ""
        sure = any(atom.sure for atom in unknown)
        if wrapped:
            # No rule cleans what is further in, whatever it does to the object itself.
            sure = sure or bool(inside)
            chain = _way(value[wrapped[0]], wrapped[0], place)
            if not (unknown or others or inside):
                return _holding("definite", chain)
            other = [*inside, *others, *unknown][0]
            told = self._around if other in inside else _way
            doubt = _or_else(told(value[other], other, place))
            return _holding("may", (*chain, doubt), hint=hint, sure=sure)
        if inside:
            kind: Kind = "may" if unknown or others else "definite"
            atom = inside[0]
            if all(isinstance(part, Unknown) for part in self._inside(atom)):
                kind = "unknown"
            shape: Literal["nested", "owner"] = "nested" if isinstance(atom, Nested) else "owner"
            chain = self._around(value[atom], atom, place)
            return _holding(kind, chain, shape=shape, sure=kind == "unknown")
        if unknown:
            reasons = [said for atom in unknown for said in _way(value[atom], atom, place)]
            return _holding("unknown", reasons, hint=hint, sure=sure)
        if others:
            return _holding("no", _way(value[others[0]], others[0], place))
        if value and _is_set_by_others(place):
            # Code that calls a method of it is not written for None.
            why = f"`{place.text}` is None as far as the analysed files show; somebody sets it"
            return Holding("unknown", (why,), hint=place.text.rpartition(".")[2])
        if value:
            return Holding("no", (f"`{place.text}` is None",))
        return Holding("unknown", (f"nothing in the analysed files gives `{place.text}` a value",))

    def _inside(self, atom: Atom) -> Value:
        """Return the wrapped objects that a module holds as parts of its own."""
        if isinstance(atom, Nested):
            return {atom: None}
        if isinstance(atom, Instance):
            return parts.owned(self.evaluation, atom.cls)
        if isinstance(atom, Box) and makers.is_modules(atom):
            return parts.wrapped_inside(self.evaluation, containers.contents(self.evaluation, atom))
        return {}

    def _around(self, way: Way | None, atom: Atom, place: Place) -> tuple[_Said, ...]:
        prefix = self.lesson.wrapper.prefix
        if isinstance(atom, Nested):
            first = _way(way, atom, place)
            keys = f"its keys become `module.{prefix}*`, which the rule does not clean"
            return (*first, _Said(keys, (Told(keys),)))
        parts = self._inside(atom)
        part, part_way = next(iter(parts.items()))
        chain = _way(part_way, part, place)
        what = "may own" if isinstance(part, Unknown) else "owns"
        keys = f"its own keys carry `{prefix}` further in"
        why = f"`{place.text}` is a module that {what} a wrapped one: {keys}"
        return (_Said(why, (Told(why, *_path_and_line(place)),)), *chain)


def analyse(
    onto: Mapping[str, Source],
    placed: Iterable[PlacedSeed],
    lesson: Lesson,
    asks: Iterable[Decision] = (),
) -> Flow:
    """Index the files and mark the expressions that get wrapped.

    `asks` are the seeds that a person has to place (from `place_seeds`): what they would wrap is
    unknown, so that every site which depends on them is asked too.
    """
    project = Project(onto)
    seeds: dict[ast.AST, str] = {}
    added: list[tuple[FileIndex, Added]] = []
    for seed in placed:
        if seed.path not in onto:
            continue
        if seed.kind == "statement":
            one = count_in(project, seed)
            if one is not None:
                added.append((project.files[seed.path], one))
                seeds[one.value] = _shape_of(seed)
            continue
        for node in _nodes_at(onto[seed.path], seed.value):
            seeds[node] = _shape_of(seed)
    pending: dict[ast.AST, str] = {}
    for ask in asks:
        if ask.action == "ask" and ask.path in onto:
            for node in _nodes_at(onto[ask.path], ask.span):
                why = f"whether `{ask.text}` is wrapped ({ask.path}:{ask.line}) is still open"
                pending[node] = why
    evaluation = Evaluation(project, seeds, wrapper=lesson.wrapper, pending=pending)
    for file, one in added:
        value = evaluation.value(one.value, evaluation.frame(file))
        evaluation.raw |= dict.fromkeys(one.reads, value)
    return Flow(project, evaluation, lesson)


def _shape_of(seed: PlacedSeed) -> str:
    """Tell what a seed makes of its value: a wrapped object, or a container of them.

    Only an added statement can do the latter: `nets = [torch.compile(net) for net in nets]`.
    """
    made = ast.parse(seed.call.replace("$X", "_"), mode="eval").body
    if isinstance(made, ast.Dict | ast.DictComp):
        return "wrapped dict"
    listed = isinstance(made, ast.List | ast.ListComp | ast.Tuple | ast.Set | ast.SetComp)
    # `list(map(torch.compile, nets))` is a list as well.
    called = isinstance(made, ast.Call) and isinstance(made.func, ast.Name)
    copied = called and ast.unparse(made).startswith(("list(", "tuple(", "set("))
    return "wrapped list" if listed or copied else "object"


def _nodes_at(source: Source, span: Span) -> list[ast.expr]:
    """Return the outermost expression that covers exactly a span."""
    line = line_at(source, span.start)
    for node in nodes_of(source.tree):
        # Only a node that starts on the span's own line is worth its offset.
        if isinstance(node, ast.expr) and node.lineno == line and span_of(source, node) == span:
            return [node]
    return []


def _holding(
    kind: Kind,
    said: Iterable[_Said],
    *,
    shape: Literal["object", "nested", "owner"] = "object",
    hint: str = "",
    sure: bool = False,
) -> Holding:
    """Return what is known with its reasons, each of them told once."""
    once = {one.words: one.steps for one in said}
    steps = tuple(dict.fromkeys(step for told in once.values() for step in told))
    return Holding(kind, tuple(once), shape=shape, hint=hint, sure=sure, steps=steps)


def _or_else(said: tuple[_Said, ...]) -> _Said:
    steps = [step for one in said for step in one.steps]
    steps[0] = replace(steps[0], text=f"or else {steps[0].text}")
    return _Said(f"or else {'; '.join(one.words for one in said)}", tuple(steps))


def _way(way: Way | None, atom: Atom, place: Place) -> tuple[_Said, ...]:
    """Say how an atom came to a place, from the use to the origin."""
    steps = list(steps_of(way))
    what, made, more = _ending(atom)
    origin = None if made is None else _origin(made)
    ending = what + more if made is None else f"{what} at {made.at}{more}"

    def final(name: str) -> _Said:
        at = _path_and_line(made or place)
        return _Said(f"`{name}` is {ending}", (Told(f"`{name}` is {what}{more}", *at),))

    if not steps:
        return (final(place.text),)
    last = steps[-1]
    if (last.file, last.line) == origin and isinstance(last.subject, Place):
        # The last step and the making of the object are one statement: said once.
        before = steps[-2].thing if len(steps) > 1 else None
        if not (isinstance(before, Place) and before.text == last.subject.text):
            return (*_middle(steps), final(last.subject.text))
        steps.pop()
    (words, told) = _said(steps[-1])
    end = Told(f"it is {what}{more}", *(_path_and_line(made) if made else ()))
    return (*_middle(steps), _Said(f"{words}, {ending}", (*told, end)))


def _middle(steps: list[Step]) -> tuple[_Said, ...]:
    """Say all steps but the last one; of a long way, those at its start."""
    middle = tuple(map(_said, steps[:-1][:_SHOWN]))
    if len(steps) <= _SHOWN + 1:
        return middle
    left_out = f"({len(steps) - _SHOWN - 1} more steps)"
    return (*middle, _Said(left_out, (Told(left_out),)))


def _said(step: Step) -> _Said:
    words = step.words()
    told = Told(words, step.file.path, step.line)
    return _Said(f"{words} ({step.file.shown}:{step.line})", (told,))


def _ending(atom: Atom) -> tuple[str, Place | None, str]:
    """Say what an atom is, where it was made, and what is to be said behind that."""
    if isinstance(atom, Wrapped):
        return "wrapped", atom.place, ""
    if isinstance(atom, Nested):
        return "wrapped", atom.inner, ""
    if isinstance(atom, Plain):
        return atom.what, atom.place, ", never wrapped" if atom.what.startswith(MADE) else ""
    if isinstance(atom, Unknown):
        return f"unknown: {atom.reason}", None, ""
    if isinstance(atom, Instance):
        return f"a `{atom.cls.name}` object, which nothing wraps", None, ""
    if isinstance(atom, Box):
        return "a container, not an element of one", None, ""
    return "a function or a module, never wrapped", None, ""


def _is_set_by_others(place: Place) -> bool:
    """Tell whether code elsewhere can give an expression its value: attributes, global names."""
    if not isinstance(place.node, ast.Name):
        return isinstance(place.node, ast.Attribute)
    scope = place.file.scope_at.get(place.node)
    while scope is not None and place.node.id not in scope.bindings:
        scope = scope.above
    return scope is place.file.module


def _origin(place: Place) -> tuple[FileIndex, int]:
    return place.file, int(getattr(place.node, "lineno", 1))


def _path_and_line(place: Place) -> tuple[str, int]:
    file, line = _origin(place)
    return file.path, line
