"""The experiment's seeds found again on onto: by scope, target and constructor.

A seed that main moved to another method of its class is followed; one that main doubled, renamed
or rebuilt is asked; one that main deleted stays deleted.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from porttool.deciding.dataflow.fileindex import Binding, FileIndex, Scope
from porttool.deciding.dataflow.outside import SAME_OBJECT
from porttool.deciding.sites import Action, Decision, PlacedSeed, site_key
from porttool.learning.lesson import Lesson, Seed
from porttool.source.syntax import Names, Source, Span, same_tree, span_of, statement_span, text_of

_ADDED = ("rebind", "statement")
_SHAPES: dict[str, tuple[type[ast.expr], ...]] = {
    "list": (ast.List, ast.ListComp, ast.Tuple, ast.Set, ast.SetComp, ast.GeneratorExp),
    "dict": (ast.Dict, ast.DictComp),
}


@dataclass(frozen=True)
class _Candidate:
    """A place on onto that may be a seed's; `near` says how it differs, "" when it does not."""

    file: FileIndex
    scope: str
    statement: ast.stmt
    value: ast.expr
    near: str = ""
    wrapped: bool = False
    shaped: bool = True


def place_seeds(
    onto: Mapping[str, Source], lesson: Lesson, answers: Mapping[str, str] | None = None
) -> tuple[tuple[PlacedSeed, ...], tuple[Decision, ...]]:
    """Find every seed on onto.

    The decisions say which seeds a person has to place (ask) and which are not placed and why
    (skip: wrapped already, or deleted on main). An answer "rewrite" places a seed at all the
    places found for it, "skip" leaves it out.
    """
    search = _Search(onto, lesson)
    placed: list[PlacedSeed] = []
    decisions: list[Decision] = []
    alike = Counter(_looks(_whole(seed)) for seed in lesson.seeds)
    numbers: Counter[tuple[str | None, ...]] = Counter()
    for seed in map(_whole, lesson.seeds):
        look = _looks(seed)
        number = numbers[look]
        numbers[look] += 1
        found, decision = search.place(seed, number, alike[look], answers or {})
        placed += found
        if decision is not None:
            decisions.append(decision)
    placed = list({(p.path, p.binding, p.value, p.kind): p for p in placed}.values())
    decisions = list({d.key: d for d in decisions}.values())
    return tuple(sorted(placed, key=lambda p: (p.path, p.binding, p.value))), tuple(decisions)


def _looks(seed: Seed) -> tuple[str | None, ...]:
    return seed.path, seed.scope, seed.target, seed.constructor, seed.kind, seed.statement


def _whole(seed: Seed) -> Seed:
    """Return a seed with all that an added re-binding makes of its target as the call.

    `nets = [torch.compile(n) for n in nets]` wraps `n`, but it is `nets` that is found on onto:
    the call becomes `[torch.compile(n) for n in $X]`.
    """
    added = ast.parse(seed.statement).body[0] if seed.kind == "rebind" and seed.statement else None
    if not isinstance(added, ast.Assign) or seed.target is None:
        return seed
    made = ast.unparse(added.value)
    if ast.unparse(_parsed(seed.call.replace("$X", seed.target))) == made:
        return seed
    call = re.sub(rf"(?<![\w.]){re.escape(seed.target)}\b", "$X", made)
    return replace(seed, constructor=seed.target, call=call) if "$X" in call else seed


