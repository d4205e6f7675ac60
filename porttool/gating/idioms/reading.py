"""How a place in the code reads a flat switch: the settings in scope, in their own idiom."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from porttool.frozen import dataclass
from porttool.gating.idioms.bindings import local_binding, member_assignments
from porttool.gating.idioms.classes import (
    SettingsClass,
    field_objection,
    looks_like_settings,
    settings_class,
)
from porttool.gating.idioms.commands import command_holder, command_idiom, command_objection
from porttool.gating.idioms.guesses import LOOSE_NAMES, guessed, is_row, uses_of
from porttool.gating.idioms.lookup import (
    Sources,
    class_around,
    definition,
    functions_around,
    is_parameter,
    top_level_binding,
    top_level_names,
)
from porttool.gating.idioms.mappings import (
    absl_objection,
    constant_objection,
    entry_objection,
    overridden_globals,
)
from porttool.gating.idioms.origins import (
    USUAL_NAMES,
    Opaque,
    Origin,
    Settings,
    of_binding,
    of_class,
    of_global,
    of_member,
    of_parameter,
)
from porttool.gating.idioms.parsers import flag_for, flag_objection
from porttool.gating.idioms.spreading import spread_at
from porttool.gating.idioms.values import Holder, SwitchRead, Unclear
from porttool.source.nodes import nodes_of, walk
from porttool.source.scopes import Function, bound_names, local_names, own_nodes, parameters
from porttool.source.syntax import Names, Source, parents

# Where a `config` comes from that is a library's own.
_LIBRARIES = ("torch", "jax", "tensorflow", "pandas", "numpy", "transformers", "matplotlib")


@dataclass(frozen=True)
class _Candidate:
    text: str
    identity: object  # equal for two spellings of one object
    from_line: int
    settings: Settings | Opaque


def read_switch(
    sources: Sources, path: str, node: ast.AST, name: str, chosen: str | None = None
) -> SwitchRead | Unclear | None:
    """Return how the switch `name` is read at a node of `sources[path].tree`.

    `sources` maps paths relative to the repository's root to files; a lazy mapping is welcome:
    files are looked up one by one as imports lead to them, and only a parameter whose origin is
    not in its own file makes this look through the files that mention the function.

    `chosen` is the name of settings ("cfg", "self.cfg") that a person decided for: where it is one
    of those in scope, no other counts.

    None: no settings are in scope. Unclear: several could hold the switch, or what is in scope is
    of no idiom that can be extended safely.
    """
    source = sources[path]
    # What a call takes with ** is its options, not the settings of the program.
    spread = {ast.unparse(word.value) for word in getattr(node, "keywords", ()) if not word.arg}
    found = [one for one in _candidates(sources, source, node) if one.text not in spread]
    found = [one for one in found if one.text == chosen] or found
    line = getattr(node, "lineno", 0)
    here = [candidate for candidate in found if candidate.from_line <= line]
    if not here:
        late = next(iter(found), None)
        if late is None:
            return _hyperparameters(source, node)
        return Unclear((f"`{late.text}` is not there before line {late.from_line}",))
    several = list({candidate.identity: candidate for candidate in reversed(here)}.values())[::-1]
    if len(several) > 1:
        listed = ", ".join(f"`{candidate.text}`" for candidate in several)
        return Unclear(
            (f"several objects could hold the switch: {listed}",),
            tuple(candidate.text for candidate in several if candidate.text != "globals()"),
        )
    only = here[0]
    if isinstance(only.settings, Opaque):
        unseen = _unseen_but_read(source, only, name) if only.text == chosen else None
        asks = (only.text,) if uses_of(source, only.text) else ()
        return unseen or Unclear((only.settings.why,), () if only.text == chosen else asks)
    why = switch_objection(sources, only.settings, name)
    if why:
        return Unclear((f"`{only.text}` cannot take the switch: {why}",))
    read = _read(source, only, only.settings, name, node)
    return replace(read, declared=why == "")


def _unseen_but_read(source: Source, only: _Candidate, name: str) -> SwitchRead | None:
    """Return how settings that nothing explains are read, by how the file reads them elsewhere.

    What has no such setting reads as off, whatever it turns out to be.
    """
    ways = uses_of(source, only.text)
    if ways == {"attribute"}:
        expression = f'getattr({only.text}, "{name}", False)'
    elif ways == {"item"}:
        expression = f'{only.text}.get("{name}", False)'
    else:
        return None
    return SwitchRead(
        expression=expression,
        idiom="dict",
        declared_in=None,
        from_line=only.from_line,
        notes=(f"nothing declares `{name}`: give `{only.text}` a setting of that name",),
    )


def _read(
    source: Source, chosen: _Candidate, settings: Settings, name: str, node: ast.AST
) -> SwitchRead:
    text = chosen.text
    imports: tuple[tuple[str, str], ...] = ()
    if settings.access == "attribute":
        expression = f"{text}.{name}"
    elif settings.access == "item":
        expression = f'{text}["{name}"]'
    elif settings.access == "get":
        expression = f'{text}.get("{name}", False)'
    elif settings.access == "select":
        spelled = Names(source.tree).spelling("omegaconf.OmegaConf", node)
        imports = () if spelled else (("omegaconf", "OmegaConf"),)
        expression = f'{spelled or "OmegaConf"}.select({text}, "{name}", default=False)'
    else:
        expression = name
    return SwitchRead(
        expression=expression,
        idiom=settings.idiom,
        declared_in=settings.holder,
        from_line=chosen.from_line,
        imports=imports,
        notes=(*settings.notes, *_notes(settings, name)),
    )


def _hyperparameters(source: Source, node: ast.AST) -> Unclear | None:
    """Say of a Lightning module's own hyperparameters that they take a constructor argument."""
    for function in functions_around(source, node):
        owner = class_around(source, function)
        for part in walk(owner) if owner is not None else ():
            if isinstance(part, ast.Attribute) and part.attr == "save_hyperparameters":
                why = (
                    f"the settings of {owner.name if owner else ''} are its constructor's arguments"
                )
                return Unclear((f"{why}, and who makes it would have to give the switch",))
    return None


