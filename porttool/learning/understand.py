"""Understand one changed file: each edit is a seed, a rule, a helper, an import, or unexplained."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace

from porttool.errors import CannotLearn, UnparsableSource
from porttool.learning.change import Change, ChangedFile
from porttool.learning.definitions import (
    helper_from,
    import_statements,
    resolves,
    statement_text,
)
from porttool.learning.examples import refuse_overlaps, rule_change
from porttool.learning.lesson import Helper, Wrapper
from porttool.learning.neutral import Definitions
from porttool.learning.seeds import (
    decorator_seed,
    expression_seed,
    statement_seeds,
    view,
    wrapping_functions,
    wrappings,
)
from porttool.learning.treediff import Edit, diff_sources
from porttool.source.nodes import walk
from porttool.source.scopes import top_level_name
from porttool.source.syntax import Source, Span, line_of, parse_source, span_of, text_of

_METHOD_KINDS = ("staticmethod", "classmethod")
_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def parsed(path: str, data: bytes, side: str) -> Source:
    """Parse one side of a file; raises CannotLearn, not UnparsableSource."""
    try:
        return parse_source(path, data)
    except UnparsableSource as error:
        raise CannotLearn(
            f"cannot learn from {path}: {side} does not parse",
            where=error.where,
            why=error.why,
            next=f"fix {path} on that side, or leave it out of the experiment's commit",
        ) from error


def wrapping_of_others(
    source: Source, wrapping: Mapping[str, Mapping[str, int]]
) -> Mapping[str, int]:
    """Return the functions of other files that a file imports and that wrap an argument.

    `wrapping` has such functions by file and name, with the position of the argument.
    """
    found: dict[str, int] = {}
    for statement in source.tree.body:
        if not isinstance(statement, ast.ImportFrom):
            continue
        for home, functions in wrapping.items():
            if home != source.path and resolves(source, statement, home):
                found |= {
                    alias.asname or alias.name: functions[alias.name]
                    for alias in statement.names
                    if alias.name in functions
                }
    return found


def read_change(
    path: str,
    before: bytes,
    after: bytes,
    wrapper: Wrapper,
    *,
    definitions: Definitions,
    wrapping: Mapping[str, Mapping[str, int]],
) -> ChangedFile:
    """Return a file that changed, its edits understood; raises CannotLearn.

    `wrapping` has the functions of the experiment's files that wrap an argument.
    """
    old_source = parsed(path, before, "the parent's side")
    new_source = parsed(path, after, "the experiment's side")
    existed = frozenset(
        name for one in old_source.tree.body if (name := top_level_name(one)) is not None
    )
    own = _defined_wrappers(old_source, wrapper)
    through = {
        **wrapping_of_others(new_source, wrapping),
        **wrapping_functions(new_source, existed, wrapper),
        **_defined_wrappers(new_source, wrapper),
    }
    old, new = view(old_source, wrapper, own), view(new_source, wrapper, through)

    def decorates(node: ast.expr) -> bool:
        callee = node.func if isinstance(node, ast.Call) else node
        return wrapper.is_called(new.names.qualified(callee, callee))

    edits = diff_sources(old_source, new_source, old.wrapped, new.wrapped, decorates)
    top = {name for one in new_source.tree.body if (name := top_level_name(one)) is not None}
    added = frozenset(top - existed)
    file = ChangedFile(path, old, new, wrapper, added, through, definitions)
    file = replace(file, changes=tuple(_understood(file, edit) for edit in edits))
    refuse_overlaps(file)
    _refuse_starred_wrapper(file)
    return file


def _defined_wrappers(source: Source, wrapper: Wrapper) -> Mapping[str, int]:
    """Return the file's own definitions that are the wrapper itself; they wrap what comes first."""
    names = (top_level_name(statement) for statement in source.tree.body)
    return {name: 0 for name in names if name and wrapper.is_defined(source.path, name)}


