"""The experiment's seeds found again on onto: by scope, target and constructor.

A seed that main moved to another method of its class is followed; one that main doubled, renamed
or rebuilt is asked; one that main deleted stays deleted.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from porttool.deciding.added_statements import anchors, binds_nothing_itself, lost_statement
from porttool.deciding.constructors import (
    argued,
    bindings_of,
    binds,
    constructor_matches,
    filling,
    is_empty_container,
    names_target,
    otherwise,
    parsed_expression,
    same_container,
    whole_seed,
    whole_value,
)
from porttool.deciding.dataflow.fileindex import FileIndex, Scope, index_of, unpacked
from porttool.deciding.lost_seeds import Lost, assigned, lost, made_elsewhere, renamed
from porttool.deciding.sites import Action, Decision, PlacedSeed, seed_key
from porttool.deciding.surroundings import (
    own_statements,
    scope_around,
    statement_around,
)
from porttool.deciding.wrapped_already import is_wrapped, is_wrapper, wraps_inside
from porttool.frozen import dataclass
from porttool.learning.lesson import Lesson, Seed, SeedKind
from porttool.learning.spelling import spelled_call
from porttool.source.syntax import Names, Source, Span, same_tree, span_of, statement_span, text_of

WRAPPED_ALREADY = "main wraps it already"

_ADDED = ("rebind", "statement")
_DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
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
    target: str | None = None  # where main gave it another name
    kind: SeedKind | None = None  # where it is placed in another way than the experiment's
    ahead: bool = False


def place_seeds(
    onto: Mapping[str, Source],
    lesson: Lesson,
    answers: Mapping[str, str] | None = None,
    *,
    before: Mapping[str, Source] | None = None,
    came_from: Mapping[tuple[str, str], str] | None = None,
) -> tuple[tuple[PlacedSeed, ...], tuple[Decision, ...]]:
    """Find every seed on onto.

    `before` holds onto's files as they were in the experiment's parent: what stood in another file
    than the seed's there, and was not wrapped, is not the seed. `came_from` says of a file and a
    top-level name in it which file main moved that definition out of.

    The decisions say which seeds a person has to place (ask) and which are not placed and why
    (skip: wrapped already, or deleted on main). An answer "rewrite" places a seed at all the
    places found for it, "skip" leaves it out.
    """
    search = _Search(onto, lesson, before or {}, came_from or {})
    placed: list[PlacedSeed] = []
    decisions: list[Decision] = []
    alike = Counter(_looks(whole_seed(seed)) for seed in lesson.seeds)
    numbers: Counter[tuple[str | None, ...]] = Counter()
    for seed in map(whole_seed, lesson.seeds):
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


class _Search:
    def __init__(
        self,
        onto: Mapping[str, Source],
        lesson: Lesson,
        before: Mapping[str, Source],
        came_from: Mapping[tuple[str, str], str],
    ) -> None:
        self.onto = onto
        self.lesson = lesson
        self.before = before
        self.came_from = came_from
        self._files: dict[str, FileIndex] = {}
        self._names: dict[str, Names] = {}

    def file(self, path: str) -> FileIndex:
        if path not in self._files:
            self._files[path] = index_of(self.onto[path])
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
        copies = self._copies(seed) if exact else []
        if copies:
            return self._unsettled(seed, [*exact, *copies], alike, answers)
        if len(exact) == alike and len(here) - alike <= self._others_before(seed):
            return self._settle(seed, exact[number], None)
        if not exact and len(here) == alike:
            return self._settle(seed, here[number], None)
        if not here:
            moved = [c for c in shaped if _same_class(c, seed)]
            if len(moved) == alike:
                return self._settle(seed, moved[number], seed.scope)
            elsewhere = [c for c in shaped if self._came_along(seed, c)]
            if len(elsewhere) == alike:
                return self._settle(seed, elsewhere[number], f"{seed.path}::{seed.scope}")
        return self._unsettled(seed, here or everywhere, alike, answers)

    def _others_before(self, seed: Seed) -> int:
        """Return how many places like the seed's the experiment left alone in its function."""
        before = self._parent(seed)
        found = self._in_file(seed, before) if before is not None else ()
        return sum(bool(c.near) and c.shaped and c.scope == seed.scope for c in found)

    def _parent(self, seed: Seed) -> FileIndex | None:
        """Return the seed's file before the experiment: onto where there is nothing else."""
        source = self.before.get(seed.path, self.onto.get(seed.path) if not self.before else None)
        return index_of(source) if source is not None else None

    def _settle(
        self, seed: Seed, found: _Candidate, moved_from: str | None
    ) -> tuple[list[PlacedSeed], Decision | None]:
        if found.wrapped:
            why = f"{WRAPPED_ALREADY} ({found.file.path}:{found.value.lineno})"
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
            line=(found.statement if found.kind else found.value).lineno,
            binding=statement_span(source, found.statement),
            value=span_of(source, found.value),
            target=found.target or seed.target,
            kind=found.kind or seed.kind,
            ahead=found.ahead,
            call=self.spelled(seed.call, seed, found.file.path, found.value),
            moved_from=moved_from,
            note=note,
        )

    def spelled(self, call: str, seed: Seed, path: str, at: ast.AST) -> str:
        """Write imported names as a file imports them, the wrapper under any of its names."""
        return spelled_call(call, self.lesson.wrapper, self.names(path), at, seed.spelled)

    def _unsettled(
        self, seed: Seed, found: list[_Candidate], alike: int, answers: Mapping[str, str]
    ) -> tuple[list[PlacedSeed], Decision | None]:
        what = f"`{seed.target or seed.constructor}` of `{seed.scope or seed.path}`"
        missing = self._lost(seed, alike) if not found else None
        if missing is not None:
            found = [self._renamed(*made) for made in missing.made]
        elif not found:
            gone = f"main no longer constructs {what}: nothing to wrap"
            return [], self._decision(seed, None, "skip", gone)
        if found and all(candidate.wrapped for candidate in found):
            return self._settle(seed, found[0], None)
        at = ", ".join(f"{c.file.path}:{c.value.lineno}" for c in found)
        if missing is not None:
            why = f"{what} is not where it was: {missing.why}"
        elif found[0].scope != seed.scope or found[0].file.path != seed.path:
            why = f"{what} is no longer constructed there; main has {at}"
        elif len(found) != alike:
            why = f"main constructs {what} in {len(found)} places ({at}), the experiment in {alike}"
        elif not found[0].shaped and not found[0].near:
            why = f"main builds {what} in another container ({at})"
        else:
            why = f"{found[0].near or 'main constructs it differently'} ({at})"
        first = found[0] if found else None
        decision = self._decision(seed, first, "ask", why)
        answer = answers.get(decision.key)
        if answer == "skip":
            return [], self._decision(seed, first, "skip", "answered `skip` in the plan")
        if answer == "rewrite":
            note = f"answered `rewrite` in the plan; {why}"
            placed = [self._placed(seed, c, None, note) for c in found if not c.wrapped]
            if not placed:
                nothing = "answered `rewrite`, and nothing is there that could be wrapped"
                decision = replace(decision, reasons=(nothing, why))
            return placed, None if placed else decision
        return [], decision

    def _lost(self, seed: Seed, alike: int) -> Lost | None:
        if seed.kind in _ADDED:
            there = self.file(seed.path) if seed.path in self.onto else None
            found = lost_statement(there, self._parent(seed), seed)
            if not isinstance(found, Seed):
                return found
            seed = found
        old = {path: index_of(source) for path, source in self.before.items()}
        if seed.path in self.onto:
            gone = lost(self.file(seed.path), old.get(seed.path), seed, alike)
            if gone is not None:
                return gone
        word = seed.constructor.partition("(")[0].rpartition(".")[2]
        others = (path for path, source in self.onto.items() if word in source.text)
        now = [self.file(path) for path in others if path != seed.path]
        return made_elsewhere(now, old, seed) if self.before else None

    def _renamed(self, file: FileIndex, node: ast.Call) -> _Candidate:
        """Return a place at which main may construct a seed's object under another name."""
        binding = assigned(file, node)
        target = ast.unparse(binding.target) if binding is not None else None
        scope = scope_around(file, node).home.qualname
        wrapped = is_wrapped(self.lesson.wrapper, file, node, node)
        return _Candidate(
            file, scope, statement_around(file, node), node, "", wrapped, target=target
        )

    def _decision(self, seed: Seed, found: _Candidate | None, action: Action, why: str) -> Decision:
        path = found.file.path if found else seed.path
        return Decision(
            key=seed_key(seed, path),
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
            if not self._stood_there(seed, candidate)
        ]

    def _copies(self, seed: Seed) -> list[_Candidate]:
        """Return the same place in definitions of the same name that main made in other files."""
        name = seed.scope.partition(".")[0]
        if not self.before or not name:
            return []
        defined = re.compile(rf"^(class|def|async def) {re.escape(name)}\b", re.MULTILINE)
        files = [
            path
            for path, source in self.onto.items()
            if path != seed.path
            and defined.search(source.text)
            and not (path in self.before and defined.search(self.before[path].text))
        ]
        found = [c for path in files for c in self._in_file(seed, self.file(path))]
        return [c for c in found if c.shaped and not c.near and c.scope == seed.scope]

    def _came_along(self, seed: Seed, found: _Candidate) -> bool:
        """Tell whether main moved a place and the definition around it out of the seed's file."""
        if found.scope != seed.scope:
            return False
        name = seed.scope.partition(".")[0]
        home = self.came_from.get((found.file.path, name))
        return seed.path not in self.onto or home == seed.path

    def _stood_there(self, seed: Seed, found: _Candidate) -> bool:
        """Tell whether another file than the seed's had a place before the experiment was made."""
        source = self.before.get(found.file.path)
        if source is None or source.text.find((seed.target or seed.scope).rpartition(".")[2]) < 0:
            return False
        return any(c.scope == found.scope for c in self._in_file(seed, index_of(source)))

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
        constructor = parsed_expression(seed.constructor)
        for binding in bindings_of(file, seed.target or ""):
            assert binding.value is not None  # `bindings_of` gives no others
            _, value = unpacked(binding.value, binding.route)
            statement = statement_around(file, binding.target)
            scope = binding.scope.home.qualname
            if seed.kind in _SHAPES and is_empty_container(value):
                yield from self._filled(seed, file, constructor, binding.scope.home)
                continue
            matches = constructor_matches(constructor, value)
            wholes: dict[ast.expr, None] = {}
            for node, near in matches:
                wrapped = is_wrapped(self.lesson.wrapper, file, node, value)
                whole = node if wrapped else whole_value(file, node, value)
                if whole is node:
                    shaped = self._has_shape(seed.kind, file, node, value)
                    yield _Candidate(file, scope, statement, node, near, wrapped, shaped)
                elif whole not in wholes:
                    # What the constructor makes is a part of something else now.
                    wholes[whole] = None
                    differs = otherwise(file, whole)
                    yield _Candidate(file, scope, statement, whole, differs, shaped=False)
            if matches or isinstance(value, ast.Constant):
                continue  # `self.net = None` constructs nothing
            if names_target(value, seed.target or ""):
                continue  # `self.net = self.net.to(device)` neither
            wrapped = wraps_inside(self.lesson.wrapper, file, value)
            near = otherwise(file, value)
            yield _Candidate(file, scope, statement, value, near, wrapped, shaped=False)

    def _filled(
        self, seed: Seed, file: FileIndex, constructor: ast.expr, scope: Scope
    ) -> Iterator[_Candidate]:
        """Look for what fills a container that main binds empty, an element at a time."""
        for node, statement in filling(file, seed.target or "", scope):
            for made, near in constructor_matches(constructor, node):
                wrapped = is_wrapped(self.lesson.wrapper, file, made, node)
                shaped = made is node
                yield _Candidate(file, scope.qualname, statement, made, near, wrapped, shaped)

    def _has_shape(self, kind: str, file: FileIndex, node: ast.AST, value: ast.expr) -> bool:
        """Tell whether the constructor stands in its assignment as the experiment saw it."""
        here: ast.AST = node
        while here is not value:
            above = file.above[here]
            if is_wrapper(self.lesson.wrapper, file, above) or isinstance(
                above, ast.IfExp | ast.Starred
            ):
                here = above
                continue
            return above is value and isinstance(value, _SHAPES.get(kind, ()))
        return kind not in _SHAPES

    def _behind(self, seed: Seed, file: FileIndex) -> Iterator[_Candidate]:
        """Look for the assignment that an added statement followed."""
        added = ast.parse(seed.statement or seed.call.replace("$X", seed.constructor)).body[0]
        follows = ast.parse(seed.follows).body[0] if seed.follows else None
        parent = self._parent(seed)
        given = parent is not None and binds_nothing_itself(parent, seed)
        done: list[str] = []
        for scope in file.scopes.values():
            if scope.kind == "comprehension":
                continue
            body = list(own_statements(scope.node))
            there = next((s for s in body if self._same_but_spelled(seed, s, added, file)), None)
            if there is not None:
                value = getattr(there, "value", None)
                if isinstance(value, ast.expr):
                    yield _Candidate(file, scope.qualname, there, value, wrapped=True)
                    done.append(scope.qualname)
                continue
            if given:
                continue
            bindings = [
                binding
                for binding in bindings_of(file, seed.target or seed.constructor)
                if binding.scope.home is scope
                and binding.value is not None
                and not wraps_inside(self.lesson.wrapper, file, binding.value)
            ]
            if not bindings or bindings[-1].value is None:
                continue
            built = statement_around(file, bindings[-1].target)
            before = [s for s in body if follows is not None and same_tree(s, follows)]
            late = [s for s in before if s.lineno >= built.lineno]
            statement = late[-1] if late else built
            value, old = bindings[-1].value, self.before.get(seed.path)
            shaped = old is None or same_container(seed, index_of(old), value)
            yield _Candidate(file, scope.qualname, statement, value, shaped=shaped)
        if parent is None or not given or done:
            return
        for at in anchors(file, seed, parent):
            name = at.scope.qualname
            shaped = not at.doubt and name == seed.scope
            yield _Candidate(
                *(file, name, at.statement, at.mention, at.doubt),
                shaped=shaped,
                kind="statement",
                ahead=at.ahead,
            )

    def _same_but_spelled(
        self, seed: Seed, statement: ast.stmt, added: ast.stmt, file: FileIndex
    ) -> bool:
        if type(statement) is not type(added):
            return False
        spelled = self.spelled(ast.unparse(added), seed, file.path, statement)
        return same_tree(statement, ast.parse(spelled).body[0])

    def _returned(self, seed: Seed, file: FileIndex) -> Iterator[_Candidate]:
        constructor = parsed_expression(seed.constructor)
        for scope in file.scopes.values():
            given = [y.value for y in scope.yields if y.value is not None]
            name = scope.qualname.replace(".<lambda>", "").replace("<lambda>", "")
            for returned in (*scope.returns, *given):
                for node, near in constructor_matches(constructor, returned):
                    if near and name != seed.scope:
                        continue
                    wrapped = is_wrapped(self.lesson.wrapper, file, node, returned)
                    yield _Candidate(file, name, statement_around(file, node), node, near, wrapped)

    def _argument(self, seed: Seed, file: FileIndex) -> Iterator[_Candidate]:
        constructor = parsed_expression(seed.constructor)
        for scope in file.scopes.values():
            if scope.qualname != seed.scope or scope.kind == "comprehension":
                continue
            for statement, node, near in argued(scope, constructor, self._parent(seed)):
                wrapped = is_wrapped(self.lesson.wrapper, file, node, node)
                shaped = not near or (seed.target is not None and binds(statement, seed.target))
                yield _Candidate(file, scope.qualname, statement, node, near, wrapped, shaped)

    def _decorated(self, seed: Seed, file: FileIndex) -> Iterator[_Candidate]:
        for where, same in renamed(file, self._parent(seed), seed):
            name = ast.copy_location(ast.Name(same.name, ast.Load()), same)
            near = f"main has the same body as `{same.name}` now"
            yield _Candidate(file, where, same, name, near, shaped=False, target=same.name)
        for scope in file.scopes.values():
            node = scope.node
            if not isinstance(node, _DEFINITIONS):
                continue
            if scope.qualname == ".".join(filter(None, (seed.scope, seed.target))):
                wrapped = any(is_wrapper(self.lesson.wrapper, file, d) for d in node.decorator_list)
                name = ast.copy_location(ast.Name(node.name, ast.Load()), node)
                others = [ast.unparse(decorator) for decorator in node.decorator_list]
                known = [line for line in (seed.follows or "").split("\n") if line]
                alike = wrapped or others == known
                # Decorators run in their order: among others than before, only a person can tell.
                near = "" if alike else "main decorates it differently"
                yield _Candidate(file, seed.scope, node, name, near, wrapped, shaped=alike)


def _same_class(found: _Candidate, seed: Seed) -> bool:
    """Tell whether a place is in another method of the seed's class, in the seed's file."""
    owner = seed.scope.rpartition(".")[0]
    return bool(owner) and found.file.path == seed.path and found.scope.rpartition(".")[0] == owner
