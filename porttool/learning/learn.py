"""Learn from one experiment: its diff as rules, seeds and helpers, and what none of them explains.

Everything here is a pure function of two sets of files. A lesson is worth nothing unless
`check_replay` makes the experiment of it again.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from porttool.errors import CannotLearn, UnparsableSource
from porttool.learning.change import Change, ChangedFile
from porttool.learning.definitions import helper_edits, helper_from
from porttool.learning.lesson import (
    NEW_FILE,
    Example,
    Helper,
    Hunk,
    ImportEdit,
    Lesson,
    Negative,
    Rule,
    Seed,
    Step,
    Wrapper,
    is_name_of,
)
from porttool.learning.naming import imported_on, under_one_name
from porttool.learning.neutral import Definitions
from porttool.learning.replay import check_replay, moved, replay
from porttool.learning.rewriting import (
    duplicates_receiver,
    is_pure,
    matches,
    rewrite,
    why_not,
)
from porttool.learning.rules import PatternKey, merged_rules, pattern_key
from porttool.learning.seeds import wrapping_functions
from porttool.learning.understand import parsed, read_change
from porttool.learning.unwrapping import for_gated_port, neutral_form
from porttool.source.expressions import one_line
from porttool.source.imports import flat_lines
from porttool.source.nodes import nodes_of, walk
from porttool.source.pieces import comments
from porttool.source.scopes import top_level_name
from porttool.source.syntax import (
    Source,
    TextEdit,
    apply_edits,
    line_at,
    line_of,
    parse_source,
    text_of,
)
from porttool.wrappers import known_wrapper

__all__ = [
    "Example",
    "Helper",
    "Hunk",
    "ImportEdit",
    "Lesson",
    "Negative",
    "Rule",
    "Seed",
    "Step",
    "Wrapper",
    "check_replay",
    "duplicates_receiver",
    "for_gated_port",
    "helper_edits",
    "is_pure",
    "learn",
    "matches",
    "neutral_form",
    "replay",
    "rewrite",
    "why_not",
]


Files = Mapping[str, bytes]


def learn(parent: Files, experiment: Files, wrapper: Wrapper) -> Lesson:
    """Return what the change from `parent` to `experiment` teaches.

    Both may hold more files than changed; a file that one side lacks was added or deleted.

    Raises:
        CannotLearn: when a changed Python file does not parse, when two edits contradict or
            overlap each other, or when the experiment wraps where no switch could reach.
    """
    paths = sorted({*parent, *experiment})
    touched = tuple(path for path in paths if parent.get(path) != experiment.get(path))
    residual: dict[str, bytes | None] = {}
    hunks: list[Hunk] = []
    foreign = {path for path in touched if _is_foreign(path, parent, experiment, wrapper)}
    definitions = _definitions(experiment, [path for path in touched if path not in foreign])
    wrapping = _wrapping(parent, experiment, set(touched) - foreign, wrapper)
    files: list[ChangedFile] = []
    for path in touched:
        old, new = parent.get(path), experiment.get(path)
        if old is None or new is None or not path.endswith((".py", ".pyi")) or path in foreign:
            residual[path] = new
            hunks.append(_whole_file(path, old, new, foreign))
        else:
            files.append(
                read_change(path, old, new, wrapper, definitions=definitions, wrapping=wrapping)
            )
    new_files = [
        parsed(path, experiment[path], "the experiment's side")
        for path in touched
        if path.endswith(".py") and path not in parent and path not in foreign
    ]
    sources = [*new_files, *(file.new.source for file in files)]
    files = under_one_name([_imported_on(file, sources) for file in files])
    brought = tuple(imported_on(helper, sources) for helper in _brought(new_files))
    rules, named = merged_rules(files, definitions, wrapper, brought)
    if rules and not any(change.seeds for file in files for change in file.changes):
        _refuse_another_wrapper(files)
    seeds: list[Seed] = []
    steps: list[Step] = []
    for file in files:
        numbers = _number_seeds(file, seeds)
        data, placed = _residual(file, named, numbers)
        if data is not None:
            residual[file.path] = data
        steps += placed
        hunks += [_hunk(file, change, named) for change in file.changes]
    changes = [(file, change) for file in files for change in file.changes]
    lesson = Lesson(
        wrapper=wrapper,
        rules=rules,
        seeds=tuple(seeds),
        helpers=_helpers(changes, new_files, rules, seeds),
        imports=tuple(
            ImportEdit(file.path, statement, *_extended(file, change))
            for file, change in changes
            for statement in change.imports
        ),
        residual=residual,
        hunks=tuple(hunks),
        touched=touched,
        negatives=tuple(_negatives(files, rules)),
        steps=tuple(steps),
        brought=brought,
    )
    lost = _lost_comments(replay(lesson, parent), experiment, [file.path for file in files])
    return replace(lesson, hunks=(*lesson.hunks, *lost))


def _helpers(
    changes: Sequence[tuple[ChangedFile, Change]],
    new_files: Iterable[Source],
    rules: Iterable[Rule],
    seeds: Iterable[Seed],
) -> tuple[Helper, ...]:
    """Return the helpers, which know whether they come along whatever is rewritten.

    So do those that no rule and no seed calls, through others either, and those that unexplained
    code mentions, or a file that the experiment adds.
    """
    helpers = tuple(change.helper for _, change in changes if change.helper)
    names = {name for rule in rules for name in rule.requires}
    names |= {name for seed in seeds for name in seed.requires}
    called = {one for one in helpers if any(is_name_of(one, name) for name in names)}
    while (
        more := {
            one
            for one in helpers
            if any(one.path == user.path and one.name in user.needs for user in called)
        }
        - called
    ):
        called |= more
    mentioned = _mentions(root for _, c in changes if c.how == "residual" for root in c.edit.added)
    mentioned |= _mentions(source.tree for source in new_files)
    return tuple(
        replace(one, free=one not in called or one.name.rpartition(".")[2] in mentioned)
        for one in helpers
    )


def _mentions(roots: Iterable[ast.AST]) -> set[str]:
    """Return the names that some code reads, as attributes too, or imports."""
    found: set[str] = set()
    for node in (node for root in roots for node in walk(root)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.name for alias in node.names}
    return found


def _extended(file: ChangedFile, change: Change) -> tuple[str, str] | tuple[()]:
    """Return the text of an import before and after the experiment extended it, if it did."""
    before, after = change.edit.before, change.edit.after
    if not isinstance(before, ast.ImportFrom) or not isinstance(after, ast.ImportFrom):
        return ()
    texts = text_of(file.old.source, before), text_of(file.new.source, after)
    return flat_lines(texts[0]), flat_lines(texts[1])


def _refuse_another_wrapper(files: Sequence[ChangedFile]) -> None:
    """Refuse an experiment that wraps in another wrapper of the table than the plan names."""
    for file in files:
        roots = [root for change in file.changes for root in change.edit.added]
        calls = (node for root in roots for node in walk(root) if isinstance(node, ast.Call))
        for node in calls:
            row = known_wrapper(file.new.names.qualified(node.func, node) or "")
            if row is None or not row.prefix or row.callee == file.wrapper.callee:
                continue
            raise CannotLearn(
                f"the experiment wraps nothing in {file.wrapper.callee}, but calls {row.callee}",
                where=f"{file.path}:{line_of(node)} (experiment)",
                why=f"`{one_line(text_of(file.new.source, node))}` is of no concern to this plan",
                next=f"write `wrapper: {{callee: {row.callee}}}` in port.yaml",
            )


def _wrapping(
    parent: Files, experiment: Files, paths: Collection[str], wrapper: Wrapper
) -> Mapping[str, Mapping[str, int]]:
    """Return the functions that the experiment adds and that wrap an argument, by file and name."""
    found: dict[str, Mapping[str, int]] = {}
    for path in sorted(paths):
        if path.endswith(".py") and path in experiment:
            existed: frozenset[str] = frozenset()
            if path in parent:
                tree = parsed(path, parent[path], "the parent's side").tree
                existed = frozenset(name for one in tree.body if (name := top_level_name(one)))
            source = parsed(path, experiment[path], "the experiment's side")
            functions = wrapping_functions(source, existed, wrapper)
            found |= {path: functions} if functions else {}
    return found


def _definitions(experiment: Files, touched: Iterable[str]) -> Definitions:
    """Return the functions, methods and constants of the touched files by their bare names."""
    found: dict[str, ast.stmt] = {}
    for path in touched:
        if path.endswith(".py") and path in experiment:
            source = parsed(path, experiment[path], "the experiment's side")
            methods = [node for node in nodes_of(source.tree) if isinstance(node, ast.FunctionDef)]
            for statement in (*methods, *source.tree.body):
                name = top_level_name(statement)
                if name is not None:
                    found[name] = statement
    return found


def _imported_on(file: ChangedFile, sources: Sequence[Source]) -> ChangedFile:
    """Return a changed file whose helpers know the files that others can import them from."""
    changes = (
        replace(change, helper=imported_on(change.helper, sources)) if change.helper else change
        for change in file.changes
    )
    return replace(file, changes=tuple(changes))


def _brought(sources: Iterable[Source]) -> Iterator[Helper]:
    """Yield the definitions at the top level of files that the experiment adds."""
    for source in sources:
        names = [top_level_name(statement) for statement in source.tree.body]
        added = frozenset(name for name in names if name)
        for name, statement in zip(names, source.tree.body, strict=True):
            if name is not None and not isinstance(statement, ast.ClassDef):
                yield helper_from(source, None, statement, added)


def _is_foreign(path: str, parent: Files, experiment: Files, wrapper: Wrapper) -> bool:
    """Tell whether a file was no Python for this interpreter before the experiment either.

    One that names the wrapper is not: it may hold what has to be learned.
    """
    sides = [side[path] for side in (parent, experiment) if side.get(path) is not None]
    names = (wrapper.callee.rpartition(".")[2], wrapper.unwrap, *wrapper.methods)
    words = [name.encode() for name in names if name]
    if not path.endswith((".py", ".pyi")) or any(word in side for word in words for side in sides):
        return False
    return not any(_parses(path, side) for side in sides)


def _parses(path: str, data: bytes) -> bool:
    try:
        parse_source(path, data)
    except UnparsableSource:
        return False
    return True


def _whole_file(path: str, old: bytes | None, new: bytes | None, foreign: Collection[str]) -> Hunk:
    by = NEW_FILE if old is None else "a deleted file" if new is None else "not a Python file"
    if path in foreign:
        by = "it does not parse: carried over as text"
    return Hunk(path, 0 if old is None else 1, 0 if new is None else 1, "", "", "residual", by)


def _number_seeds(file: ChangedFile, seeds: list[Seed]) -> Mapping[int, int]:
    """Append the file's seeds in source order; returns each one's index by its identity.

    One that follows another added statement follows what that one does: onto has neither.
    """
    found = [seed for change in file.changes for seed, _ in change.seeds]
    numbers: dict[int, int] = {}
    counts: dict[str, int] = {}
    ahead: dict[tuple[str, str | None], Seed] = {}
    for seed in sorted(found, key=lambda seed: seed.line):
        key = counts.get(seed.scope, 0)
        counts[seed.scope] = key + 1
        known = ahead.get((seed.scope, seed.follows))
        follows = seed.follows if known is None else known.follows
        if seed.statement is not None and seed.kind != "decorator":
            ahead[seed.scope, seed.statement.rstrip()] = replace(seed, follows=follows)
        numbers[id(seed)] = len(seeds)
        seeds.append(replace(seed, key=key, follows=follows))
    return numbers


def _residual(
    file: ChangedFile, named: Mapping[PatternKey, str], numbers: Mapping[int, int]
) -> tuple[bytes | None, list[Step]]:
    """Return the parent's file with the unexplained edits (None without any), and the steps."""
    source = file.old.source

    def native(text: str) -> str:
        return re.sub(r"\r\n|\r|\n", source.newline, text)

    edits = [
        (index, TextEdit(change.span.start, change.span.end, native(change.text)))
        for index, change in enumerate(file.changes)
        if change.how == "residual"
    ]
    steps: list[Step] = []
    for index, change in enumerate(file.changes):
        # What is inserted at one place stays in the order that the experiment has.
        ahead = [
            edit
            for other, edit in edits
            if other < index
            or change.span.start != change.span.end
            or edit.start != edit.end
            or edit.end != change.span.start
        ]
        span = moved(change.span, ahead)
        if change.how == "text":
            steps.append(
                Step(file.path, span.start, span.end, "text", change.by, native(change.text))
            )
        elif change.pattern is not None:
            by = named[pattern_key(change.pattern)]
            steps.append(Step(file.path, span.start, span.end, "rule", by))
        elif change.seeds:
            for seed, inside in change.seeds:
                start, end = span.start, span.end
                if inside is not None:
                    start = span.start + len(native(change.text[: inside.start]))
                    end = start + len(native(change.text[inside.start : inside.end]))
                steps.append(Step(file.path, start, end, "seed", str(numbers[id(seed)])))
    if not edits:
        return None, steps
    return apply_edits(source, [edit for _, edit in edits]), steps


