"""Helpers that an experiment brings along: taken from its diff, and put where they are needed."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from porttool.errors import NeedsPerson
from porttool.learning.lesson import Helper, ImportEdit, Lesson, is_name_of
from porttool.learning.rewriting import names_of
from porttool.learning.spelling import way_to_write
from porttool.source.imports import Extended, bring_imports
from porttool.source.inserts import insert_definition
from porttool.source.scopes import top_level_name
from porttool.source.syntax import (
    Names,
    Source,
    TextEdit,
    indent_of,
    line_of,
    same_tree,
    statement_span,
)

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def helper_from(
    source: Source, owner: ast.ClassDef | None, statement: ast.stmt, added: frozenset[str]
) -> Helper:
    """Return an added definition as a helper; `added` names every other one of its file."""
    name = top_level_name(statement) or ""
    body: Sequence[ast.stmt] = owner.body if owner else source.tree.body
    index = list(body).index(statement)
    used = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    return Helper(
        name=f"{owner.name}.{name}" if owner else name,
        path=source.path,
        text=statement_text(source, statement),
        after=top_level_name(body[index - 1]) if index else None,
        before=top_level_name(body[index + 1]) if index + 1 < len(body) else None,
        imports=tuple(_imports_of(source, used)),
        needs=tuple(sorted(used & added - {name})),
    )


def _dedented(text: str) -> str:
    return textwrap.dedent(re.sub(r"\r\n?", "\n", text)).strip("\n") + "\n"


def import_statements(statement: ast.stmt) -> Mapping[str, str]:
    """Return one import statement for each name that an import binds, by that name."""
    found: dict[str, str] = {}
    if isinstance(statement, ast.Import | ast.ImportFrom):
        for alias in statement.names:
            name = alias.asname or alias.name.partition(".")[0]
            single = (
                ast.Import([alias])
                if isinstance(statement, ast.Import)
                else ast.ImportFrom(statement.module, [alias], statement.level)
            )
            text = ast.unparse(single)
            # Several `import a.b` bind the one name `a`.
            found[name if name not in found else text] = text
    return found


def _imports_of(source: Source, used: set[str]) -> Iterable[str]:
    for statement in source.tree.body:
        for name, text in import_statements(statement).items():
            if name in used:
                yield text


def helper_edits(
    source: Source, lesson: Lesson, needed: Iterable[str], also: Iterable[str] = ()
) -> tuple[TextEdit, ...]:
    """Return the edits that bring helpers, and the imports they use, into a file.

    `needed` holds names as in `Rule.requires`, `also` more imports, one name a statement. What the
    file has already, with an equal tree, is left. In the helper's own file the definition is
    inserted, in any other one an import of it.

    Raises:
        NeedsPerson: when something else has the name, or no import of it can be spelled.
    """
    helpers = {helper.name: helper for helper in lesson.helpers}
    names = names_of(source.tree)
    imports = list(also)
    definitions: list[TextEdit] = []
    wanted = tuple(needed)
    for name in _with_needs(wanted, helpers):
        helper = helpers.get(name)
        if helper is None:
            imports += _existing_name(source, lesson, name, names)
        elif helper.path != source.path:
            if name in wanted:
                imports += _imported(source, lesson, helper, names)
        elif not _present(source, helper, names):
            definitions.append(_inserted(source, helper))
            for statement in helper.imports:
                bound = next(iter(import_statements(ast.parse(statement).body[0])))
                if not names.binds(bound, source.tree):
                    imports.append(statement)
    # Inserts at one place keep this order: imports first, and what is needed before its user.
    own = [one for one in lesson.imports if one.path == source.path]
    apart = [one.statement for one in own if one.before is None]
    brought = bring_imports(source, imports, apart=apart, extended=_extended(own))
    return tuple(dict.fromkeys([*brought, *definitions]))


def _extended(added: Iterable[ImportEdit]) -> Mapping[str, Extended]:
    """Return the imports that the experiment extended, by their text before it did."""
    found: dict[str, Extended] = {}
    for one in added:
        if one.before is not None and one.after is not None:
            sides = [ast.parse(text).body[0] for text in (one.before, one.after)]
            names = [
                {ast.unparse(alias) for alias in side.names}
                for side in sides
                if isinstance(side, ast.ImportFrom)
            ]
            found[one.before] = Extended(one.after, frozenset(names[1] - names[0]))
    return found


def wrong_call(lesson: Lesson, text: str) -> str | None:
    """Return how a rewritten place would call a helper with arguments that it does not take."""
    helpers = {helper.name.rpartition(".")[2]: helper for helper in lesson.helpers}
    for node in ast.walk(ast.parse(f"({text}\n)", mode="eval")):
        called = node.func if isinstance(node, ast.Call) else None
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        helper = helpers.get(name)
        if helper is None or not isinstance(node, ast.Call):
            continue
        definition = ast.parse(helper.text).body[0]
        bound = "." in helper.name and isinstance(called, ast.Attribute)
        if isinstance(definition, _Function) and not _takes(definition, node, bound=bound):
            return f"`{ast.unparse(node)}` is no call that `{helper.name}` takes"
    return None


def _takes(
    function: ast.FunctionDef | ast.AsyncFunctionDef, call: ast.Call, *, bound: bool
) -> bool:
    """Tell whether a function's parameters fit a call's arguments; what is behind stars fits."""
    given = function.args
    positional = [argument.arg for argument in (*given.posonlyargs, *given.args)]
    static = any(ast.unparse(one) == "staticmethod" for one in function.decorator_list)
    if bound and not static:
        positional = positional[1:]
    names = [word.arg for word in call.keywords]
    stars = None in names or any(isinstance(argument, ast.Starred) for argument in call.args)
    if len(call.args) > len(positional) and not given.vararg:
        return False
    filled = set(positional[: len(call.args)])
    only = {argument.arg for argument in given.posonlyargs}
    by_name = {*positional, *(argument.arg for argument in given.kwonlyargs)} - filled - only
    if not given.kwarg and any(name is not None and name not in by_name for name in names):
        return False
    needed = set(positional[: len(positional) - len(given.defaults)])
    defaults = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    needed |= {argument.arg for argument, default in defaults if default is None}
    return stars or needed <= filled | set(names)


def helpers_at_home(source: Source, lesson: Lesson, called: Iterable[str]) -> list[str]:
    """Return the helpers among some names that live in a file, however others import them."""
    names = tuple(called)
    home = [helper for helper in lesson.helpers if helper.path == source.path]
    return [one.name for one in home if any(is_name_of(one, name) for name in names)]


def _with_needs(needed: Iterable[str], helpers: Mapping[str, Helper]) -> list[str]:
    """Return the names with what they need, each behind what it needs."""
    ordered: list[str] = []
    for name in needed:
        helper = helpers.get(name)
        if name not in ordered:
            rest = {key: value for key, value in helpers.items() if key != name}
            ordered += [
                one
                for one in _with_needs(helper.needs if helper else (), rest)
                if one not in ordered
            ]
            ordered.append(name)
    return ordered


def _existing_name(source: Source, lesson: Lesson, name: str, names: Names) -> list[str]:
    """Bring in a name that the experiment did not define: an import, or another of its files'."""
    if "." in name:
        spelled = [pair for rule in lesson.rules for pair in rule.spelled]
        way = way_to_write(names, name, source.tree, spelled)
        return [way.statement] if way.statement else []
    homes = {
        example.path for rule in lesson.rules if name in rule.requires for example in rule.examples
    }
    homes |= {seed.path for seed in lesson.seeds if name in seed.requires}
    if names.binds(name, source.tree):
        if homes and source.path not in homes:
            _refuse_another(source, name, homes)
        return []
    brought = _brought(source, lesson, name)
    if brought is not None:
        return [brought]
    if len(homes) == 1 and source.path not in homes:
        return [_import_from(source, homes.pop(), name, lesson)]
    raise NeedsPerson(
        f"{source.path} needs {name}, which it does not define or import",
        where=source.path,
        next=f"import {name} there on the branch that it is ported to, then run the port again",
    )