def _notes(settings: Settings, name: str) -> Iterator[str]:
    """Yield what the declaration changes for whoever looks from outside, and how to turn it on."""
    flag = flag_for(name)
    if settings.idiom == "argparse":
        yield (
            f"`--help` lists {flag} and --no-{flag[2:]}, and an abbreviation of another flag that "
            "begins alike may have become ambiguous"
        )
    elif settings.idiom == "hydra":
        yield (
            f"nothing declares `{name}`: add it to the settings file, or turn it on with "
            f"`+{name}=true`"
        )
    elif settings.idiom in ("dataclass", "pydantic"):
        yield f"dumps of {settings.holder.name if settings.holder else ''} gain the key `{name}`"
    elif settings.idiom == "dict" and settings.holder is None:
        yield f"nothing declares `{name}`: a settings file turns it on with `{name}: true`"
    elif settings.idiom == "dict":
        yield f"dumps of {settings.holder.name if settings.holder else ''} gain the key `{name}`"


def switch_objection(sources: Sources, settings: Settings, name: str) -> str | None:
    """Return why settings cannot take the switch; "" where they have it already, off."""
    holder = settings.holder
    if settings.parser is not None:
        why = flag_objection(sources, settings.parser, name)
    elif settings.owner is not None:
        why = field_objection(sources, settings.owner, name)
    elif settings.written is not None and holder is not None:
        why = entry_objection(sources[holder.path], settings.written, name)
    elif settings.idiom == "absl" and holder is not None:
        why = absl_objection(sources[holder.path], name)
    elif settings.idiom == "module" and holder is not None:
        why = constant_objection(sources[holder.path], name)
    elif settings.idiom in ("typer", "click", "fire") and holder is not None:
        function = next(
            function
            for function in nodes_of(sources[holder.path].tree)
            if isinstance(function, Function)
            and command_holder(sources[holder.path], function) == holder
        )
        why = command_objection(sources, sources[holder.path], function, settings.idiom, name)
    else:
        return None
    if why is None:
        spread = spread_at(sources, settings)
        if spread is not None:
            return f"{spread} would be given `{name}` as well"
    return why


def _candidates(sources: Sources, source: Source, node: ast.AST) -> Iterator[_Candidate]:
    """Yield what holds settings around a node, the nearest first; shadowed names are left out."""
    hidden = _bound_in_expressions(source, node)
    line = getattr(node, "lineno", 0)
    for function in functions_around(source, node):
        for candidate in _in_function(sources, source, function, line):
            if candidate.text not in hidden:
                yield candidate
        hidden |= local_names(function)
        owner = class_around(source, function)
        if owner is not None and parameters(function):
            yield from _members(sources, source, owner, function)
        idiom = command_idiom(sources, source, function)
        if idiom is not None and len(functions_around(source, node)) == 1:
            holder = command_holder(source, function)
            yield _Candidate(function.name, holder, 0, Settings(idiom, "name", holder))
    yield from _at_top(sources, source, hidden, functions_around(source, node))


