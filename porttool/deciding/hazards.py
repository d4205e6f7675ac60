"""What goes wrong around wrapped modules though no rule is about it: reported, never edited."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping

from porttool.deciding.dataflow import Flow, Holding
from porttool.deciding.dataflow.fileindex import Binding, FileIndex, Scope
from porttool.deciding.dataflow.values import Wrapped
from porttool.deciding.sites import Decision, PlacedSeed, site_key
from porttool.frozen import dataclass
from porttool.learning.lesson import Lesson
from porttool.source.syntax import Source, Span, line_start, span_of, text_of
from porttool.wrappers import MODULE_NAMES

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
_PICKLED = "the wrapper itself is pickled: save a cleaned state dict"
_KEYED = "the names of its parameters carry the wrapper's prefix"
_ON_ARGUMENT = {
    "copy.deepcopy": "",  # the wrapper's row says it
    "copy.copy": "the copy shares the wrapped module",
    "torch.save": _PICKLED,
    **{f"{module}.dump": _PICKLED for module in ("pickle", "cloudpickle", "dill", "joblib")},
    **{f"{module}.dumps": _PICKLED for module in ("pickle", "cloudpickle", "dill")},
    "safetensors.torch.save_model": _KEYED,
    "safetensors.torch.load_model": _KEYED,
    "torch.func.functional_call": _KEYED,
    "torch.nn.utils.stateless.functional_call": _KEYED,
    "builtins.isinstance": "a wrapper is no instance of the module's class",
    "builtins.type": "a wrapper's type is not the module's class",
}
_LOOKS = ("isinstance", "type")  # at the object itself, whatever it is in
_ATTRIBUTES = {
    "__class__": "a wrapper's class is not the module's",
    "__getstate__": _PICKLED,
    "_modules": "its only entry is the wrapped module",
    "_parameters": "a wrapper has none of its own",
    "_buffers": "a wrapper has none of its own",
}


@dataclass(frozen=True)
class _Hazard:
    node: ast.AST
    why: str
    holding: Holding | None = None
    asks: bool = False


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
            holding = hazard.holding
            found.append(
                Decision(
                    key=key,
                    path=path,
                    line=int(getattr(hazard.node, "lineno", 0)),
                    column=span.start - line_start(source, span.start),
                    text=text,
                    action="skip" if answered else "ask" if hazard.asks else "hazard",
                    rule=None,
                    reasons=(hazard.why, *(holding.chain if holding else ())),
                    span=span,
                    known=False,
                    steps=holding.steps if holding else (),
                    told=len(holding.chain) if holding else 0,
                    only_skip=True,
                )
            )
    return [*found, *_reduce_overhead(onto, lesson, flow, placed)]


def _in_file(file: FileIndex, lesson: Lesson, flow: Flow) -> Iterator[_Hazard]:
    yield from _methods(file, lesson, flow)
    yield from _functions(file, lesson, flow)
    yield from _discarded(file, lesson, flow)
    yield from _forward(file, lesson, flow)
    yield from _containers(file, lesson, flow)
    yield from _hidden(file, lesson, flow)
    yield from _of_the_same_name(file, lesson, flow)


def _wrapped(flow: Flow, path: str, node: ast.expr) -> Holding | None:
    holding = flow.holds(path, node)
    return holding if holding.kind in ("definite", "may") else None


def _methods(file: FileIndex, lesson: Lesson, flow: Flow) -> Iterator[_Hazard]:
    by_name = _BY_NAME if lesson.wrapper.prefix else {}
    rewritten = {rule.before.partition("(")[0].rpartition(".")[2] for rule in lesson.rules}
    for name, why in by_name.items():
        if name in rewritten:
            continue
        for receiver, call in _receivers(file, name):
            if holding := _wrapped(flow, file.path, receiver):
                yield _Hazard(call, f"`{name}()`: {why}", holding)
    for name in _HOOKS:
        for receiver, call in _receivers(file, name):
            if holding := _wrapped(flow, file.path, receiver):
                why = f"`{name}()` after wrapping: compiled code may not run the hook"
                yield _Hazard(call, why, holding)
    for receiver, call in _receivers(file, "load_state_dict"):
        loose = any(_is_false(keyword) for keyword in call.keywords)
        if loose and lesson.wrapper.prefix and (holding := _wrapped(flow, file.path, receiver)):
            why = "`strict=False` on a wrapper loads nothing and says nothing"
            yield _Hazard(call, why, holding)


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


def _functions(file: FileIndex, lesson: Lesson, flow: Flow) -> Iterator[_Hazard]:
    for name, why in _ON_ARGUMENT.items():
        last = name.rpartition(".")[2]
        for call in file.calls.get(last, ()):
            named = [k.value for k in call.keywords if k.arg in ("obj", "model", "module", "x")]
            given = [*call.args, *named][:1]
            if not given or flow.qualified(file.path, call.func) != name:
                continue
            if last in _LOOKS:
                holding = _wrapped(flow, file.path, given[0])
                holding = None if _tells_right(call, file, lesson, flow) else holding
                if holding is not None and holding.shape != "object" and last == "isinstance":
                    holding = None
            elif why == _PICKLED or name == "copy.deepcopy":
                holding = flow.pickles(file.path, given[0])
            else:
                holding = flow.carries(file.path, given[0])
            if holding is not None:
                yield _Hazard(call, f"`{last}`: {why or lesson.wrapper.copied}", holding)
    for name, why in _ATTRIBUTES.items():
        for node in file.attributes.get(name, ()):
            holding = _wrapped(flow, file.path, node.value)
            if holding is not None and holding.shape == "object":
                yield _Hazard(node, f"`{name}`: {why}", holding)


def _tells_right(call: ast.Call, file: FileIndex, lesson: Lesson, flow: Flow) -> bool:
    """Tell whether `isinstance` says the same of a wrapper: that it is a module, no optimizer."""
    if len(call.args) != 2:
        return False
    same = {"optimizer", "plain"}
    if lesson.wrapper.callee.startswith("torch."):
        same.add("module")
    return flow.kinds_of_classes(file.path, call.args[1]) <= same


def _discarded(file: FileIndex, lesson: Lesson, flow: Flow) -> Iterator[_Hazard]:
    for statement, _ in file.statements:
        call = statement.value
        if isinstance(call, ast.Call) and _calls_wrapper(call, file, lesson, flow):
            why = f"the result of `{lesson.wrapper.callee}` is thrown away: nothing is wrapped"
            yield _Hazard(call, why)


def _calls_wrapper(call: ast.Call, file: FileIndex, lesson: Lesson, flow: Flow) -> bool:
    wrapper = lesson.wrapper
    last = wrapper.callee.rpartition(".")[2]
    function = call.func
    written = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    aliased = isinstance(function, ast.Name)
    return (written == last or aliased) and wrapper.is_called(flow.qualified(file.path, function))


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
        elif (holding := _wrapped_before(flow, file.path, argument, call)) is not None:
            yield _Hazard(call, lesson.wrapper.twice, holding)


def _wrapped_before(flow: Flow, path: str, argument: ast.expr, call: ast.Call) -> Holding | None:
    """Tell whether what a wrapper is given is wrapped already, by another call than this one."""
    holding = _wrapped(flow, path, argument)
    wrapped = [atom for atom in flow.value(path, argument) if isinstance(atom, Wrapped)]
    others = [atom for atom in wrapped if atom.place.node is not call]
    return holding if others and holding is not None and holding.shape == "object" else None


def _hidden(file: FileIndex, lesson: Lesson, flow: Flow) -> Iterator[_Hazard]:
    """Report what is read through a wrapper that hands on no attribute of the object inside."""
    wrapper = lesson.wrapper
    if not wrapper.hides:
        return
    reached = {*MODULE_NAMES, *wrapper.adds, wrapper.unwrap} - set(wrapper.methods)
    rewritten = {rule.before.partition("(")[0].rpartition(".")[2] for rule in lesson.rules}
    for name, loads in file.attributes.items():
        if name in reached | rewritten | set(wrapper.methods) or name.startswith("__"):
            continue
        for node in loads:
            holding = _wrapped(flow, file.path, node.value)
            if holding is not None and holding.shape == "object":
                inside = f".{wrapper.unwrap}.{name}" if wrapper.unwrap else "the object itself"
                last = wrapper.callee.rpartition(".")[2]
                why = f"`{name}` is not reached through `{last}`: read it of {inside}"
                yield _Hazard(node, why, holding)


def _of_the_same_name(file: FileIndex, lesson: Lesson, flow: Flow) -> Iterator[_Hazard]:
    """Report modules of the project that have an attribute of the name that unwrapping goes by.

    Asking an object for that attribute does not tell whether it is wrapped then.
    """
    name = lesson.wrapper.unwrap
    texts = [*(rule.after for rule in lesson.rules), *(helper.text for helper in lesson.helpers)]
    if not name or not any(f"{quote}{name}{quote}" in text for text in texts for quote in "\"'"):
        return
    for scope in file.scopes.values():
        cls = flow.project.class_of(scope)
        if cls is None or not cls.is_module or lesson.wrapper.is_defined(file.path, cls.name):
            continue
        own = [store.node for store in file.stores.get(name, ()) if _is_inside(file, store, scope)]
        own += [binding.node for binding in scope.bindings.get(name, ())]
        for node in own:
            why = (
                f"`{cls.name}` has a `{name}` of its own: what asks for `{name}` takes a plain "
                "object for a wrapped one; answer `skip` if none of them is wrapped"
            )
            yield _Hazard(node, why, asks=True)


def _is_inside(file: FileIndex, store: Binding, scope: Scope) -> bool:
    """Tell whether an attribute is stored on `self` in a class's own methods."""
    target = store.target
    if not isinstance(target, ast.Attribute) or not isinstance(target.value, ast.Name):
        return False
    here = file.above.get(store.node)
    while here is not None and here is not scope.node:
        here = file.above.get(here)
    return target.value.id == "self" and here is scope.node


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