class _Search:
    def __init__(self, onto: Mapping[str, Source], lesson: Lesson) -> None:
        self.onto = onto
        self.lesson = lesson
        self._files: dict[str, FileIndex] = {}
        self._names: dict[str, Names] = {}

    def file(self, path: str) -> FileIndex:
        if path not in self._files:
            self._files[path] = FileIndex(self.onto[path])
        return self._files[path]

    def names(self, path: str) -> Names:
        if path not in self._names:
            self._names[path] = Names(self.onto[path].tree)
        return self._names[path]

    def place(
        self, seed: Seed, number: int, alike: int, answers: Mapping[str, str]
    ) -> tuple[list[PlacedSeed], Decision | None]:
        """Place one seed: the `number`-th of `alike` that look the same in the experiment."""
        everywhere = self.candidates(seed)
        shaped = [c for c in everywhere if c.shaped]
        here = [c for c in shaped if c.scope == seed.scope and c.file.path == seed.path]
        exact = [c for c in here if not c.near]
        if len(exact) == alike:
            return self._settle(seed, exact[number], None)
        if not exact and len(here) == alike:
            return self._settle(seed, here[number], None)
        if not here:
            moved = [c for c in shaped if _same_class(c, seed)]
            if len(moved) == alike:
                return self._settle(seed, moved[number], seed.scope)
            elsewhere = [c for c in shaped if c.scope == seed.scope]
            if seed.path not in self.onto and len(elsewhere) == alike:
                return self._settle(seed, elsewhere[number], f"{seed.path}::{seed.scope}")
        return self._unsettled(seed, here or everywhere, alike, answers)

    def _settle(
        self, seed: Seed, found: _Candidate, moved_from: str | None
    ) -> tuple[list[PlacedSeed], Decision | None]:
        if found.wrapped:
            why = f"main wraps it already ({found.file.path}:{found.value.lineno})"
            return [], self._decision(seed, found, "skip", why)
        notes = [f"moved from `{moved_from}`"] if moved_from else []
        notes += [found.near] if found.near else []
        return [self._placed(seed, found, moved_from, "; ".join(notes))], None

    def _placed(
        self, seed: Seed, found: _Candidate, moved_from: str | None, note: str
    ) -> PlacedSeed:
        source = found.file.source
        return PlacedSeed(
            seed=seed,
            path=found.file.path,
            scope=found.scope,
            line=found.value.lineno,
            binding=statement_span(source, found.statement),
            value=span_of(source, found.value),
            target=seed.target,
            kind=seed.kind,
            call=self.spelled(seed.call, found.file.path, found.value),
            moved_from=moved_from,
            note=note,
        )

    def spelled(self, call: str, path: str, at: ast.AST) -> str:
        """Write the wrapper's name as a file imports it."""
        callee = self.lesson.wrapper.callee
        spelling = self.names(path).spelling(callee, at)
        return call.replace(callee, spelling) if spelling else call

    def _unsettled(
        self, seed: Seed, found: list[_Candidate], alike: int, answers: Mapping[str, str]
    ) -> tuple[list[PlacedSeed], Decision | None]:
        what = f"`{seed.target or seed.constructor}` of `{seed.scope or seed.path}`"
        if not found:
            gone = f"main no longer constructs {what}: nothing to wrap"
            return [], self._decision(seed, None, "skip", gone)
        if all(candidate.wrapped for candidate in found):
            return self._settle(seed, found[0], None)
        at = ", ".join(f"{c.file.path}:{c.value.lineno}" for c in found)
        if found[0].scope != seed.scope or found[0].file.path != seed.path:
            why = f"{what} is no longer constructed there; main has {at}"
        elif len(found) != alike:
            why = f"main constructs {what} in {len(found)} places ({at}), the experiment in {alike}"
        elif not found[0].shaped and not found[0].near:
            why = f"main builds {what} in another container ({at})"
        else:
            why = f"{found[0].near or 'main constructs it differently'} ({at})"
        decision = self._decision(seed, found[0], "ask", why)
        answer = answers.get(decision.key)
        if answer == "skip":
            return [], self._decision(seed, found[0], "skip", "answered `skip` in the plan")
        if answer == "rewrite":
            note = f"answered `rewrite` in the plan; {why}"
            return [self._placed(seed, c, None, note) for c in found if not c.wrapped], None
        return [], decision

    def _decision(self, seed: Seed, found: _Candidate | None, action: Action, why: str) -> Decision:
        path = found.file.path if found else seed.path
        return Decision(
            key=site_key(path, seed.scope, f"wrap {seed.target or seed.constructor}", 1),
            path=path,
            line=found.value.lineno if found else 0,
            column=found.value.col_offset if found else 0,
            text=text_of(found.file.source, found.value) if found else seed.constructor,
            action=action,
            rule=None,
            reasons=(why,),
            span=span_of(found.file.source, found.value) if found else Span(0, 0),
        )

    # -- where a seed may be -----------------------------------------------------------------

    def candidates(self, seed: Seed) -> list[_Candidate]:
        """Return the places that may be a seed's; its own file alone when it has any."""
        if seed.path in self.onto:
            found = list(self._in_file(seed, self.file(seed.path)))
            if found:
                return found
        word = (seed.target or seed.scope).rpartition(".")[2]
        return [
            candidate
            for path, source in self.onto.items()
            if path != seed.path and word and word in source.text
            for candidate in self._in_file(seed, self.file(path))
        ]

    def _in_file(self, seed: Seed, file: FileIndex) -> Iterator[_Candidate]:
        if seed.kind in _ADDED:
            return self._behind(seed, file)
        if seed.kind == "decorator":
            return self._decorated(seed, file)
        if seed.kind == "return":
            return self._returned(seed, file)
        if seed.kind == "argument" or seed.target is None:
            return self._argument(seed, file)
        return self._bound(seed, file)

    def _bound(self, seed: Seed, file: FileIndex) -> Iterator[_Candidate]:
        constructor = _parsed(seed.constructor)
        for binding in _bindings_of(file, seed.target or ""):
            value = binding.value
            assert value is not None  # `_bindings_of` gives no others
            statement = _statement(file, binding.target)
            scope = binding.scope.home.qualname
            matches = _matches(constructor, value)
            for node, near in matches:
                shaped = self._has_shape(seed.kind, file, node, value)
                wrapped = self.is_wrapped(file, node, value)
                yield _Candidate(file, scope, statement, node, near, wrapped, shaped)
            if matches or isinstance(value, ast.Constant):
                continue  # `self.net = None` constructs nothing
            if _names_target(value, seed.target or ""):
                continue  # `self.net = self.net.to(device)` neither
            text = " ".join(text_of(file.source, value).split())
            near = f"main constructs it differently: `{text}`"
            wrapped = self.wraps_inside(file, value)
            yield _Candidate(file, scope, statement, value, near, wrapped, shaped=False)

    def _has_shape(self, kind: str, file: FileIndex, node: ast.AST, value: ast.expr) -> bool:
        """Tell whether the constructor stands in its assignment as the experiment saw it."""
        here: ast.AST = node
        while here is not value:
            above = file.above[here]
            if self.is_wrapper(file, above) or isinstance(above, ast.IfExp | ast.Starred):
                here = above
                continue
            return above is value and isinstance(value, _SHAPES.get(kind, ()))
        return kind not in _SHAPES

    def _behind(self, seed: Seed, file: FileIndex) -> Iterator[_Candidate]:
        """Look for the assignment that an added statement followed."""
        added = ast.parse(seed.statement or seed.call.replace("$X", seed.constructor)).body[0]
        follows = ast.parse(seed.follows).body[0] if seed.follows else None
        for scope in file.scopes.values():
            if scope.kind == "comprehension":
                continue
            body = list(_statements(scope.node))
            there = next((s for s in body if self._same_but_spelled(s, added, file)), None)
            if there is not None:
                value = getattr(there, "value", None)
                if isinstance(value, ast.expr):
                    yield _Candidate(file, scope.qualname, there, value, wrapped=True)
                continue
            bindings = [
                binding
                for binding in _bindings_of(file, seed.target or seed.constructor)
                if binding.scope.home is scope
                and binding.value is not None
                and not self.wraps_inside(file, binding.value)
            ]
            if not bindings or bindings[-1].value is None:
                continue
            built = _statement(file, bindings[-1].target)
            before = [s for s in body if follows is not None and same_tree(s, follows)]
            late = [s for s in before if s.lineno >= built.lineno]
            statement = late[-1] if late else built
            yield _Candidate(file, scope.qualname, statement, bindings[-1].value)

    def _same_but_spelled(self, statement: ast.stmt, added: ast.stmt, file: FileIndex) -> bool:
        if type(statement) is not type(added):
            return False
        spelled = self.spelled(ast.unparse(added), file.path, statement)
        return same_tree(statement, ast.parse(spelled).body[0])

    def _returned(self, seed: Seed, file: FileIndex) -> Iterator[_Candidate]:
        constructor = _parsed(seed.constructor)
        for scope in file.scopes.values():
            for returned in scope.returns if scope.name != "<lambda>" else ():
                for node, near in _matches(constructor, returned):
                    if near and scope.qualname != seed.scope:
                        continue
                    wrapped = self.is_wrapped(file, node, returned)
                    statement = _statement(file, node)
                    yield _Candidate(file, scope.qualname, statement, node, near, wrapped)

    def _argument(self, seed: Seed, file: FileIndex) -> Iterator[_Candidate]:
        constructor = _parsed(seed.constructor)
        for scope in file.scopes.values():
            if scope.qualname != seed.scope or scope.kind == "comprehension":
                continue
            for statement in _statements(scope.node):
                for node in _own_expressions(statement):
                    if _nearness(constructor, node) == "":
                        wrapped = self.is_wrapped(file, node, node)
                        yield _Candidate(file, scope.qualname, statement, node, "", wrapped)

    def _decorated(self, seed: Seed, file: FileIndex) -> Iterator[_Candidate]:
        for scope in file.scopes.values():
            node = scope.node
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            if scope.qualname == (seed.target or seed.scope):
                wrapped = any(self.is_wrapper(file, d) for d in node.decorator_list)
                name = ast.copy_location(ast.Name(node.name, ast.Load()), node)
                yield _Candidate(file, seed.scope, node, name, wrapped=wrapped)

    # -- what is wrapped already -------------------------------------------------------------

    def is_wrapper(self, file: FileIndex, node: ast.AST) -> bool:
        """Tell whether a node is a call of the wrapper, or its name as a decorator."""
        function = node.func if isinstance(node, ast.Call) else node
        if not isinstance(function, ast.Name | ast.Attribute):
            return False
        return self.names(file.path).qualified(function) == self.lesson.wrapper.callee

    def is_wrapped(self, file: FileIndex, node: ast.AST, top: ast.AST) -> bool:
        """Tell whether a constructor is inside a call of the wrapper, or wrapped further on."""
        here: ast.AST = node
        while not isinstance(here, ast.stmt):
            if here is not node and isinstance(here, ast.Call) and self.is_wrapper(file, here):
                return True
            here = file.above[here]
        return self._rebound(file, here, top)

    def _rebound(self, file: FileIndex, statement: ast.stmt, value: ast.AST) -> bool:
        """Tell whether another assignment to the same target wraps what this one constructed."""
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        mine = _class_or_home(_scope_of(file, statement))
        return any(
            _class_or_home(other.scope) is mine and self.wraps_inside(file, other.value)
            for target in targets
            for other in _bindings_of(file, ast.unparse(target))
            if other.value is not None and other.value is not value
        )

    def wraps_inside(self, file: FileIndex, value: ast.expr) -> bool:
        """Tell whether an expression calls the wrapper anywhere."""
        return any(
            isinstance(node, ast.Call) and self.is_wrapper(file, node) for node in ast.walk(value)
        )