def _bound_in_expressions(source: Source, node: ast.AST) -> set[str]:
    """Return the names that lambdas and comprehensions around a node bind."""
    above = parents(source.tree)
    names: set[str] = set()
    here: ast.AST | None = above.get(node)
    while here is not None:
        if isinstance(here, ast.Lambda):
            names |= {argument.arg for argument in parameters(here)}
        for generator in getattr(here, "generators", []):
            names |= {part.id for part in ast.walk(generator.target) if isinstance(part, ast.Name)}
        here = above.get(here)
    return names


def _identity(settings: Origin, place: str) -> object:
    """Return what tells two objects apart: of a parser or a dict there is one, of a class many."""
    if isinstance(settings, Settings) and settings.owner is None and settings.holder is not None:
        return settings.holder
    return place


def _in_function(
    sources: Sources, source: Source, function: Function, line: int
) -> Iterator[_Candidate]:
    owner = class_around(source, function)
    for index, argument in enumerate(parameters(function)):
        if owner is not None and index == 0 and argument.arg in ("self", "cls"):
            continue
        if not is_parameter(function, argument.arg):
            continue
        found = of_parameter(sources, source, function, argument)
        if isinstance(found, Settings) and not _is_settings(found, argument.arg):
            found = None
        if found is None:
            found = guessed(sources, source, function, argument)
        if found is not None:
            place = f"{source.path}:{function.lineno}:{argument.arg}"
            yield _Candidate(argument.arg, _identity(found, place), function.lineno, found)
    for name in sorted(bound_names(function.body)):
        statement = local_binding(function, name, line) or local_binding(function, name, 1 << 30)
        found = of_binding(sources, source, statement, name) if statement is not None else None
        if isinstance(found, Settings) and not _counts(statement, found, name):
            continue
        seen = found is not None or is_row(function, name, statement)
        if not seen and name in USUAL_NAMES and _is_value(function.body, name):
            found = _unseen(name, statement)
        if found is not None:
            place = f"{source.path}:{function.lineno}:{name}"
            end = 0 if statement is None else statement.end_lineno or statement.lineno
            yield _Candidate(name, _identity(found, place), end + 1, found)


def _unseen(name: str, statement: ast.stmt | None) -> Opaque:
    if statement is None:
        return Opaque(f"`{name}` is bound in several ways, and which one holds cannot be seen")
    return Opaque(f"what `{ast.unparse(statement).splitlines()[0]}` gives cannot be seen")


def _is_value(body: list[ast.stmt], name: str) -> bool:
    """Tell whether a name is assigned, rather than that of a function, a class or a module.

    What is built from parameters is an optimizer, which is called `opt` as often as options are.
    """
    optimizers = {
        target
        for node in own_nodes(body)
        if isinstance(node, ast.Assign)
        and re.search(r"optim|\.parameters\(", ast.unparse(node.value))
        for target in node.targets
    }
    return any(
        isinstance(node, ast.Name)
        and node.id == name
        and isinstance(node.ctx, ast.Store)
        and node not in optimizers
        for node in own_nodes(body)
    )


def _counts(statement: ast.stmt | None, found: Settings, name: str) -> bool:
    return _is_settings(found, name) and (statement is None or not _is_part(statement, found))


def _is_part(statement: ast.stmt, found: Settings) -> bool:
    """Tell whether a local is a part of other settings, `model = config.model`."""
    value = getattr(statement, "value", None)
    if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Call):
        return False
    is_part = isinstance(value, ast.Attribute | ast.Subscript)
    return is_part and found.parser is None and found.idiom != "absl"


def _is_settings(found: Settings, name: str) -> bool:
    """Tell whether something is meant as settings, and is no record or mapping of another kind."""
    usual = name.lower() in (*USUAL_NAMES, *LOOSE_NAMES) or name.lower().endswith(
        ("_config", "_cfg", "_args", "_settings", "_conf", "_opts")
    )
    if found.owner is not None:
        return usual or looks_like_settings(found.owner.node.name)
    if found.idiom == "dict":
        return usual
    return True


