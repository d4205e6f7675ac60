"""What a written file does behind the switch: every seed wrapped there once, and nothing else."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Collection, Iterator, Sequence

from porttool.frozen import dataclass
from porttool.proving.patterns import parse_pattern
from porttool.proving.undo import GatedCall, Undone, last_name, parse_part
from porttool.source.nodes import children
from porttool.source.syntax import dump

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Wrap:
    """A seed that was placed: `call` has `$X` for the text `value` that it wraps.

    `statement` is the whole added one where the experiment added one.
    """

    path: str
    scope: str
    target: str | None
    kind: str
    value: str
    call: str
    statement: str | None = None


@dataclass(frozen=True)
class _Line:
    """One statement of a guard; `target` is what it re-binds to itself, wrapped; empty if none.

    `wrapping` holds its calls of the wrapper.
    """

    scope: str
    target: str
    is_options: bool
    wrapping: tuple[str, ...]
    guard: ast.If
    line: int
    known: bool  # whether onto has this very guard
    part: ast.stmt


def gate_faults(
    gate: str,
    onto: ast.Module,
    written: ast.Module,
    wraps: Sequence[Wrap],
    turned_back: tuple[Undone, Undone],
) -> Iterator[tuple[int, str]]:
    """Yield (line, what is wrong): seeds that no gate wraps, and wrapping that is no seed's.

    `turned_back` is what was found in onto's tree, and in the written one.
    """
    before, after = turned_back
    own = {dump(guard) for guard, _ in _guards(onto, gate)}
    lines = [
        line
        for guard, scope in _guards(written, gate)
        for line in _lines(guard, scope, before.wrappers, own)
    ]
    calls = [call for call in after.gates if reads(gate, call.test)]
    for wrap in wraps:
        value = (wrap.target or "") if wrap.kind == "decorator" else wrap.value
        text = ast.unparse(before.afresh().expression(parse_part(value), wrap.scope))
        inner = _inner(value, before.wrappers)
        held = [line for line in lines if _is_for(line, wrap)]
        handed = [c for c in calls if c.scope == wrap.scope and c.value in (text, inner)]
        yield from _wrapped(wrap, wraps, held, handed)
    for line in lines:
        stands_for = line.known or line.is_options or any(_is_for(line, wrap) for wrap in wraps)
        if not stands_for:
            yield line.line, "behind the switch stands what nobody decided"
    yield from _strangers(wraps, lines, calls, before, after)


def _wrapped(
    wrap: Wrap, wraps: Sequence[Wrap], held: Sequence[_Line], handed: Sequence[GatedCall]
) -> Iterator[tuple[int, str]]:
    name = wrap.target or " ".join(wrap.value.split())
    if not held and not handed:
        yield 1, f"`{name}` is not wrapped behind the switch in {wrap.scope}"
    alike = sum((w.scope, w.target) == (wrap.scope, wrap.target) for w in wraps)
    twice = len(held) > alike or len({id(line.guard) for line in held}) < len(held)
    if held and (twice or handed):
        yield held[0].line, f"`{name}` is wrapped twice"
    texts = [ast.unparse(line.guard) for line in held] + [call.text for call in handed]
    for option in _options(wrap.call):
        if any(not re.search(rf"\b{option}=", text) for text in texts):
            yield 1, f"`{name}` is wrapped without the option {option}"


def _strangers(
    wraps: Sequence[Wrap],
    lines: Sequence[_Line],
    calls: Sequence[GatedCall],
    before: Undone,
    after: Undone,
) -> Iterator[tuple[int, str]]:
    """Yield the calls and mentions of the wrapper that are new and that no seed accounts for."""
    left = after.wraps - before.wraps
    for line in lines:
        if any(_is_for(line, wrap) for wrap in wraps):
            left.subtract({(line.scope, text): 1 for text in line.wrapping})
    for call in calls:
        # The wrapper is mentioned once in each call that hands an object through the gate.
        left[call.scope, call.wrapper] -= 1
    for (scope, text), number in sorted(left.items()):
        if number > 0:
            yield after.lines.get((scope, text), 1), f"`{text}` wraps what nobody decided to wrap"


def reads(gate: str, test: str) -> bool:
    """Tell whether the text of a condition reads the switch."""
    return re.search(rf"(?<!\w){re.escape(gate)}(?!\w)", test, re.IGNORECASE) is not None


def _guards(tree: ast.Module, gate: str) -> Iterator[tuple[ast.If, str]]:
    """Yield the statements that ask for the switch, each with its scope by dotted names."""
    stack: list[tuple[ast.AST, str]] = [(tree, "")]
    while stack:
        node, scope = stack.pop()
        if isinstance(node, _DEFINITIONS):
            scope = f"{scope}.{node.name}" if scope else node.name
        if isinstance(node, ast.If) and reads(gate, ast.unparse(node.test)):
            yield node, scope
        stack += [
            (child, scope)
            for child in children(node)
            if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case)
        ]


def _lines(
    guard: ast.If, scope: str, wrappers: Collection[str], own: Collection[str]
) -> Iterator[_Line]:
    known = dump(guard) in own
    for part in guard.body:
        target, options = "", False
        if isinstance(part, ast.Assign) and len(part.targets) == 1:
            name = ast.unparse(part.targets[0])
            target = name if _wraps_itself(part.value, name, wrappers) else ""
            options = isinstance(part.value, ast.Call) and last_name(part.value) == "dict"
        made = [node for node in ast.walk(part) if isinstance(node, ast.Call)]
        texts = tuple(ast.unparse(call) for call in made if last_name(call) in wrappers)
        is_options, at = options and not texts, part.lineno
        yield _Line(scope, target, is_options, texts, guard, at, known, part)


def _wraps_itself(value: ast.expr, target: str, wrappers: Collection[str]) -> bool:
    """Tell whether a value is the target wrapped: the object, or each element of a collection."""
    element, over = target, None
    if isinstance(value, ast.ListComp | ast.DictComp) and len(value.generators) == 1:
        loop = value.generators[0]
        if loop.ifs:
            return False
        over, element = ast.unparse(loop.iter), ast.unparse(loop.target)
        if isinstance(value, ast.DictComp):
            key, value = ast.unparse(value.key), value.value
            target = f"{target}.items()"
            element = element.strip("()").removeprefix(f"{key}, ")
        else:
            value = value.elt
    wrapped = isinstance(value, ast.Call) and last_name(value) in wrappers and bool(value.args)
    inside = ast.unparse(value.args[0]) if wrapped and isinstance(value, ast.Call) else ""
    return inside == element and over in (None, target)


def _is_for(line: _Line, wrap: Wrap) -> bool:
    """Tell whether a guard's line is the one for a seed, and wraps it once."""
    here = wrap.target is not None and (line.target, line.scope) == (wrap.target, wrap.scope)
    if wrap.kind == "statement" and wrap.statement is not None and not here:
        added = [_without_options(one, wrap) for one in ast.parse(wrap.statement).body]
        return line.scope == wrap.scope and _without_options(line.part, wrap) in added
    return here and len(line.wrapping) == 1


def _without_options(statement: ast.stmt, wrap: Wrap) -> str:
    """Return an added statement's text, its wrapping without options: the config may give those."""
    names = {last_name(c) for c in ast.walk(parse_pattern(wrap.call)) if isinstance(c, ast.Call)}
    bare = copy.deepcopy(statement)
    for node in ast.walk(bare):
        if isinstance(node, ast.Call) and last_name(node) in names:
            node.keywords = []
    return ast.unparse(bare)


def _options(call: str) -> list[str]:
    """Return the names of the options that the experiment gives the wrapper."""
    made = [node for node in ast.walk(parse_pattern(call)) if isinstance(node, ast.Call)]
    return [word.arg for word in made[0].keywords if word.arg] if made else []


def _inner(text: str, wrappers: Collection[str]) -> str | None:
    """Return what an ungated call of the wrapper in onto itself wraps, as text."""
    node = parse_part(text)
    if isinstance(node, ast.Call) and last_name(node) in wrappers and node.args:
        return ast.unparse(node.args[0])
    return None
