"""Which bindings of a local name can reach each place that reads it.

Names are followed statement by statement; attributes and items are not, they belong to whoever can
see the object.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from porttool.deciding.dataflow.fileindex import Binding, FileIndex, Scope
from porttool.source.nodes import children

Environment = dict[str, frozenset[Binding]]


def reaching(
    scope: Scope, added: Iterable[tuple[Binding, ast.stmt | None]] = ()
) -> dict[ast.Name, frozenset[Binding]]:
    """Map the names read in a module, class or function body to the bindings that may reach them.

    A name that is missing here is read where no binding of this scope has happened yet, or in a
    function inside, which may run at any time. `added` are bindings of statements still to be
    added, with the one that each stands behind, None for the start.
    """
    walk = _Walk(scope.file, added)
    environment: Environment = {}
    node = scope.node
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        for name, bindings in scope.bindings.items():
            given = frozenset(binding for binding in bindings if binding.kind == "param")
            if given:
                environment[name] = given
    walk.add(None, environment)
    if isinstance(node, ast.Lambda):
        walk.read(node.body, environment)
    else:
        walk.block(getattr(node, "body", []), environment)
    return walk.found


def _join(*environments: Environment | None) -> Environment | None:
    """Return what holds after any of the paths; None for a path that does not come through."""
    alive = [environment for environment in environments if environment is not None]
    if not alive:
        return None
    joined = dict(alive[0])
    for environment in alive[1:]:
        for name, bindings in environment.items():
            joined[name] = joined[name] | bindings if name in joined else bindings
    return joined


class _Walk:
    def __init__(
        self, file: FileIndex, added: Iterable[tuple[Binding, ast.stmt | None]] = ()
    ) -> None:
        self.file = file
        self.added = list(added)
        self.found: dict[ast.Name, frozenset[Binding]] = {}
        self.breaks: list[list[Environment]] = []
        self.continues: list[list[Environment]] = []

    def read(self, node: ast.AST | None, environment: Environment) -> None:
        if node is None or isinstance(node, ast.Lambda):
            return
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load) and node.id in environment:
                known = self.found.get(node)
                now = environment[node.id]
                self.found[node] = now if known is None else known | now
            return
        if isinstance(node, ast.NamedExpr):
            self.read(node.value, environment)
            self.bind(node.target, environment)
            return
        for child in children(node):
            self.read(child, environment)

    def bind(self, target: ast.AST, environment: Environment, *, adds: bool = False) -> None:
        if isinstance(target, ast.Name):
            binding = self.file.binding_at.get((target, target.id))
            if binding is not None:
                before = environment.get(target.id, frozenset()) if adds else frozenset()
                environment[target.id] = before | {binding}
        elif isinstance(target, ast.Tuple | ast.List):
            for item in target.elts:
                self.bind(item, environment)
        elif isinstance(target, ast.Starred):
            self.bind(target.value, environment)
        else:
            self.read(target, environment)

    def bind_name(self, node: ast.AST, name: str, environment: Environment) -> None:
        binding = self.file.binding_at.get((node, name))
        if binding is not None:
            environment[name] = frozenset({binding})

    def block(
        self, statements: Iterable[ast.stmt], environment: Environment | None
    ) -> Environment | None:
        for statement in statements:
            if environment is None:
                return None  # the rest is never reached
            environment = self.statement(statement, environment)
            self.add(statement, environment)
        return environment

    def add(self, behind: ast.stmt | None, environment: Environment | None) -> None:
        """Let the statements that are still to be added behind another one bind their names."""
        for binding, statement in self.added:
            if statement is behind and environment is not None:
                assert isinstance(binding.target, ast.Name)
                environment[binding.target.id] = frozenset({binding})

    def statement(self, node: ast.stmt, environment: Environment) -> Environment | None:
        if isinstance(node, ast.If):
            return self._if(node, environment)
        if isinstance(node, ast.For | ast.AsyncFor | ast.While):
            return self._loop(node, environment)
        if isinstance(node, ast.Try | ast.TryStar):
            return self._try(node, environment)
        if isinstance(node, ast.Match):
            return self._match(node, environment)
        if isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                self.read(item.context_expr, environment)
                if item.optional_vars is not None:
                    self.bind(item.optional_vars, environment)
            return self.block(node.body, environment)
        self._simple(node, environment)
        if isinstance(node, ast.Return | ast.Raise):
            return None
        if isinstance(node, ast.Break | ast.Continue):
            loops = self.breaks if isinstance(node, ast.Break) else self.continues
            if loops:
                loops[-1].append(dict(environment))
            return None
        return environment

    def _simple(self, node: ast.stmt, environment: Environment) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for decorator in node.decorator_list:
                self.read(decorator, environment)
            if isinstance(node, ast.ClassDef):
                for base in node.bases:
                    self.read(base, environment)
            else:
                for default in (*node.args.defaults, *node.args.kw_defaults):
                    self.read(default, environment)
            self.bind_name(node, node.name, environment)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                name = alias.asname or (
                    alias.name if isinstance(node, ast.ImportFrom) else alias.name.split(".")[0]
                )
                self.bind_name(alias, name, environment)
        elif isinstance(node, ast.Assign):
            self.read(node.value, environment)
            for target in node.targets:
                self.bind(target, environment)
        elif isinstance(node, ast.AnnAssign):
            self.read(node.value, environment)
            if node.value is not None:
                self.bind(node.target, environment)
        elif isinstance(node, ast.AugAssign):
            self.read(node.value, environment)
            # `nets += more` keeps what was in `nets`.
            self.bind(node.target, environment, adds=True)
        elif not isinstance(node, ast.Delete):
            for child in children(node):
                self.read(child, environment)

    def _if(self, node: ast.If, environment: Environment) -> Environment | None:
        self.read(node.test, environment)
        return _join(
            self.block(node.body, dict(environment)), self.block(node.orelse, dict(environment))
        )

    def _loop(
        self, node: ast.For | ast.AsyncFor | ast.While, environment: Environment
    ) -> Environment | None:
        if not isinstance(node, ast.While):
            self.read(node.iter, environment)
        self.breaks.append([])
        before: Environment | None = environment
        while True:
            assert before is not None  # it only grows
            inside = dict(before)
            if isinstance(node, ast.While):
                self.read(node.test, inside)
            after_test = dict(inside)
            if not isinstance(node, ast.While):
                self.bind(node.target, inside)
            self.continues.append([])
            end = self.block(node.body, inside)
            grown = _join(before, end, *self.continues.pop())
            if grown == before:
                break
            before = grown
        endless = isinstance(node, ast.While) and (
            isinstance(node.test, ast.Constant) and bool(node.test.value)
        )
        done = None if endless else self.block(node.orelse, _join(after_test, before))
        return _join(done, *self.breaks.pop())

    def _try(self, node: ast.Try | ast.TryStar, environment: Environment) -> Environment | None:
        midway: Environment = dict(environment)
        current: Environment | None = dict(environment)
        for statement in node.body:
            if current is None:
                break
            current = self.statement(statement, current)
            midway = _join(midway, current) or midway
        ends = [self.block(node.orelse, current)]
        for handler in node.handlers:
            inside = dict(midway)
            self.read(handler.type, inside)
            if handler.name:
                self.bind_name(handler, handler.name, inside)
            ends.append(self.block(handler.body, inside))
        after = _join(*ends)
        if not node.finalbody:
            return after
        # The last block also runs on the way out of an exception or a return.
        self.block(node.finalbody, _join(midway, *ends))
        return None if after is None else self.block(node.finalbody, after)

    def _match(self, node: ast.Match, environment: Environment) -> Environment | None:
        self.read(node.subject, environment)
        ends: list[Environment | None] = [dict(environment)]
        for case in node.cases:
            inside = dict(environment)
            captured: Environment = {}
            for pattern in ast.walk(case.pattern):
                name = getattr(pattern, "name", None) or getattr(pattern, "rest", None)
                if isinstance(name, str):
                    # Each alternative of `|` captures the same names.
                    before = captured.get(name, frozenset())
                    self.bind_name(pattern, name, captured)
                    captured[name] = captured.get(name, before) | before
            inside.update(captured)
            self.read(case.guard, inside)
            ends.append(self.block(case.body, inside))
        return _join(*ends)
