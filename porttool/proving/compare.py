"""Walk two trees side by side: onto's, and the branch's with the switch off.

They may differ where a learned rule turned one into the other, and by additions that nothing of
onto can see. Everything else is a difference, and the first one found is told with its place.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import cache, cached_property

from porttool.frozen import dataclass
from porttool.learning.lesson import Helper, Lesson, Rule
from porttool.learning.uses import objection, use_of
from porttool.proving.additions import Additions
from porttool.proving.fold import Folded, bound_once
from porttool.proving.patterns import Bindings, Tail, match, parse_pattern, plain_reads
from porttool.source.nodes import walk
from porttool.source.scopes import Function, bound_anywhere, imported_names
from porttool.source.syntax import Names, parents, same_tree

_IGNORED = ("ctx", "kind", "type_comment", "type_ignores")


@dataclass(frozen=True)
class Difference:
    """The first place at which the trees part; None on the side that has nothing there."""

    onto: ast.AST | None
    branch: ast.AST | None
    why: str = ""


@dataclass
class Comparison:
    """What is known of the two files, and what was met on the way."""

    onto: ast.Module
    branch: Folded
    lesson: Lesson
    additions: Additions
    find_helper: Callable[[str, ast.ImportFrom], ast.stmt | None]
    used: dict[str, Rule] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._patterns = [
            (rule, parse_pattern(rule.before), parse_pattern(rule.after))
            for rule in self.lesson.rules
        ]
        self._helpers: dict[str, str | None] = {}

    # Most files of a branch differ nowhere: names are worked out for the first difference.
    @cached_property
    def _onto_names(self) -> Names:
        return Names(self.onto)

    @cached_property
    def _branch_names(self) -> Names:
        return Names(self.branch.tree)

    @cached_property
    def _above(self) -> Mapping[ast.AST, ast.AST]:
        return parents(self.onto)

    def run(self) -> Difference | None:
        """Return the first difference, None when the trees are the same."""
        head, other = self.onto.body, self.branch.tree.body
        if ast.get_docstring(self.onto, clean=False) != ast.get_docstring(
            self.branch.tree, clean=False
        ):
            return Difference(head[0] if head else None, other[0] if other else None)
        return self._statements(head, other, self.branch.tree)

    def _differ(self, left: object, right: object, owner: ast.AST) -> Difference | None:
        """Compare two fields of nodes, or two nodes."""
        if isinstance(left, ast.AST) and isinstance(right, ast.AST):
            if same_tree(left, right):
                return None
            by_rule = self._by_rule(left, right, owner)
            if by_rule is not None:
                return by_rule[0]
            if type(left) is not type(right):
                return Difference(left, right)
            inner = owner
            if isinstance(left, Function | ast.ClassDef) and isinstance(
                right, Function | ast.ClassDef
            ):
                inner = right
                if ast.get_docstring(left, clean=False) != ast.get_docstring(right, clean=False):
                    return Difference(left.body[0], right.body[0], "the docstring is not the same")
            for name in left._fields:
                if name in _IGNORED:
                    continue
                found = self._field(getattr(left, name, None), getattr(right, name, None), inner)
                if found is not None:
                    bare = found.onto is None and found.branch is None
                    return Difference(left, right, found.why) if bare else found
            return None
        same = type(left) is type(right) and (left == right or repr(left) == repr(right))
        return None if same else Difference(None, None)

    def _field(self, left: object, right: object, owner: ast.AST) -> Difference | None:
        if not isinstance(left, list) or not isinstance(right, list):
            return self._differ(left, right, owner)
        if any(isinstance(item, ast.stmt) for item in [*left, *right]):
            return self._statements(left, right, owner)
        if len(left) != len(right):
            return Difference(None, None)
        for one, other in zip(left, right, strict=True):
            found = self._differ(one, other, owner)
            if found is not None:
                return found
        return None

    def _statements(
        self, left: list[ast.stmt], right: list[ast.stmt], owner: ast.AST
    ) -> Difference | None:
        """Compare two blocks; the branch's may hold additions that nothing of onto can see."""
        index = 0
        for statement in right:
            mine = left[index] if index < len(left) else None
            found = self._differ(mine, statement, owner) if mine is not None else None
            if mine is not None and found is None:
                index += 1
                continue
            if isinstance(mine, ast.ImportFrom) and isinstance(statement, ast.ImportFrom):
                more = _more_names(mine, statement)
                if more is not None and self.additions.refusal(more, owner, left[index:]) is None:
                    index += 1
                    continue
            refusal = "it is not behind the switch"
            if right is getattr(owner, "body", None):
                why = self.additions.refusal(statement, owner, left[index:])
                if why is None:
                    continue
                refusal = why
            if mine is None or type(mine) is not type(statement) or found is None:
                return Difference(mine, statement, refusal)
            imports = isinstance(statement, ast.Import | ast.ImportFrom)
            named = getattr(mine, "name", None) == getattr(statement, "name", None)
            return found if named and not imports else Difference(mine, statement, refusal)
        return Difference(left[index], None) if index < len(left) else None

    def _by_rule(
        self, left: ast.AST, right: ast.AST, owner: ast.AST
    ) -> tuple[Difference | None] | None:
        """Undo a rule at one node: None when no rule speaks of it, else what came of it."""
        if not isinstance(left, ast.expr) or not isinstance(right, ast.expr):
            return None
        failed: Difference | None = None
        for rule, before, after in self._patterns:
            new = match(after, right, self._branch_names)
            old = match(before, left, self._onto_names) if new is not None else None
            if new is None or old is None:
                continue
            why = self._objection(rule, new) or self._misplaced(rule, left)
            found = Difference(left, right, why) if why else self._bindings(old, new, owner)
            if found is None:
                self.used[rule.name] = rule
                return (None,)
            failed = failed or (found if found.onto is not None else Difference(left, right))
        return (failed,) if failed is not None else None

    def _misplaced(self, rule: Rule, left: ast.expr) -> str | None:
        """Return why a place needs more of a rule's value than the rule is known to give."""
        use = use_of(left, self._above) if rule.uses else "value"
        return objection(use, rule.uses, rule.before, rule.after)

    def _objection(self, rule: Rule, new: Bindings) -> str | None:
        """Return why a rule may not be undone here."""
        if not rule.neutral:
            return f"the rule {rule.name} is not neutral: it needs a wrapped object"
        for name, values in new.found.items():
            if len(values) > 1 and not all(
                plain_reads(walk(value)) for value in values if isinstance(value, ast.expr)
            ):
                return f"the rule {rule.name} evaluates ${name} {len(values)} times"
        for name in _free_builtins(rule.after):
            if self._branch_names.binds(name, self.branch.tree):
                return f"the built-in {name} is something else in this file"
        for name in rule.requires:
            if "." not in name and name not in self._helpers:
                self._helpers[name] = self._helper_objection(name)
            why = self._helpers.get(name)
            if why is not None:
                return why
        return None

    def _helper_objection(self, name: str) -> str | None:
        """Return why a helper that a template calls is not the one that the experiment taught."""
        learned = [helper for helper in self.lesson.helpers if helper.name == name]
        if not learned:
            return f"the helper {name} is not in the experiment"
        if not bound_once(self.branch.tree, name):
            return f"the name {name} is bound more than once, or not at all, in this file"
        for statement in self.branch.tree.body:
            if isinstance(statement, ast.ImportFrom) and name in imported_names(statement):
                found = self.find_helper(name, statement)
                if found is None or not _is_learned(found, learned):
                    return f"the helper {name} that is imported here is not the learned one"
                return None
            if getattr(statement, "name", None) == name:
                if not _is_learned(statement, learned):
                    return f"the helper {name} is not the learned one"
                return self._unresolved(statement, name)
        return f"the helper {name} is neither defined nor imported here"

    def _unresolved(self, helper: ast.stmt, name: str) -> str | None:
        """Return why a helper would fail for a name that its file does not have."""
        own = bound_anywhere(helper)
        for node in walk(helper):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                known = node.id in own or hasattr(builtins, node.id)
                if not known and not self._branch_names.binds(node.id, self.branch.tree):
                    return f"the helper {name} reads {node.id}, which this file does not have"
        return None

    def _bindings(self, old: Bindings, new: Bindings, owner: ast.AST) -> Difference | None:
        if set(old.found) != set(new.found):
            return Difference(None, None)
        for name, values in new.found.items():
            first, *others = values
            for other in others:
                if not _same(first, other):
                    return Difference(None, None)
            mine = old.found[name][0]
            if isinstance(mine, Tail) and isinstance(first, Tail):
                found = self._field(list(mine.args), list(first.args), owner) or self._field(
                    list(mine.keywords), list(first.keywords), owner
                )
            else:
                found = self._differ(mine, first, owner)
            if found is not None:
                return found
        return None


def _same(left: ast.expr | Tail, right: ast.expr | Tail) -> bool:
    if isinstance(left, ast.AST) and isinstance(right, ast.AST):
        return same_tree(left, right)
    return False


def _more_names(mine: ast.ImportFrom, statement: ast.ImportFrom) -> ast.ImportFrom | None:
    """Return the import of the names that the branch added to one of onto's, if only added."""
    if (mine.module, mine.level) != (statement.module, statement.level):
        return None
    old = {(alias.name, alias.asname) for alias in mine.names}
    new = {(alias.name, alias.asname) for alias in statement.names}
    if not old < new:
        return None
    added = [alias for alias in statement.names if (alias.name, alias.asname) not in old]
    more = ast.ImportFrom(module=statement.module, names=added, level=statement.level)
    return ast.copy_location(more, statement)


def _is_learned(statement: ast.stmt, learned: list[Helper]) -> bool:
    return any(same_tree(statement, ast.parse(helper.text).body[0]) for helper in learned)


@cache
def _free_builtins(template: str) -> list[str]:
    tree = parse_pattern(template)
    return [
        node.id for node in walk(tree) if isinstance(node, ast.Name) and hasattr(builtins, node.id)
    ]
