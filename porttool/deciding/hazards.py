"""What goes wrong around wrapped modules though no rule is about it: reported, never edited."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from porttool.deciding.dataflow import Flow, Holding
from porttool.deciding.dataflow.fileindex import FileIndex
from porttool.deciding.sites import Decision, PlacedSeed, site_key
from porttool.learning.lesson import Lesson
from porttool.source.syntax import Source, Span, line_start, span_of, text_of

# Words that bring a file into the analysis; `isinstance` and the like are too common for that.
HAZARD_WORDS = (
    "deepcopy",
    "named_parameters",
    "named_modules",
    "register_forward_hook",
    "register_forward_pre_hook",
    "DataParallel",
    "DistributedDataParallel",
)

_BY_NAME = {
    "named_parameters": "its names carry the wrapper's prefix",
    "named_buffers": "its names carry the wrapper's prefix",
    "named_modules": "its names carry the wrapper's prefix",
    "named_children": "its only child is the wrapped module",
    "children": "its only child is the wrapped module",
    "get_parameter": "the name lacks the wrapper's prefix",
    "get_submodule": "the name lacks the wrapper's prefix",
    "get_buffer": "the name lacks the wrapper's prefix",
}
_HOOKS = (
    "register_forward_hook",
    "register_forward_pre_hook",
    "register_full_backward_hook",
    "register_backward_hook",
)
_ON_ARGUMENT = {
    "copy.deepcopy": "the copy is wrapped too, and compiles again: copy the unwrapped module",
    "copy.copy": "the copy shares the wrapped module",
    "torch.save": "the wrapper itself is pickled: save a cleaned state dict",
    "pickle.dump": "the wrapper itself is pickled: save a cleaned state dict",
    "pickle.dumps": "the wrapper itself is pickled: save a cleaned state dict",
    "builtins.isinstance": "a wrapper is no instance of the module's class",
    "builtins.type": "a wrapper's type is not the module's class",
}


@dataclass(frozen=True)
class _Hazard:
    node: ast.AST
    why: str
    chain: tuple[str, ...] = ()


def find_hazards(
    onto: Mapping[str, Source],
    lesson: Lesson,
    flow: Flow,
    *,
    placed: tuple[PlacedSeed, ...],
    decided: Collection[tuple[str, Span]],
    answers: Mapping[str, str],
) -> list[Decision]:
    """Report the hazards of the files that no decided site covers."""
    found = []
    seen: dict[str, int] = {}
    for path, source in onto.items():
        file = flow.project.files[path]
        for hazard in _in_file(file, lesson, flow):
            span = span_of(source, hazard.node)
            if (path, span) in decided:
                continue
            text = text_of(source, hazard.node)
            scope = _scope(file, hazard.node)
            base = site_key(path, scope, f"hazard {text}", 1)
            seen[base] = seen.get(base, 0) + 1
            key = site_key(path, scope, f"hazard {text}", seen[base])
            answered = answers.get(key) == "skip"
            found.append(
                Decision(
                    key=key,
                    path=path,
                    line=int(getattr(hazard.node, "lineno", 0)),
                    column=span.start - line_start(source, span.start),
                    text=text,
                    action="skip" if answered else "hazard",
                    rule=None,
                    reasons=(hazard.why, *hazard.chain),
                    span=span,
                    known=False,
                )
            )
    return [*found, *_reduce_overhead(onto, lesson, flow, placed)]


def _in_file(file: FileIndex, lesson: Lesson, flow: Flow) -> Iterator[_Hazard]:
    yield from _methods(file, lesson, flow)
    yield from _functions(file, flow)
    yield from _discarded(file, lesson, flow)
    yield from _forward(file, lesson, flow)
    yield from _containers(file, lesson, flow)


def _wrapped(flow: Flow, path: str, node: ast.expr) -> Holding | None:
    holding = flow.holds(path, node)
    return holding if holding.kind in ("definite", "may") else None


def _methods(file: FileIndex, lesson: Lesson, flow: Flow) -> Iterator[_Hazard]:
    rewritten = {rule.before.partition("(")[0].rpartition(".")[2] for rule in lesson.rules}
    for name, why in _BY_NAME.items():
        if name in rewritten:
            continue
        for receiver, call in _receivers(file, name):
            if holding := _wrapped(flow, file.path, receiver):
                yield _Hazard(call, f"`{name}()`: {why}", holding.chain)
    for name in _HOOKS:
        for receiver, call in _receivers(file, name):
            if holding := _wrapped(flow, file.path, receiver):
                why = f"`{name}()` after wrapping: compiled code may not run the hook"
                yield _Hazard(call, why, holding.chain)
    for receiver, call in _receivers(file, "load_state_dict"):
        loose = any(_is_false(keyword) for keyword in call.keywords)
        if loose and (holding := _wrapped(flow, file.path, receiver)):
            why = "`strict=False` on a wrapper loads nothing and says nothing"
            yield _Hazard(call, why, holding.chain)


def _receivers(file: FileIndex, name: str) -> Iterator[tuple[ast.expr, ast.Call]]:
    for call in file.calls.get(name, ()):
        if isinstance(call.func, ast.Attribute):
            yield call.func.value, call


def _is_false(keyword: ast.keyword) -> bool:
    return (
        keyword.arg == "strict"
        and isinstance(keyword.value, ast.Constant)
        and keyword.value.value is False
    )


def _functions(file: FileIndex, flow: Flow) -> Iterator[_Hazard]:
    for name, why in _ON_ARGUMENT.items():
        last = name.rpartition(".")[2]
        for call in file.calls.get(last, ()):
            if not call.args or flow.qualified(file.path, call.func) != name:
                continue
            holding = _wrapped(flow, file.path, call.args[0])
            if holding is not None and (holding.shape == "object" or last != "isinstance"):
                yield _Hazard(call, f"`{last}`: {why}", holding.chain)


def _discarded(file: FileIndex, lesson: Lesson, flow: Flow) -> Iterator[_Hazard]:
    for statement, _ in file.statements:
        call = statement.value
        if isinstance(call, ast.Call) and _calls_wrapper(call, file, lesson, flow):
            why = f"the result of `{lesson.wrapper.callee}` is thrown away: nothing is wrapped"
            yield _Hazard(call, why)


def _calls_wrapper(call: ast.Call, file: FileIndex, lesson: Lesson, flow: Flow) -> bool:
    callee = lesson.wrapper.callee
    last = callee.rpartition(".")[2]
    function = call.func
    written = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    aliased = isinstance(function, ast.Name)
    return (written == last or aliased) and flow.qualified(file.path, function) == callee


def _forward(file: FileIndex, lesson: Lesson, flow: Flow) -> Iterator[_Hazard]:
    for store in file.stores.get("forward", ()):
        if isinstance(store.value, ast.Call) and _calls_wrapper(store.value, file, lesson, flow):
            why = (
                "a wrapped `forward` is stored on the object: its copies go on computing with the "
                "first one's weights, and it cannot be pickled"
            )
            yield _Hazard(store.node, why)


def _containers(file: FileIndex, lesson: Lesson, flow: Flow) -> Iterator[_Hazard]:
    last = lesson.wrapper.callee.rpartition(".")[2]
    for call in file.calls.get(last, ()):
        if not call.args or not _calls_wrapper(call, file, lesson, flow):
            continue
        argument = call.args[0]
        if flow.is_container(file.path, argument):
            yield _Hazard(call, "a container of modules is wrapped: its parts run as before")
        elif (holding := _wrapped(flow, file.path, argument)) and holding.shape == "object":
            why = "wrapped twice: the result is a bare function without `state_dict`"
            yield _Hazard(call, why, holding.chain)


def _reduce_overhead(
    onto: Mapping[str, Source], lesson: Lesson, flow: Flow, placed: tuple[PlacedSeed, ...]
) -> Iterator[Decision]:
    """Report CUDA graphs where the files also start threads."""
    del lesson
    threads = any("Thread" in file.source.text for file in flow.project.files.values())
    for seed in placed:
        if "reduce-overhead" in seed.call and threads:
            why = "`reduce-overhead` fails or falls back outside of the main thread"
            source = onto[seed.path]
            text = source.text[seed.value.start : seed.value.end]
            yield Decision(
                key=site_key(seed.path, seed.scope, f"hazard {text}", 1),
                path=seed.path,
                line=seed.line,
                column=seed.value.start - line_start(source, seed.value.start),
                text=text,
                action="hazard",
                rule=None,
                reasons=(why,),
                span=seed.value,
                known=False,
            )


def _scope(file: FileIndex, node: ast.AST) -> str:
    here: ast.AST | None = node
    while here is not None:
        if here in file.scopes:
            return file.scopes[here].home.qualname
        here = file.above.get(here)
    return ""
