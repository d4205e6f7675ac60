"""Functions of a project that an experiment's rewrites call, and that it left as they were."""

from __future__ import annotations

import ast
import sys
import textwrap
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from porttool.errors import NeedsPerson, UnparsableSource
from porttool.git.commits import TreeId
from porttool.git.objects import Objects
from porttool.learning.definitions import helper_from
from porttool.learning.lesson import NEW_FILE, Helper, Lesson, is_name_of
from porttool.learning.rewriting import called_names, pattern_expression
from porttool.modules import Modules
from porttool.source.scopes import imported_modules, top_level_name
from porttool.source.syntax import Source, line_of, parse_source, same_tree


def with_relied_on(lesson: Lesson, objects: Objects, tree: TreeId) -> Lesson:
    """Return the lesson that also knows what its templates call in the experiment's own tree."""
    known = (*lesson.helpers, *lesson.brought)
    found: dict[tuple[str, str], Helper] = {}
    for rule in lesson.rules:
        paths = dict.fromkeys(example.path for example in rule.examples)
        for name in called_names(pattern_expression(rule.after)):
            if not any(is_name_of(helper, name) for helper in known):
                for path in paths:
                    for helper in _definitions(name, path, objects, tree):
                        found[helper.path, helper.name] = helper
    return replace(lesson, brought=(*lesson.brought, *found.values()))


def check_relied_on(lesson: Lesson, objects: Objects, tree: TreeId) -> None:
    """Hold what the experiment relied on against a tree; raises NeedsPerson where it is another."""
    new = {hunk.path for hunk in lesson.hunks if hunk.by == NEW_FILE}
    for helper in lesson.brought:
        wanted = ast.parse(helper.text).body[0]
        data = objects.read(tree, helper.path) if helper.path not in new else None
        for one in parse_source(helper.path, data).tree.body if data is not None else ():
            if top_level_name(one) == helper.name and not same_tree(one, wanted):
                raise NeedsPerson(
                    f"`{helper.name}`, which the experiment calls, is another function by now",
                    where=f"{helper.path}:{line_of(one)}",
                    why="nothing tells that what it gives of an object that is not wrapped is "
                    "what it gave; the experiment knew it as:\n"
                    + textwrap.indent(helper.text, " " * 9).rstrip(),
                    next="make the experiment on a commit that has the new one, and put its id "
                    "into port.yaml",
                )


def check_helper_imports(
    lesson: Lesson, needed: Collection[str], sources: Mapping[str, Source], modules: Modules
) -> None:
    """Refuse helpers that import what their files do not: it would be loaded with the switch off.

    The standard library and the project itself may be imported. Raises NeedsPerson.
    """
    for helper in lesson.helpers:
        source = sources.get(helper.path)
        if source is None or helper.name not in needed:
            continue
        there = imported_modules(source.tree)
        for text in helper.imports:
            statement = ast.parse(text).body[0]
            if isinstance(statement, ast.ImportFrom):
                module, level = statement.module or "", statement.level
                own = level > 0 or bool(modules.homes(helper.path, statement))
            else:
                module = text.removeprefix("import ").partition(" as ")[0]
                found = ast.ImportFrom(module=module, names=[], level=0)
                own = bool(modules.homes(helper.path, found))
            standard = module.partition(".")[0] in sys.stdlib_module_names
            if not own and not standard and module not in there:
                raise NeedsPerson(
                    f"the helper `{helper.name}` needs `{text}`, and {helper.path} imports no "
                    f"{module}; no branch was made",
                    where=helper.path,
                    why="importing it may do something, and it would be imported with the switch "
                    "off as well",
                    next=f"import {module} in {helper.path} on the branch that it is ported to, or "
                    "inside of the helper in the experiment, and run the same command again",
                )


def _definitions(name: str, path: str, objects: Objects, tree: TreeId) -> Iterator[Helper]:
    """Yield what a name in full, or one of the file itself, is defined as in a tree."""
    module, _, last = name.rpartition(".")
    homes = [path]
    if module:
        statement = ast.ImportFrom(module=module, names=[ast.alias(last)], level=0)
        homes = Modules(objects, tree).homes(path, statement)
    for home in homes:
        try:
            source = parse_source(home, objects.read(tree, home) or b"")
        except UnparsableSource:
            continue
        for one in source.tree.body:
            if top_level_name(one) == last:
                yield helper_from(source, None, one, frozenset())
