"""Which file of onto a helper lives in: one that is there, and that its users can import.

A helper comes from one file of the experiment, and every other file that needs it imports it from
there. Where onto has deleted that file, or where that file imports one of the users, so that the
new import would close a circle, it goes into one of the users instead.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Mapping
from dataclasses import replace

from porttool.deciding.sites import Decision, PlacedSeed
from porttool.errors import NeedsPerson, UnparsableSource
from porttool.git.commits import TreeId
from porttool.git.objects import Objects
from porttool.learning.definitions import import_statements
from porttool.learning.lesson import Helper, Lesson, is_name_of
from porttool.modules import Modules
from porttool.source.scopes import bound_anywhere, top_level_name
from porttool.source.syntax import parse_source, same_tree
from porttool.whereabouts import named_plainly


def homed(
    lesson: Lesson,
    moved: Mapping[tuple[str, str], str],
    decisions: Iterable[Decision],
    placed: Iterable[PlacedSeed],
    *,
    objects: Objects,
    tree: TreeId,
    paths: Iterable[str] = (),
) -> Lesson:
    """Return the lesson with every helper in a file of a tree that all of its users can import.

    `moved` is `Whereabouts.definitions`: a method goes where its class went. `paths` are files
    whose imports show how the project spells its modules. Raises NeedsPerson where no file will do.
    """
    helpers = {helper.name: helper for helper in lesson.helpers}
    users = _users(lesson, helpers, decisions, placed)
    modules = Modules(objects, tree)
    homes = []
    for helper in lesson.helpers:
        owner, dot, _ = helper.name.partition(".")
        if dot:
            was = owner, helper.path
            now = [path for (path, name), old in moved.items() if (name, old) == was]
            homes.append(replace(helper, path=now[0]) if len(now) == 1 else helper)
        else:
            homes.append(_homed(helper, users.get(helper.name, ()), helpers, modules))
    known = tuple(paths)
    pairs = {(path, one.path) for one in homes for path in users.get(one.name, ())}
    spelled = tuple(
        (path, home, name)
        for path, home in sorted(pairs)
        if path != home and (name := modules.name_for(path, home, known))
    )
    return replace(_with_homes(lesson, homes), modules=spelled)


def seen_homes(lesson: Lesson, files: Mapping[str, bytes | None]) -> Lesson:
    """Return the lesson with helpers in the files that define them, among those of a branch."""
    known = {path: _defined(path, data) for path, data in files.items() if data is not None}
    homes = []
    for helper in lesson.helpers:
        found = [path for path, names in known.items() if helper.name in names]
        alone = len(found) == 1 and helper.path not in found
        homes.append(replace(helper, path=found[0]) if alone else helper)
    return _with_homes(lesson, homes)


def _with_homes(lesson: Lesson, homes: list[Helper]) -> Lesson:
    """Return the lesson with its helpers in other files, and named by rules without the old one."""
    pairs = zip(lesson.helpers, homes, strict=True)
    moved = [helper for helper, home in pairs if helper.path != home.path]
    return replace(named_plainly(lesson, moved), helpers=tuple(homes))


def _users(
    lesson: Lesson,
    helpers: Mapping[str, Helper],
    decisions: Iterable[Decision],
    placed: Iterable[PlacedSeed],
) -> dict[str, dict[str, None]]:
    """Return the files that need each helper, itself or through another one."""
    rules = {rule.name: rule for rule in lesson.rules}
    found: dict[str, dict[str, None]] = {}
    wanted = [
        (decision.path, rules[decision.rule].requires)
        for decision in decisions
        if decision.action == "rewrite" and decision.rule
    ]
    wanted += [(seed.path, seed.seed.requires) for seed in placed]
    for path, names in wanted:
        waiting = [one.name for one in lesson.helpers if any(is_name_of(one, n) for n in names)]
        done: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name in helpers and name not in done:
                done.add(name)
                found.setdefault(name, {})[path] = None
                waiting += helpers[name].needs
    return found


def _homed(
    helper: Helper, users: Iterable[str], helpers: Mapping[str, Helper], modules: Modules
) -> Helper:
    there = modules.has(helper.path)
    users = sorted(users)
    already = _there_already(helper, users, helpers, modules)
    if already is not None:
        return replace(helper, path=already, after=None, before=None)
    importing = [path for path in users if not modules.imports_name(path, helper.name)]
    if there and set(importing) <= {helper.path}:
        return helper
    if not users:
        return helper
    for home in [*([helper.path] if there else []), *users]:
        others = set(importing) - {home}
        if home != helper.path and _needs_more(helper, helpers):
            continue
        if not others & modules.loaded_by(home):
            return (
                helper
                if home == helper.path
                else replace(helper, path=home, after=None, before=None)
            )
    more = _needs_more(helper, helpers)
    why = (
        f"it uses {', '.join(more)} of {helper.path}"
        if more
        else ("each of the files that need it is imported by another one of them")
    )
    what = "closes a circle of imports" if there else "is gone"
    raise NeedsPerson(
        f"the helper `{helper.name}` has no file that it could live in: {helper.path} {what}",
        where=", ".join(users),
        why=why,
        next="put the helper into a file of its own in the experiment, and the new id into "
        "port.yaml",
    )


def _there_already(
    helper: Helper, users: Iterable[str], helpers: Mapping[str, Helper], modules: Modules
) -> str | None:
    """Return the file in which onto has the very helper, where the users import it from there."""
    found = [one for path in users if (one := modules.definition_behind(path, helper.name))]
    homes = {home for home, _, _ in found}
    if len(homes) != 1 or helper.needs or _needs_more(helper, helpers):
        return None
    home, tree, definition = found[0]
    imports = {text for one in tree.body for text in import_statements(one).values()}
    same = same_tree(definition, ast.parse(helper.text).body[0])
    return home if same and set(helper.imports) <= imports else None


def _needs_more(helper: Helper, helpers: Mapping[str, Helper]) -> list[str]:
    """Return the names that a helper reads of its file, beside imports and other helpers."""
    tree = ast.parse(helper.text)
    read = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} - bound_anywhere(tree)
    for statement in helper.imports:
        read -= set(import_statements(ast.parse(statement).body[0]))
    return sorted(read - {*vars(builtins), *helpers})


def _defined(path: str, data: bytes) -> set[str | None]:
    if not path.endswith(".py"):
        return set()
    try:
        return {top_level_name(statement) for statement in parse_source(path, data).tree.body}
    except UnparsableSource:
        return set()
