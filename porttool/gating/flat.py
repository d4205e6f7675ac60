"""A port's flat switch: what declares it by the plan, and where the code reads it."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator

from porttool.errors import NeedsPerson, PlanError
from porttool.gating.idioms.classes import SettingsClass, settings_class
from porttool.gating.idioms.commands import command_holder, command_idiom
from porttool.gating.idioms.declaring import declare_switch
from porttool.gating.idioms.lookup import Definition, Sources, module_statements
from porttool.gating.idioms.origins import Opaque, Origin, Settings, of_absl, of_binding, of_class
from porttool.gating.idioms.parsers import Parser, parsers_in
from porttool.gating.idioms.reading import read_switch, switch_objection
from porttool.gating.idioms.values import Holder, SwitchRead, Unclear
from porttool.plan.switch import FlatSwitch
from porttool.source.scopes import Function, bound_names
from porttool.source.syntax import Names, Source, TextEdit, parents, qualname


def planned_settings(sources: Sources, switch: FlatSwitch) -> Settings | None:
    """Return what the plan says declares the switch; None where nothing in Python does.

    Raises:
        PlanError: when the file has nothing of that name and idiom; the nearest name is told.
    """
    if switch.module is None:
        return None
    source = sources[switch.module]
    found: Origin
    if switch.idiom == "argparse":
        return _planned_parser(sources, source, switch)
    if switch.idiom == "absl":
        found = of_absl(source)
    elif switch.idiom in ("click", "fire", "typer"):
        found = _planned_command(sources, source, switch)
    else:
        found = _planned_binding(sources, source, switch)
    if isinstance(found, Opaque):
        raise _not_there(source, switch, [], found.why)
    fits = found is not None and found.idiom == switch.idiom
    if not fits or found is None:
        idiom = found.idiom if found is not None else None
        why = f"it is {idiom}" if idiom else None
        raise _not_there(source, switch, sorted(bound_names(source.tree.body)), why, idiom=idiom)
    return found


def _planned_parser(sources: Sources, source: Source, switch: FlatSwitch) -> Settings:
    parsers = [
        parser
        for parser in _all_parsers(sources, source)
        if switch.root is None or _name_of(parser) == switch.root
    ]
    if len(parsers) != 1:
        names = sorted({_name_of(parser) for parser in _all_parsers(sources, source)})
        why = "the parsers there are " + (", ".join(names) or "none")
        raise _not_there(source, switch, names, why)
    return Settings("argparse", "attribute", parsers[0].holder, parser=parsers[0])


def _name_of(parser: Parser) -> str:
    return parser.holder.name


def _all_parsers(sources: Sources, source: Source) -> list[Parser]:
    """Return the parsers whose flags are declared in a file."""
    found: dict[Holder, Parser] = {}
    for path in sources:
        if path == source.path or "parse_" in sources[path].text:
            for parser in parsers_in(sources, sources[path]):
                if parser.holder.path == source.path:
                    found[parser.holder] = parser
    return list(found.values())


def _planned_command(sources: Sources, source: Source, switch: FlatSwitch) -> Origin:
    above = parents(source.tree)
    for node in ast.walk(source.tree):
        if isinstance(node, Function) and qualname(node, above) == switch.root:
            idiom = command_idiom(sources, source, node)
            return Settings(idiom, "name", command_holder(source, node)) if idiom else None
    return None


def _planned_binding(sources: Sources, source: Source, switch: FlatSwitch) -> Origin:
    for statement in module_statements(source.tree):
        if switch.root in bound_names([statement]) and switch.root is not None:
            if isinstance(statement, ast.ClassDef):
                made = settings_class(sources, Definition(source, statement))
                if isinstance(made, SettingsClass):
                    return of_class(made)
                return Opaque(made) if isinstance(made, str) else None
            return of_binding(sources, source, statement, switch.root)
    return None


def _not_there(
    source: Source,
    switch: FlatSwitch,
    names: list[str],
    why: str | None,
    *,
    idiom: str | None = None,
) -> PlanError:
    near = difflib.get_close_matches(switch.root or "", names, n=1, cutoff=0.5)
    what = f"{switch.root} is" if switch.root else "there is"
    return PlanError(
        f"switch.root: {what} no {switch.idiom} that could declare a switch in {source.path}",
        where=f"{source.path} (switch.root in port.yaml)",
        why=why or f"the names there are {', '.join(names) or 'none'}",
        next=f"write idiom: {idiom}"
        if idiom is not None
        else f"write root: {near[0]}"
        if near
        else "correct switch.idiom, module or root",
    )


def check_declarable(sources: Sources, switch: FlatSwitch) -> None:
    """Refuse a switch that its planned place cannot take.

    Raises:
        PlanError: when the place is not there.
        NeedsPerson: when the name is taken, or one more setting would break something.
    """
    settings = planned_settings(sources, switch)
    why = switch_objection(sources, settings, switch.name) if settings is not None else None
    if why:
        raise NeedsPerson(
            f"`{switch.name}` cannot be declared in {switch.module}",
            where=switch.module,
            why=why,
            next="choose another switch.name in port.yaml, or make room for it there and commit",
        )


def declare_flat(sources: Sources, switch: FlatSwitch, *, line_length: int) -> list[TextEdit]:
    """Return the edits of the plan's module that declare the switch; none where it is there."""
    settings = planned_settings(sources, switch)
    if settings is None or switch_objection(sources, settings, switch.name) == "":
        return []
    read = SwitchRead(switch.name, settings.idiom, settings.holder, 0)
    edits = declare_switch(sources, [read], switch.name, line_length=line_length)
    return list(edits.get(switch.module or "", ()))