# -- constructors and targets ------------------------------------------------------------------


def _parsed(text: str) -> ast.expr:
    return ast.parse(text.strip(), mode="eval").body


def _matches(constructor: ast.expr, value: ast.expr) -> list[tuple[ast.expr, str]]:
    """Return the places in a value that are the constructor, or else those that are near it."""
    found: list[tuple[ast.expr, str]] = []
    covered: set[ast.AST] = set()
    for node in ast.walk(value):
        if node in covered or not isinstance(node, ast.expr):
            continue
        near = _nearness(constructor, node)
        if near is not None:
            found.append((node, near))
            if near:
                # `build(c).to(d)` is near, and so would be the `build(c)` inside of it.
                covered.update(ast.walk(node))
    exact = [match for match in found if not match[1]]
    return sorted(exact or found, key=lambda match: (match[0].lineno, match[0].col_offset))


def _nearness(constructor: ast.expr, node: ast.AST) -> str | None:
    """Compare a node with the constructor: "" the same, words for what differs, None another."""
    if same_tree(constructor, node):
        return ""
    if not (isinstance(constructor, ast.Call) and isinstance(node, ast.Call)):
        return None
    left, right = _making(constructor), _making(node)
    if left is not constructor or right is not node:
        near = _nearness(left, right)
        return near or (near if near is None else "main sets it up in another way")
    if _last_name(constructor.func) != _last_name(node.func):
        return None
    pairs = ((constructor.args, node.args), (constructor.keywords, node.keywords))
    same = all(
        len(mine) == len(theirs) and all(map(same_tree, mine, theirs)) for mine, theirs in pairs
    )
    return "" if same else "main constructs it with other arguments"