def _refuse_another(source: Source, name: str, homes: Collection[str]) -> None:
    """Refuse a file that defines by itself what the experiment's files have by that name."""
    for statement in source.tree.body:
        if isinstance(statement, _Function) and statement.name == name:
            raise NeedsPerson(
                f"{source.path} has a function {name} of its own, not the one of {min(homes)}",
                where=f"{source.path}:{line_of(statement)}",
                why="the experiment's rewrite calls the latter by that name",
                next=f"rename one of the two, or import {name} from {min(homes)}, on the branch "
                "that it is ported to",
            )


def _present(source: Source, helper: Helper, names: Names) -> bool:
    owner, _, name = helper.name.rpartition(".")
    body: Sequence[ast.stmt] = source.tree.body
    if owner:
        found = _class_of(source, helper)
        body = found.body
    wanted = ast.parse(helper.text).body[0]
    if owner:
        # A docstring of several lines is another constant at another indent.
        inside = ast.parse(f"class _:\n{textwrap.indent(helper.text, ' ' * 4)}").body[0]
        wanted = inside.body[0] if isinstance(inside, ast.ClassDef) else wanted
    for statement in body:
        if top_level_name(statement) == name:
            if same_tree(statement, wanted):
                return True
            raise _taken(source, helper, line_of(statement))
    if not owner and names.binds(name, source.tree):
        binding = (one for one in source.tree.body if name in import_statements(one))
        raise _taken(source, helper, next(map(line_of, binding), 1))
    return False


def _taken(source: Source, helper: Helper, line: int) -> NeedsPerson:
    return NeedsPerson(
        f"{source.path} has another {helper.name} than the experiment brings",
        where=f"{source.path}:{line}",
        why=f"the experiment's is:\n{textwrap.indent(helper.text, '         ').rstrip()}",
        next=f"rename one of the two, or make them equal, on the branch that {helper.path} is on",
    )


def _class_of(source: Source, helper: Helper) -> ast.ClassDef:
    owner = helper.name.rpartition(".")[0]
    for statement in source.tree.body:
        if isinstance(statement, ast.ClassDef) and statement.name == owner:
            return statement
    raise NeedsPerson(
        f"{source.path} has no class {owner}, to which the experiment adds {helper.name}",
        where=source.path,
        next="find where the class went and add the method there by hand",
    )


