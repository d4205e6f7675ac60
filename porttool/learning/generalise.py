"""Turn one edit of an expression into a rule: what the edit left alone becomes a metavariable.

The receiver, or the argument that the edit is about, becomes `$X`. Arguments that stand word for
word on both sides, as the end of an argument list, become `$ARGS`. Arguments that the edit
consumed, or that the example did not have, stay as they are: nothing is known about others.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import field

from porttool.frozen import dataclass
from porttool.learning.exprdiff import shapes
from porttool.learning.rewriting import arguments, dotted
from porttool.source.expressions import one_line
from porttool.source.nodes import children, walk
from porttool.source.syntax import Names, Source, TextEdit, apply_edits, parse_source, span_of

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVW"


@dataclass(frozen=True)
class Place:
    """What names mean where an edit stands, on one side."""

    names: Names
    at: ast.AST
    locals: frozenset[str]
    top_level: frozenset[str]
    owner: str | None
    methods: frozenset[str]


@dataclass(frozen=True)
class Pattern:
    """A rewrite with metavariables, what its template needs in scope, and how imported names were
    spelled there.
    """

    before: str
    after: str
    requires: tuple[str, ...]
    spelled: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class NotGeneral:
    """Why an edit is no example of a rule."""

    reason: str


@dataclass
class _Side:
    source: Source
    tree: ast.expr
    place: Place
    shape: dict[ast.AST, int]
    named: dict[ast.AST, str] = field(default_factory=dict)
    edits: list[TextEdit] = field(default_factory=list)

    def name(self, nodes: Iterator[ast.AST] | list[ast.AST], variable: str) -> None:
        """Put a metavariable in place of each of some nodes."""
        for node in nodes:
            self.named[node] = variable
            span = span_of(self.source, node)
            self.edits.append(TextEdit(span.start, span.end, variable))

    def name_tail(self, tail: list[ast.AST], variable: str) -> None:
        """Put one metavariable in place of neighbouring arguments."""
        start = span_of(self.source, tail[0]).start
        self.edits.append(TextEdit(start, span_of(self.source, tail[-1]).end, variable))
        self.named.update((node, variable) for node in tail)

    def like(self, shape: int) -> list[ast.AST]:
        """Return the outermost nodes of a shape that no metavariable covers yet."""
        return [node for node in self.free() if self.shape[node] == shape]

    def free(self) -> Iterator[ast.AST]:
        """Yield the nodes outside of all metavariables, outer before inner."""
        waiting: list[ast.AST] = [self.tree]
        while waiting:
            node = waiting.pop(0)
            if node not in self.named:
                yield node
                if node not in self.named:
                    waiting.extend(children(node))


def generalise(
    before: str, after: str, about: str | None, old: Place, new: Place
) -> Pattern | NotGeneral:
    """Return the rewrite that an edit from `before` to `after` is an example of.

    `about` is the text of the expression that the edit is about, where that is known; else it is
    the receiver of the method call, or the first argument that survives.
    """
    left, right = _sides(before, after, old, new)
    subject = _subject(left, right, about)
    if subject is None:
        return NotGeneral("nothing that could hold a wrapped object is left alone by the edit")
    shape = left.shape[subject]
    if not right.like(shape):
        return NotGeneral("the new expression does not use what the old one was about")
    call = left.tree if isinstance(left.tree, ast.Call) else None
    given = list(arguments(call)) if call is not None else []
    holding = [index for index, node in enumerate(given) if subject in set(walk(node))]
    left.name(_outermost(left, shape), "$X")
    right.name(_outermost(right, shape), "$X")
    rest = given[holding[-1] + 1 :] if holding else given
    if rest and not any(isinstance(node, ast.keyword) for node in given[: len(given) - len(rest)]):
        _name_tail(left, right, list(rest))
    _name_carried(left, right, call)
    for side in (left, right):
        problem = _unresolved(side)
        if problem is not None:
            return NotGeneral(problem)
    spelled = [*_qualify(left), *_qualify(right)]
    requires = [*(origin for origin, _ in spelled), *_needed(right)]
    texts = [apply_edits(side.source, side.edits).decode() for side in (left, right)]
    return Pattern(
        texts[0],
        texts[1],
        tuple(dict.fromkeys(requires)),
        tuple(dict.fromkeys(spelled)),
    )


def abstract(text: str, about: str, place: Place) -> Pattern:
    """Return an expression with `$X` for `about` and its imported names in full, as both sides.

    Unlike a rule's template it may use names that only its own place has.
    """
    side, _ = _sides(text, about, place, place)
    subject = _subject(side, side, about)
    if subject is not None:
        side.name(_outermost(side, side.shape[subject]), "$X")
    spelled = list(_qualify(side))
    requires = [*(origin for origin, _ in spelled), *_needed(side)]
    made = apply_edits(side.source, side.edits).decode()
    return Pattern(
        made,
        made,
        tuple(dict.fromkeys(requires)),
        tuple(dict.fromkeys(spelled)),
    )


def _sides(before: str, after: str, old: Place, new: Place) -> tuple[_Side, _Side]:
    sources = [parse_source("<edit>", one_line(text).encode()) for text in (before, after)]
    shape = shapes(*(source.tree for source in sources))
    trees = [statement.value for source in sources for statement in source.tree.body]  # type: ignore[attr-defined]
    return (
        _Side(sources[0], trees[0], old, shape),
        _Side(sources[1], trees[1], new, shape),
    )


def _subject(left: _Side, right: _Side, about: str | None) -> ast.expr | None:
    survivors = {right.shape[node] for node in walk(right.tree)}
    if about is not None:
        # Shapes are numbers of one table, so compare the text's tree by its own dump.
        wanted = ast.unparse(ast.parse(f"({about}\n)", mode="eval"))
        for node in walk(left.tree):
            if isinstance(node, ast.expr) and ast.unparse(node) == wanted:
                return node
        return None
    for candidate in _candidates(left):
        if left.shape[candidate] in survivors:
            return candidate
    return None


def _candidates(side: _Side) -> Iterator[ast.expr]:
    """Yield what an edit may be about: the receiver and what it hangs on, then the arguments."""
    tree = side.tree
    if isinstance(tree, ast.Attribute):
        yield from _chain(side, tree.value)
    elif isinstance(tree, ast.Call):
        if isinstance(tree.func, ast.Attribute):
            yield from _chain(side, tree.func.value)
        for argument in arguments(tree):
            value = argument.value if isinstance(argument, ast.keyword | ast.Starred) else argument
            yield from _chain(side, value)


def _chain(side: _Side, node: ast.expr) -> Iterator[ast.expr]:
    while isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
        if _imported(side, node) is None:
            yield node
        if isinstance(node, ast.Name):
            return
        if isinstance(node, ast.Call):
            node = node.func.value if isinstance(node.func, ast.Attribute) else ast.Constant(None)
        else:
            node = node.value


def _imported(side: _Side, node: ast.AST) -> str | None:
    """Return the dotted origin of an imported or built-in name, else None."""
    if not isinstance(node, ast.Name | ast.Attribute):
        return None
    return side.place.names.qualified(node, side.place.at)


def _outermost(side: _Side, shape: int) -> list[ast.AST]:
    inside: set[ast.AST] = set()
    found = []
    for node in walk(side.tree):
        if side.shape[node] == shape and node not in inside:
            found.append(node)
            inside.update(walk(node))
    return found


def _name_tail(left: _Side, right: _Side, rest: list[ast.AST]) -> None:
    """Name the last arguments where a call on the other side ends in the very same ones."""
    wanted = [left.shape[node] for node in rest]
    for node in list(right.free()):
        if isinstance(node, ast.Call):
            given = list(arguments(node))[-len(rest) :]
            if [right.shape[argument] for argument in given] == wanted:
                left.name_tail(rest, "$ARGS")
                right.name_tail(list(given), "$ARGS")
                return


def _name_carried(left: _Side, right: _Side, call: ast.Call | None) -> None:
    """Name single expressions beside the subject that the edit carried over word for word."""
    if call is None:
        return
    beside: list[ast.expr] = []
    if isinstance(call.func, ast.Attribute) and _imported(left, call.func) is None:
        beside.append(call.func.value)
    beside += [
        argument.value if isinstance(argument, ast.keyword) else argument
        for argument in arguments(call)
    ]
    letters = iter(_LETTERS)
    for node in beside:
        covered = node in left.named or any(part in left.named for part in walk(node))
        if covered or isinstance(node, ast.Constant | ast.Starred):
            continue
        found = right.like(left.shape[node])
        if found:
            letter = f"${next(letters)}"
            left.name([node], letter)
            right.name(found, letter)


def _bound_inside(tree: ast.AST) -> set[str]:
    bound = {arg.arg for arg in walk(tree) if isinstance(arg, ast.arg)}
    for node in walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
    return bound


def _free_names(side: _Side) -> Iterator[tuple[ast.Name, ast.AST | None]]:
    """Yield the names outside of metavariables, each with the attribute taken of it, if any."""
    bound = _bound_inside(side.tree)
    nodes = list(side.free())
    holders = {child: node for node in nodes for child in children(node)}
    for node in nodes:
        if isinstance(node, ast.Name) and node.id not in bound:
            holder = holders.get(node)
            yield node, holder if isinstance(holder, ast.Attribute) else None


def _unresolved(side: _Side) -> str | None:
    """Return why a side cannot be written elsewhere: it uses a name that only this place has."""
    place = side.place
    for name, holder in _free_names(side):
        if name.id in ("self", "cls") and isinstance(holder, ast.Attribute):
            if holder.attr in place.methods:
                continue
            return f"it uses {name.id}.{holder.attr}, which only this object has"
        if name.id in place.locals:
            return f"it uses the local name {name.id}"
        known = name.id in place.top_level or hasattr(builtins, name.id)
        if _imported(side, name) is None and not known:
            return f"nothing tells what {name.id} is"
    return None


def _needed(side: _Side) -> Iterator[str]:
    """Yield the definitions of the file that a template uses."""
    place = side.place
    for name, holder in _free_names(side):
        if name.id in ("self", "cls") and isinstance(holder, ast.Attribute):
            if holder.attr in place.methods:
                yield f"{place.owner}.{holder.attr}"
        elif name.id in place.top_level or (_imported(side, name) or "").startswith("."):
            yield name.id


def _qualify(side: _Side) -> Iterator[tuple[str, str]]:
    """Write imported names in full, and yield them so and as they were."""
    inside: set[ast.AST] = set()
    for node in list(side.free()):
        chain = dotted(node)
        origin = _imported(side, node) if chain is not None else None
        if node in inside or origin is None or origin.startswith((".", "builtins.")):
            continue
        inside.update(walk(node))
        span = span_of(side.source, node)
        side.edits.append(TextEdit(span.start, span.end, origin))
        yield origin, side.source.text[span.start : span.end]