def _making(call: ast.Call) -> ast.expr:
    """Return the call that makes the object, without the `.to(device)` and the like behind it."""
    made: ast.expr = call
    while (
        isinstance(made, ast.Call)
        and isinstance(made.func, ast.Attribute)
        and made.func.attr in SAME_OBJECT
    ):
        made = made.func.value
    return made


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "?")


def _bindings_of(file: FileIndex, target: str) -> list[Binding]:
    """Return the assignments to a target as it is written (`self.critics`, `net`)."""
    parsed = _parsed(target)
    if isinstance(parsed, ast.Attribute):
        found = [b for b in file.stores.get(parsed.attr, []) if ast.unparse(b.target) == target]
    elif isinstance(parsed, ast.Name):
        scopes = [scope for scope in file.scopes.values() if scope.kind != "comprehension"]
        found = [b for scope in scopes for b in scope.bindings.get(parsed.id, [])]
    else:
        found = [b for b in file.items if ast.unparse(b.target) == target]
    return [b for b in found if b.kind == "assign" and b.value is not None]


def _names_target(value: ast.expr, target: str) -> bool:
    return any(
        isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) == target
        for node in ast.walk(value)
    )


# -- statements and scopes ---------------------------------------------------------------------


def _statement(file: FileIndex, node: ast.AST) -> ast.stmt:
    here = node
    while not isinstance(here, ast.stmt):
        here = file.above[here]
    return here


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements that a scope runs itself, at any depth, in order."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
            if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield from _statements(child)
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            yield from _statements(child)


def _own_expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """Yield the expressions of a statement, those of statements inside it left out."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        for child in ast.iter_child_nodes(waiting.pop()):
            if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
                continue
            if isinstance(child, ast.expr):
                yield child
            waiting.append(child)


def _scope_of(file: FileIndex, node: ast.AST) -> Scope:
    here = node
    while here in file.above:
        here = file.above[here]
        if here in file.scopes:
            return file.scopes[here]
    return file.module


def _class_or_home(scope: Scope) -> Scope:
    """Return the outermost class around a scope, else the scope that runs its statements."""
    here: Scope | None = scope
    found = scope.home
    while here is not None:
        if here.kind == "class":
            found = here
        here = here.above
    return found


def _same_class(found: _Candidate, seed: Seed) -> bool:
    """Tell whether a place is in another method of the seed's class, in the seed's file."""
    owner = seed.scope.rpartition(".")[0]
    return bool(owner) and found.file.path == seed.path and found.scope.rpartition(".")[0] == owner