def _hunk(file: ChangedFile, change: Change, named: Mapping[PatternKey, str]) -> Hunk:
    edit = change.edit
    old, new = file.old.source, file.new.source
    root = edit.after if edit.after is not None else next(iter(edit.added), None)
    before, after = old.text[edit.span.start : edit.span.end].strip(), edit.text.strip()
    if change.example is not None:
        before, after = change.example.before, change.example.after
    elif isinstance(edit.after, ast.expr) and edit.kind == "seed":
        after = text_of(new, edit.after)
    return Hunk(
        path=file.path,
        line_before=0 if edit.kind in ("insert", "decorator") else line_at(old, edit.span.start),
        line_after=line_of(root) if isinstance(root, ast.stmt | ast.expr) else 0,
        before=before,
        after=after,
        kind=change.kind,
        by=named[pattern_key(change.pattern)] if change.pattern is not None else change.by,
    )


def _lost_comments(made: Files, experiment: Files, paths: Iterable[str]) -> Iterable[Hunk]:
    """Yield the comments that the experiment added or took away and no edit carries along."""
    for path in paths:
        if made[path] == experiment[path]:
            continue
        sides = [comments(parse_source(path, data)) for data in (made[path], experiment[path])]
        texts = [[text for text, _ in side] for side in sides]
        matcher = difflib.SequenceMatcher(None, texts[0], texts[1], autojunk=False)
        for tag, i, i_end, j, j_end in matcher.get_opcodes():
            if tag != "equal":
                yield Hunk(
                    path=path,
                    line_before=0,
                    line_after=sides[1][j][1] if j < j_end else 0,
                    before="\n".join(texts[0][i:i_end]),
                    after="\n".join(texts[1][j:j_end]),
                    kind="residual",
                    by="a comment alone, not carried over",
                )


def _negatives(files: Sequence[ChangedFile], rules: Sequence[Rule]) -> Iterable[Negative]:
    """Yield what the rules match in the touched files and the experiment left alone."""
    for file in files:
        edited = {change.site for change in file.changes}
        source = file.old.source
        for rule in rules:
            for node, _ in matches(rule, source.tree):
                if node not in edited and isinstance(node, ast.expr):
                    text = one_line(text_of(source, node))
                    yield Negative(file.path, line_of(node), text, rule.name, node.col_offset)
