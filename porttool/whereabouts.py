"""Where onto has put what the experiment touched: files renamed, definitions moved to other files.

An experiment speaks of its parent's paths. What it teaches is carried to where onto has the same
thing now; what onto has deleted has no place, and is not brought back.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import replace

from porttool.frozen import dataclass
from porttool.git.commits import TreeId
from porttool.git.objects import Objects
from porttool.git.renames import renames
from porttool.learning.definitions import import_statements
from porttool.learning.lesson import Helper, Lesson, is_name_of
from porttool.learning.naming import plain_names, plain_text
from porttool.source.scopes import top_level_name
from porttool.source.syntax import Source


@dataclass(frozen=True)
class Whereabouts:
    """What has moved: `files` from the parent's path to onto's, for files that were renamed.

    `definitions` says of a top-level name in a file of onto which of the experiment's files it
    stood in before, by that file's path on onto (or, where it is gone, the parent's).
    """

    files: Mapping[str, str]
    definitions: Mapping[tuple[str, str], str]

    @property
    def origins(self) -> dict[str, str]:
        """For each file that took definitions in, the file that most of them came from."""
        homes: dict[str, list[str]] = {}
        for (path, _), home in self.definitions.items():
            homes.setdefault(path, []).append(home)
        return {path: max(found, key=found.count) for path, found in homes.items()}

    def before(self, parents: Mapping[str, Source]) -> dict[str, Source]:
        """Return by onto's paths what the experiment's files were that they come from.

        What was moved is as old as what it was moved out of.
        """
        old_path = {now: path for path, now in self.files.items()}
        homes = {path: path for path in old_path} | self.origins
        found = {path: parents.get(old_path.get(home, home)) for path, home in homes.items()}
        return {path: source for path, source in found.items() if source is not None}


def renamed_files(
    objects: Objects, lesson: Lesson, parent_tree: TreeId, onto_tree: TreeId
) -> dict[str, str]:
    """Return where onto has those files of the experiment that are not at their path any more."""
    missing = [
        path
        for path in lesson.touched
        if objects.entry(onto_tree, path) is None and objects.entry(parent_tree, path) is not None
    ]
    found = renames(objects, parent_tree, onto_tree) if missing else {}
    return {path: found[path] for path in missing if path in found}


def relocated(lesson: Lesson, files: Mapping[str, str]) -> Lesson:
    """Return the lesson with the paths that onto has; hunks and steps stay as the experiment's."""
    if not files:
        return lesson

    def now(path: str) -> str:
        return files.get(path, path)

    lesson = named_plainly(lesson, [one for one in lesson.helpers if one.path in files])
    rules = tuple(
        replace(
            rule,
            examples=tuple(replace(one, path=now(one.path)) for one in rule.examples),
        )
        for rule in lesson.rules
    )
    return replace(
        lesson,
        rules=rules,
        seeds=tuple(replace(seed, path=now(seed.path)) for seed in lesson.seeds),
        helpers=tuple(replace(helper, path=now(helper.path)) for helper in lesson.helpers),
        imports=tuple(replace(one, path=now(one.path)) for one in lesson.imports),
        touched=tuple(map(now, lesson.touched)),
    )


def named_plainly(lesson: Lesson, moved: Iterable[Helper]) -> Lesson:
    """Return the lesson with some helpers by their own names, not through the module they were in.

    A rule that was learned where a helper is imported names it in full (`tools.clean`), and an
    import that the experiment adds says it too: where the experiment has it, and onto does not.
    """
    rules, helpers = [], tuple(moved)
    names = {helper.name for helper in helpers}
    imports = [
        one
        for one in lesson.imports
        if not names & set(import_statements(ast.parse(one.statement).body[0]))
    ]
    for rule in lesson.rules:
        after, requires = rule.after, rule.requires
        for helper in helpers:
            for name in rule.requires:
                if name != helper.name and is_name_of(helper, name):
                    after = plain_text(after, name, helper)
                    requires = plain_names(requires, name, helper)
        rules.append(replace(rule, after=after, requires=requires))
    return replace(lesson, rules=tuple(rules), imports=tuple(imports))


def find_whereabouts(
    files: Mapping[str, str],
    touched: Mapping[str, Source],
    before: Mapping[str, Source],
    onto: Mapping[str, Source],
) -> Whereabouts:
    """Say which definitions of the experiment's files are in other files on onto.

    `touched` are the experiment's files in its parent, `before` onto's other files as they were
    there. A name counts as moved where one file lost it and the other did not have it.
    """
    lost: dict[str, set[str]] = {}
    for path, source in touched.items():
        now = onto.get(files.get(path, path))
        for name in _definitions(source) - (_definitions(now) if now else set()):
            lost.setdefault(name, set()).add(files.get(path, path))
    definitions = {}
    for path, source in onto.items():
        had = _definitions(before[path]) if path in before else set()
        for name in _definitions(source) - had:
            homes = lost.get(name, set()) - {path}
            if len(homes) == 1:
                definitions[path, name] = next(iter(homes))
    return Whereabouts(files, definitions)


def _definitions(source: Source) -> set[str]:
    names = {top_level_name(statement) for statement in source.tree.body}
    return {name for name in names if name is not None}