def _members(
    sources: Sources, source: Source, owner: ast.ClassDef, function: Function
) -> Iterator[_Candidate]:
    """Yield `self.NAME` for the attributes that the constructor sets to settings."""
    own = parameters(function)[0].arg
    static = any(ast.unparse(d) in ("staticmethod", "classmethod") for d in function.decorator_list)
    if static:
        return
    names: dict[str, None] = {}
    for method in owner.body:
        if isinstance(method, Function):
            for node in own_nodes(method.body):
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                    names[node.attr] = None
        elif isinstance(method, ast.AnnAssign):
            names[ast.unparse(method.target)] = None
    for name in names:
        assigned = member_assignments(owner, name)
        found = of_member(sources, source, owner, name)
        statement = assigned[0][1] if len(assigned) == 1 else None
        if isinstance(found, Settings) and not _is_settings(found, name):
            continue
        if found is None:
            usual = name.lstrip("_") in USUAL_NAMES
            value = getattr(statement, "value", None)
            if not usual or (statement is not None and not isinstance(value, ast.Name | ast.Call)):
                continue
            found = Opaque(f"nothing tells what `{own}.{name}` holds, so it may be anything")
        value = getattr(statement, "value", None)
        place = f"{source.path}:{owner.name}.{name}"
        if isinstance(value, ast.Name) and assigned and is_parameter(assigned[0][0], value.id):
            # The parameter itself, under another name; in the constructor it is a candidate too.
            place = f"{source.path}:{assigned[0][0].lineno}:{value.id}"
            if isinstance(found, Opaque):
                argument = next(a for a in parameters(assigned[0][0]) if a.arg == value.id)
                found = guessed(sources, source, assigned[0][0], argument) or found
        line = 0
        if assigned and assigned[0][0] is function and statement is not None:
            line = (statement.end_lineno or statement.lineno) + 1
        yield _Candidate(f"{own}.{name}", _identity(found, place), line, found)


def _static_class(sources: Sources, source: Source, name: str) -> Origin:
    """Return a plain class of constants that the file reads without making an object of it."""
    if not looks_like_settings(name) or f"{name}." not in source.text:
        return None
    meant = definition(sources, source, ast.Name(id=name))
    if meant is None or not isinstance(meant.node, ast.ClassDef):
        return None
    made = any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
        for node in nodes_of(source.tree)
    )
    owner = None if made else settings_class(sources, meant)
    if not isinstance(owner, SettingsClass) or owner.kind != "plain":
        return None
    return of_class(owner)


def _at_top(
    sources: Sources, source: Source, hidden: set[str], around: list[Function]
) -> Iterator[_Candidate]:
    """Yield the settings at the top of a file; functions see them whatever the line."""
    above = parents(source.tree)
    for name in top_level_names(source):
        if name in hidden or name == "*":
            continue
        statement = top_level_binding(source, name)
        found = _global(sources, source, name, statement)
        if isinstance(found, Settings) and not _counts(statement, found, name):
            continue
        if found is None and name.lower() in USUAL_NAMES and _is_value(source.tree.body, name):
            found = _unseen(name, statement)
        if found is None:
            continue
        imported = isinstance(statement, ast.Import | ast.ImportFrom)
        block = above.get(statement) if statement is not None else source.tree
        guarded = not isinstance(block, ast.Module | ast.With)
        if guarded and around and not imported and not _mentions(around, name):
            continue  # `if __name__ == "__main__":` has not run where the file is imported
        end = 0 if statement is None else (statement.end_lineno or statement.lineno) + 1
        line = 0 if around or imported else end
        place = f"{source.path}:{name}"
        if imported and isinstance(found, Settings):
            place = f"{found.holder}:{name}"
        yield _Candidate(name, _identity(found, place), line, found)
    override = overridden_globals(source)
    if override is not None:
        holder = Holder(source.path, "", override.lineno)
        line = 0 if around else override.lineno + 1
        yield _Candidate("globals()", holder, line, Settings("module", "name", holder))


def _mentions(functions: list[Function], name: str) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == name
        for function in functions
        for node in walk(function)
    )


def _global(sources: Sources, source: Source, name: str, statement: ast.stmt | None) -> Origin:
    if statement is None:
        return None
    if isinstance(statement, ast.ClassDef):
        return _static_class(sources, source, name)
    if not isinstance(statement, ast.Import | ast.ImportFrom):
        return of_binding(sources, source, statement, name)
    found = of_global(sources, source, name) or _static_class(sources, source, name)
    origin = Names(source.tree).qualified(ast.Name(id=name, ctx=ast.Load()), source.tree) or ""
    if origin.partition(".")[0] in _LIBRARIES:
        return found
    if found is None and name in USUAL_NAMES and _reads_constants(source, name):
        why = f"`{ast.unparse(statement)}` brings a module, or something that cannot be seen"
        return Opaque(why)
    return found


def _reads_constants(source: Source, name: str) -> bool:
    """Tell whether a file reads values from an import, rather than classes and functions."""
    above = parents(source.tree)
    for node in nodes_of(source.tree):
        if isinstance(node, ast.Name) and node.id == name:
            user = above.get(node)
            if isinstance(user, ast.Subscript):
                return True
            if not isinstance(user, ast.Attribute):
                continue
            around = above.get(user)
            called = isinstance(around, ast.Call) and around.func is user
            called |= isinstance(around, ast.Attribute | ast.arg | ast.ClassDef)
            if not called and not (user.attr[:1].isupper() and not user.attr.isupper()):
                return True
    return False