def _understood(file: ChangedFile, edit: Edit) -> Change:
    if edit.kind == "seed" and isinstance(edit.after, ast.expr) and edit.inner is not None:
        seed = expression_seed(file.new, edit.after, edit.inner)
        by = seed.target or seed.constructor
        return Change(edit, "seed", by, "place", edit.span, seeds=((seed, None),))
    if edit.kind == "decorator" and isinstance(edit.after, ast.expr):
        definition = file.new.above[edit.after]
        seed = decorator_seed(file.new, definition, edit.after)
        by = seed.target or seed.constructor
        return Change(edit, "seed", by, "text", edit.span, edit.text, seeds=((seed, None),))
    change = None
    if edit.kind == "expression":
        change = rule_change(file, edit)
    elif edit.kind in ("insert", "replace") and isinstance(edit.after, ast.stmt):
        change = _statement_change(file, edit, edit.after)
    if change is None:
        change = Change(edit, "residual", "no rule", "residual", edit.span, edit.text)
    if change.kind == "residual" and change.how == "residual" and not change.seeds:
        _refuse_hidden_wrapping(file, edit)
    return change


def _refuse_hidden_wrapping(file: ChangedFile, edit: Edit) -> None:
    node = next(_wrapper_names(file, *edit.added), None)
    if node is None:
        return
    name = text_of(file.new.source, node)
    where = f"{file.path}:{line_of(node)} (experiment)"
    call = file.new.above.get(node)
    decorates = isinstance(call, _FUNCTIONS)
    if not decorates and not (isinstance(call, ast.Call) and call.func is node):
        raise CannotLearn(
            f"the experiment hands on `{name}` without calling it",
            where=where,
            why="nobody can tell from here which objects it will wrap",
            next=f"write `{name}(...)` in the experiment where each object is made, under an `if` "
            "where it depends on something, and put the commit's new id into port.yaml",
        )
    raise CannotLearn(
        f"the experiment uses `{name}` inside of an edit that cannot be taken apart",
        where=where,
        why="a switch could not be put in front of this wrapping alone",
        next="split the experiment's commit: the new code first, the wrapping on its own",
    )


def _refuse_starred_wrapper(file: ChangedFile) -> None:
    """Refuse a call of the wrapper's bare name where only a star import can have brought it."""
    module, _, name = file.wrapper.callee.rpartition(".")
    statement = next(
        (
            one
            for one in file.new.source.tree.body
            if isinstance(one, ast.ImportFrom) and one.names[0].name == "*"
            if one.module == module and not one.level
        ),
        None,
    )
    added = (node for change in file.changes for root in change.edit.added for node in walk(root))
    for node in added if statement is not None else ():
        bare = isinstance(node, ast.Call) and ast.unparse(node.func) == name
        if bare and not file.new.names.binds(name, node):
            raise CannotLearn(
                f"`{name}` may be {file.wrapper.callee} here, or the built-in of that name",
                where=f"{file.path}:{line_of(node)} (experiment)",
                why=f"only `from {module} import *` can have brought it, and what that brings is "
                "not written down",
                next=f"write `{file.wrapper.callee}(...)` in the experiment, with "
                f"`import {module}`, and put the commit's new id into port.yaml",
            )


def _wrapper_names(file: ChangedFile, *roots: ast.AST) -> Iterator[ast.expr]:
    """Yield every mention of the wrapper, called or not (`map(torch.compile, nets)`).

    Who asks for its class (`isinstance(net, nn.DataParallel)`) wraps nothing.
    """
    for root in roots:
        asked = {
            part
            for node in ast.walk(root)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            if node.func.id in ("isinstance", "issubclass") and len(node.args) == 2
            for part in ast.walk(node.args[1])
        }
        for node in ast.walk(root):
            if not isinstance(node, ast.Name | ast.Attribute) or node in asked:
                continue
            through = isinstance(node, ast.Name) and node.id in file.through
            if through or file.wrapper.is_called(file.new.names.qualified(node, node)):
                yield node