def _inserted(source: Source, helper: Helper) -> TextEdit:
    if "." not in helper.name:
        after = [helper.after] if helper.after else []
        before = [helper.before] if helper.before else []
        return insert_definition(source, helper.text, after=after, before=before)
    owner = _class_of(source, helper)
    members = {name: one for one in owner.body if (name := top_level_name(one))}
    anchor = members.get(helper.after or "", owner.body[-1])
    span = statement_span(source, anchor)
    text = "\n" + textwrap.indent(helper.text, indent_of(source, anchor))
    if not source.text[: span.end].endswith(("\n", "\r")):
        text = "\n" + text
    return TextEdit(span.end, span.end, text)


def _imported(source: Source, lesson: Lesson, helper: Helper, names: Names) -> list[str]:
    """Return the import of a helper from the file that it lives in."""
    name = helper.name.partition(".")[0]
    if names.binds(name, source.tree):
        for statement in source.tree.body:
            if name in import_statements(statement):
                if _may_bring(source, statement, helper.path):
                    return []
                raise _taken(source, helper, line_of(statement))
        raise _taken(source, helper, 1)
    brought = _brought(source, lesson, name)
    own = any(added.path == source.path for added in lesson.imports)
    if brought is not None and (own or not _reads_from(source, helper.path)):
        return [brought]
    return [_import_from(source, helper.path, name, lesson)]


def _may_bring(source: Source, statement: ast.stmt, home: str) -> bool:
    """Tell whether an import reads from the file at `home`, or from a package that it is in."""
    if not isinstance(statement, ast.ImportFrom):
        return False
    packages = [parent.as_posix() for parent in PurePosixPath(home).parents if parent.name]
    return any(resolves(source, statement, path) for path in (home, *packages))


def _brought(source: Source, lesson: Lesson, name: str) -> str | None:
    """Return the import by which the experiment brings a name into this file, or its neighbours."""
    here = PurePosixPath(source.path)
    for added in sorted(lesson.imports, key=lambda added: added.path != source.path):
        neighbour = PurePosixPath(added.path).parent == here.parent
        if neighbour and name in import_statements(ast.parse(added.statement).body[0]):
            return added.statement
    return None


def _import_from(source: Source, home: str, name: str, lesson: Lesson) -> str:
    """Return an import from the file at `home`, spelled as this file spells that one."""
    there = _reads_from(source, home)
    if there is not None:
        return f"from {'.' * there.level}{there.module or ''} import {name}"
    return f"from {_module_name(source, home, lesson)} import {name}"


def _reads_from(source: Source, home: str) -> ast.ImportFrom | None:
    """Return the first import of a file that reads from the file at `home`."""
    for statement in source.tree.body:
        if isinstance(statement, ast.ImportFrom) and resolves(source, statement, home):
            return statement
    return None


def _dotted_path(path: str) -> list[str]:
    parts = list(PurePosixPath(path).with_suffix("").parts)
    return parts[:-1] if parts[-1] == "__init__" else parts


def resolves(source: Source, statement: ast.ImportFrom, home: str) -> bool:
    """Tell whether a `from` import reads from the file at `home`."""
    target = _dotted_path(home)
    module = (statement.module or "").split(".") if statement.module else []
    if statement.level:
        folder = list(PurePosixPath(source.path).parent.parts)
        folder = folder[: len(folder) - statement.level + 1]
        return [*folder, *module] == target
    return bool(module) and target[-len(module) :] == module


def _module_name(source: Source, home: str, lesson: Lesson) -> str:
    """Spell the module at `home` the way this file spells its neighbours, else as onto has it."""
    target = _dotted_path(home)
    here = list(PurePosixPath(source.path).parent.parts)
    imports = [node for node in source.tree.body if isinstance(node, ast.ImportFrom)]
    shared = 0
    while shared < min(len(here), len(target) - 1) and here[shared] == target[shared]:
        shared += 1
    # A package that the two do not share is out of reach of a relative import.
    if any(node.level for node in imports) and (shared or here == target[:-1]):
        return "." * (len(here) - shared + 1) + ".".join(target[shared:])
    modules = [node.module for node in imports if node.module]
    modules += [
        alias.name
        for node in source.tree.body
        if isinstance(node, ast.Import)
        for alias in node.names
    ]
    for module in modules:
        root = module.partition(".")[0]
        if root in target[:-1]:
            return ".".join(target[target.index(root) :])
    for path, there, name in lesson.modules:
        if (path, there) == (source.path, home):
            return name
    if here == target[:-1] == []:
        return target[-1]
    raise NeedsPerson(
        f"{source.path} needs a name from {home}, and its imports do not tell how to spell that",
        where=source.path,
        next=f"import anything from {home} there on the branch that it is ported to",
    )


def statement_text(source: Source, statement: ast.stmt) -> str:
    """Return a statement's lines, dedented, with "\n" for line ends."""
    span = statement_span(source, statement)
    return _dedented(source.text[span.start : span.end])