def read_flat(
    sources: Sources, path: str, node: ast.AST, switch: FlatSwitch
) -> SwitchRead | Unclear:
    """Return how the plan's switch is read at a node; Unclear where something else is in scope."""
    if switch.idiom == "env":
        return _environment(sources[path], node, switch)
    found = read_switch(sources, path, node, switch.name)
    if found is None:
        return Unclear((f"no settings that could hold `{switch.name}` are in scope",))
    if isinstance(found, Unclear):
        # Of several settings in scope, the plan's are meant, where one of them alone is those.
        named = (read_switch(sources, path, node, switch.name, text) for text in found.choices)
        fits = [one for one in named if isinstance(one, SwitchRead) and not _misfit(one, switch)]
        return fits[0] if len(fits) == 1 else found
    misfit = _misfit(found, switch)
    return Unclear((misfit,)) if misfit else found


def _misfit(found: SwitchRead, switch: FlatSwitch) -> str:
    """Return why settings are not those of the plan, "" where they are."""
    holder = found.declared_in
    if found.idiom != switch.idiom:
        return f"`{found.expression}` is of the kind {found.idiom}, not {switch.idiom}"
    if (holder is None) != (switch.module is None):
        where = holder.path if holder is not None else "no Python file"
        return f"what declares `{found.expression}` is {where}, not {switch.module}"
    if holder is not None:
        named = switch.root is None or holder.name == switch.root or switch.idiom == "absl"
        if holder.path != switch.module or not named:
            place = f"{holder.name} in {holder.path}"
            planned = f"{switch.root or switch.idiom} in {switch.module}"
            return f"`{found.expression}` is declared by {place}, not by {planned}"
    return ""


def _environment(source: Source, node: ast.AST, switch: FlatSwitch) -> SwitchRead:
    spelled = Names(source.tree).spelling("os.environ", node)
    imports = () if spelled else (("os", ""),)
    expression = f'{spelled or "os.environ"}.get("{switch.variable}", "0") == "1"'
    return SwitchRead(expression, "env", None, 0, imports=imports)


def shaped_like_a_read(node: ast.AST, switch: FlatSwitch) -> bool:
    """Tell whether a node could read the switch, by its form alone."""
    name = switch.name
    if isinstance(node, ast.Attribute):
        return node.attr == name and isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.Name):
        return switch.is_parameter and node.id == name and isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.Subscript):
        key = node.slice
        loaded = isinstance(node.ctx, ast.Load)
        return loaded and isinstance(key, ast.Constant) and key.value == name
    if isinstance(node, ast.Call):
        texts = [part.value for part in node.args if isinstance(part, ast.Constant)]
        called = isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "select")
        return called and name in texts
    return isinstance(node, ast.Compare) and f"'{switch.variable}'" in ast.unparse(node)


def flat_reads(
    sources: Sources, source: Source, switch: FlatSwitch
) -> Iterator[tuple[ast.expr, str | None]]:
    """Yield what has the form of a read, and why it is not known to be one; None: it is one."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.expr) or not shaped_like_a_read(node, switch):
            continue
        if switch.idiom == "env" and not isinstance(node, ast.Compare):
            continue
        found = read_flat(sources, source.path, node, switch)
        text = ast.unparse(node)
        if isinstance(found, Unclear):
            yield node, "; ".join(found.reasons)
        elif ast.unparse(ast.parse(found.expression, mode="eval")) != text or found.imports:
            yield node, f"`{text}` is not how the switch is read here: `{found.expression}`"
        elif found.declared_in is not None and not found.declared:
            yield node, f"{found.declared_in.path} does not declare what `{text}` reads"
        else:
            yield node, None