def _statement_change(file: ChangedFile, edit: Edit, statement: ast.stmt) -> Change | None:
    """Explain an added statement, or an import that was extended."""
    owner = file.new.above.get(statement)
    if isinstance(statement, ast.Import | ast.ImportFrom):
        before = import_statements(edit.before) if isinstance(edit.before, ast.stmt) else {}
        after = import_statements(statement)
        if not isinstance(owner, ast.Module) or set(before.items()) - set(after.items()):
            return None
        gained = tuple(text for name, text in after.items() if before.get(name) != text)
        by = ", ".join(gained)
        return Change(edit, "import", by, "text", edit.span, edit.text, imports=gained)
    if edit.kind != "insert":
        return None
    helper = _added_definition(file, statement, owner)
    if helper is not None:
        name = helper.name
        return Change(edit, "helper", name, "text", edit.span, edit.text, helper=helper)
    if isinstance(statement, _FUNCTIONS):
        return None
    source = file.new.source
    block = _block_around(statement, owner)
    index = block.index(statement)
    follows = statement_text(source, block[index - 1]).rstrip() if index else None
    text = statement_text(source, statement)
    seeds = statement_seeds(file.new, statement, text, follows, file.wrapper)
    if seeds:
        leads = follows is None and isinstance(owner, _FUNCTIONS)
        seeds = tuple(replace(seed, leads=leads) for seed in seeds)
        by = seeds[0].target or seeds[0].constructor
        pairs = tuple((seed, None) for seed in seeds)
        return Change(edit, "seed", by, "text", edit.span, edit.text, seeds=pairs)
    return _stripped(file, edit, statement)


def _block_around(statement: ast.stmt, owner: ast.AST | None) -> list[ast.stmt]:
    for _, value in ast.iter_fields(owner) if owner is not None else ():
        if isinstance(value, list) and statement in value:
            return value
    return [statement]


def _added_definition(
    file: ChangedFile, statement: ast.stmt, owner: ast.AST | None
) -> Helper | None:
    name = top_level_name(statement)
    source = file.new.source
    if isinstance(owner, ast.Module) and name in file.added:
        constant = isinstance(statement, ast.Assign | ast.AnnAssign) and not _is_made(
            file, statement
        )
        if constant and name not in file.through and not _used_by_definitions(file, name):
            return None
        if name not in file.through and any(_wrapper_names(file, statement)):
            return None
        return helper_from(source, None, statement, file.added)
    if isinstance(owner, ast.ClassDef) and isinstance(statement, ast.FunctionDef):
        if not isinstance(file.new.above.get(owner), ast.Module) or owner.name in file.added:
            return None
        plain = all(ast.unparse(one) in _METHOD_KINDS for one in statement.decorator_list)
        if not plain or any(_wrapper_names(file, statement)):
            return None
        return helper_from(source, owner, statement, file.added)
    return None


def _is_made(file: ChangedFile, statement: ast.Assign | ast.AnnAssign) -> bool:
    """Tell whether a value is a function that an expression makes: a lambda, a partial."""
    value = statement.value
    partial = isinstance(value, ast.Call) and file.new.names.qualified(value.func, value)
    return isinstance(value, ast.Lambda) or partial == "functools.partial"


def _used_by_definitions(file: ChangedFile, name: str) -> bool:
    """Tell whether an added function uses an added constant, which then has to come along."""
    for statement in file.new.source.tree.body:
        added = isinstance(statement, _FUNCTIONS) and statement.name in file.added
        nodes = ast.walk(statement) if added else ()
        if any(isinstance(node, ast.Name) and node.id == name for node in nodes):
            return True
    return False


def _stripped(file: ChangedFile, edit: Edit, statement: ast.stmt) -> Change | None:
    """Take an added statement that wraps what it makes: plain in the residual, then wrapped."""
    found = list(wrappings(file.new, statement))
    if not found:
        return None
    source = file.new.source
    own = span_of(source, statement)
    body = source.text[own.start : own.end]
    at = edit.text.find(body)
    if at < 0 or len(found) > 1:
        return None
    node, inner = found[0]
    outer, plain = span_of(source, node), span_of(source, inner)
    start = at + outer.start - own.start
    text = edit.text[:start] + source.text[plain.start : plain.end]
    text += edit.text[start + outer.end - outer.start :]
    seed = expression_seed(file.new, node, inner)
    span = Span(start, start + plain.end - plain.start)
    by = seed.target or seed.constructor
    return Change(edit, "seed", by, "residual", edit.span, text, seeds=((seed, span),))
