"""Walk two trees side by side: onto's, and the branch's with the switch off.

They may differ where a learned rule turned one into the other, and by additions that nothing of
onto can see. Everything else is a difference, and the first one found is told with its place.
"""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import cache, cached_property
from pathlib import PurePosixPath

from porttool.frozen import dataclass
from porttool.learning.lesson import Helper, Lesson, Rule, is_name_of
from porttool.learning.uses import objection, use_of
from porttool.proving.additions import Additions
from porttool.proving.fold import Folded, bound_once
from porttool.proving.patterns import Bindings, Tail, match, parse_pattern, plain_reads
from porttool.source.nodes import walk
from porttool.source.scopes import (
    Function,
    bound_anywhere,
    bound_names,
    imported_names,
    top_level_name,
)
from porttool.source.syntax import Names, parents, same_tree

_IGNORED = ("ctx", "kind", "type_comment", "type_ignores")


@dataclass(frozen=True)
class Difference:
    """The first place at which the trees part; None on the side that has nothing there."""

    onto: ast.AST | None
    branch: ast.AST | None
    why: str = ""


@dataclass(frozen=True)
class Home:
    """A file in which a name is defined that another one imports, and the definition."""

    path: str
    tree: ast.Module
    definition: ast.stmt


@dataclass
class Comparison:
    """What is known of the two files, and what was met on the way."""

    onto: ast.Module
    branch: Folded
    lesson: Lesson
    additions: Additions
    find_helper: Callable[[str, str, int], list[Home]]  # by name, module and level of an import
    used: dict[str, Rule] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._patterns = [
            (rule, parse_pattern(rule.before), parse_pattern(rule.after))
            for rule in self.lesson.rules
        ]
        self._helpers: dict[str, str | None] = {}
        self._learned = (*self.lesson.helpers, *self.lesson.brought)

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
        for name in self._needed(rule):
            if name not in self._helpers:
                self._helpers[name] = self._helper_objection(name)
            why = self._helpers[name]
            if why is not None:
                return why
        return None

    def _needed(self, rule: Rule) -> list[str]:
        """Return the helpers of a template as it names them, and what else it needs of its file."""
        called = [
            name
            for node in walk(parse_pattern(rule.after))
            if isinstance(node, ast.Attribute) and (name := ast.unparse(node))
            if any(is_name_of(helper, name) for helper in self._learned)
        ]
        through = {name.partition(".")[0] for name in called}
        methods = [helper.name for helper in self.lesson.helpers if helper.name in rule.requires]
        others = [name for name in rule.requires if "." not in name and name not in through]
        return list(dict.fromkeys([*called, *methods, *others]))

    def _helper_objection(self, name: str) -> str | None:
        """Return why a helper that a template calls is not the one that the experiment taught."""
        learned = [helper for helper in self._learned if is_name_of(helper, name)]
        if not learned:
            return f"the helper {name} is not in the experiment"
        if any(helper.name == name and "." in name for helper in learned):
            return self._method_objection(name, learned)
        if "." in name:
            return self._through_module(name, learned)
        if not bound_once(self.branch.tree, name):
            return f"the name {name} is bound more than once, or not at all, in this file"
        for statement in self.branch.tree.body:
            if isinstance(statement, ast.ImportFrom) and name in imported_names(statement):
                there = next(a.name for a in statement.names if name in (a.asname, a.name))
                homes = self.find_helper(there, statement.module or "", statement.level)
                if not homes or not all(_is_learned(h.definition, h, learned) for h in homes):
                    return f"the helper {name} that is imported here is not the learned one"
                return None
            if top_level_name(statement) == name:
                if not _is_learned(statement, None, learned):
                    return f"the helper {name} is not the learned one"
                return self._unresolved(statement, name)
        return f"the helper {name} is neither defined nor imported here"

    def _method_objection(self, name: str, learned: list[Helper]) -> str | None:
        """Return why a class of this file does not have a method as the experiment taught it."""
        owner, _, method = name.rpartition(".")
        if not bound_once(self.branch.tree, owner):
            return f"the class {owner} is bound more than once, or not at all, in this file"
        for statement in self.branch.tree.body:
            if isinstance(statement, ast.ClassDef) and statement.name == owner:
                found = _method(statement, method)
                if found is None or not _is_learned(found, None, learned):
                    return f"the method {name} is not the learned one"
                return self._unresolved(found, name)
            if isinstance(statement, ast.ImportFrom) and owner in imported_names(statement):
                homes = self.find_helper(owner, statement.module or "", statement.level)
                there = [_method(home.definition, method) for home in homes]
                if not there or not all(one and _is_learned(one, None, learned) for one in there):
                    return f"the method {name}, as it is imported here, is not the learned one"
                return None
        return f"the class {owner} is neither defined nor imported here"

    def _through_module(self, name: str, learned: list[Helper]) -> str | None:
        """Return why what a template calls through a module is not the learned helper."""
        chain = ast.parse(name, mode="eval").body
        in_full = self._branch_names.qualified(chain, self.branch.tree) or name
        module, _, last = in_full.rpartition(".")
        dotted = module.lstrip(".")
        homes = self.find_helper(last, dotted, len(module) - len(dotted))
        if not homes or not all(_is_learned(h.definition, h, learned) for h in homes):
            return f"{name}, as this file has it, is not the learned helper"
        return None

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


def _method(owner: ast.stmt, name: str) -> ast.stmt | None:
    """Return the one statement of a class that binds a name."""
    body = owner.body if isinstance(owner, ast.ClassDef) else []
    found = [one for one in body if name in bound_names([one])]
    return found[0] if len(found) == 1 else None


def _is_learned(statement: ast.stmt, home: Home | None, learned: list[Helper]) -> bool:
    """Tell whether a definition is a learned one, and reads in its own file what that one read."""
    for helper in learned:
        if not same_tree(_undocumented(statement), _undocumented(ast.parse(helper.text).body[0])):
            continue
        if home is None or (bound_once(home.tree, helper.name) and not _misread(helper, home)):
            return True
    return False


def _undocumented(statement: ast.stmt) -> ast.stmt:
    """Return a definition without its docstring, which is another text at another indent."""
    if not isinstance(statement, Function) or ast.get_docstring(statement) is None:
        return statement
    bare = copy.copy(statement)
    bare.body = statement.body[1:] or [ast.Pass()]
    return bare


def _misread(helper: Helper, home: Home) -> bool:
    """Tell whether an imported name that a helper reads means something else in a file."""
    names = Names(home.tree)
    apart = PurePosixPath(helper.path).parent != PurePosixPath(home.path).parent
    for text in helper.imports:
        theirs = Names(ast.parse(text))
        for name in bound_names(ast.parse(text).body):
            read = ast.Name(name, ast.Load())
            meaning = theirs.qualified(read, read) or ""
            relative = apart and meaning.startswith(".")
            if relative or names.qualified(read, home.tree) != meaning:
                return True
    return False


@cache
def _free_builtins(template: str) -> list[str]:
    tree = parse_pattern(template)
    return [
        node.id for node in walk(tree) if isinstance(node, ast.Name) and hasattr(builtins, node.id)
    ]
