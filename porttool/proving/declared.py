"""The declaration of a flat switch taken out of a file's tree again, where it is exactly that.

What is taken out can be told from outside only by looking for it: one flag more in `--help`, one
key more in a dump. Each of these is said, as something that the proof assumes nobody depends on.
"""

from __future__ import annotations

import ast
import copy

from porttool.frozen import dataclass
from porttool.gating.flat import planned_settings
from porttool.gating.idioms.lookup import Sources
from porttool.gating.idioms.parsers import PARSING, flag_for
from porttool.gating.idioms.reading import switch_objection
from porttool.plan.switch import FlatSwitch
from porttool.source.scopes import Function
from porttool.source.syntax import Names, Source, parents, qualname


@dataclass(frozen=True)
class Undeclared:
    """A tree without the declaration; `label` says what was taken out, None where nothing was."""

    tree: ast.Module
    label: str | None = None
    assumes: tuple[str, ...] = ()


def objection_on(onto: Sources, switch: FlatSwitch) -> str | None:
    """Return why onto cannot take the declaration; "" where it has the switch already, off."""
    settings = planned_settings(onto, switch)
    return switch_objection(onto, settings, switch.name) if settings is not None else None


def undeclared(
    tree: ast.Module, branch: Source, switch: FlatSwitch, sources: Sources
) -> Undeclared:
    """Return a branch's tree without the one declaration of the switch.

    `tree` is `branch` with the switch off, node for node where it was not folded. A declaration of
    any other form stays where it is, so that the comparison finds it.
    """
    settings = planned_settings(sources, switch)
    holder = settings.holder if settings is not None else None
    if settings is None or holder is None:
        return Undeclared(tree)
    tree = copy.deepcopy(tree)
    name = switch.name
    if switch.idiom == "argparse":
        return _without_flag(tree, branch, holder.name, name)
    if switch.idiom in ("dataclass", "pydantic"):
        return _without_field(tree, holder.name, name)
    if switch.idiom == "dict":
        return _without_entry(tree, holder.name, name)
    if switch.idiom == "absl":
        return _without_definition(tree, name)
    return _without_option(tree, holder.name, switch)


def _same_text(node: ast.AST, text: str) -> bool:
    wanted: ast.AST = ast.parse(text, mode="eval" if isinstance(node, ast.expr) else "exec")
    return ast.unparse(node) == ast.unparse(wanted)


def _without_flag(tree: ast.Module, branch: Source, holder: str, name: str) -> Undeclared:
    """Take out `parser.add_argument("--name", action=BooleanOptionalAction, default=False)`."""
    scope_name, _, variable = holder.rpartition(".")
    spelled = Names(branch.tree).spelling("argparse.BooleanOptionalAction", branch.tree)
    if spelled is None:
        return Undeclared(tree)
    flag = flag_for(name)
    wanted = f'{variable}.add_argument("{flag}", action={spelled}, default=False)'
    scope: ast.AST = tree
    above = parents(tree)
    if scope_name:
        scope = next(
            node
            for node in ast.walk(tree)
            if isinstance(node, Function) and qualname(node, above) == scope_name
        )
    found = [
        node for node in ast.walk(scope) if isinstance(node, ast.Expr) and _same_text(node, wanted)
    ]
    if len(found) != 1 or _parsed_before(scope, variable, found[0]):
        return Undeclared(tree)
    _remove(tree, found[0])
    return Undeclared(
        tree,
        f"the flag {flag}",
        (
            f"nobody reads `--help` or abbreviates a flag of {holder} in {branch.path}: it has "
            f"{flag} and --no-{flag[2:]} now, and an abbreviation that they share is refused",
        ),
    )


def _parsed_before(scope: ast.AST, variable: str, declaration: ast.stmt) -> bool:
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in PARSING
        and ast.unparse(node.func.value) == variable
        and node.lineno <= declaration.lineno
        for node in ast.walk(scope)
    )


def _remove(tree: ast.Module, statement: ast.stmt) -> None:
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list) and statement in block:
                block.remove(statement)


def _without_field(tree: ast.Module, holder: str, name: str) -> Undeclared:
    """Take out `name: bool = False`, the last field of a class."""
    for node in tree.body:
        if not isinstance(node, ast.ClassDef) or node.name != holder:
            continue
        annotated = [part for part in node.body if isinstance(part, ast.AnnAssign)]
        fields: list[ast.stmt] = [*annotated] or [
            part for part in node.body if isinstance(part, ast.Assign)
        ]
        if not fields:
            continue
        bare = not node.decorator_list and not node.bases
        plain = bare and _same_text(fields[-1], f"{name} = False")
        if plain or _same_text(fields[-1], f"{name}: bool = False"):
            _remove(tree, fields[-1])
            return Undeclared(
                tree,
                f"the field {holder}.{name}",
                (f"nothing depends on the number of fields of {holder}; its dumps gain `{name}`",),
            )
    return Undeclared(tree)


def _without_entry(tree: ast.Module, holder: str, name: str) -> Undeclared:
    """Take out the last entry of a dict or a namespace, `"name": False` or `name=False`."""
    for statement in tree.body:
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if isinstance(statement, ast.AnnAssign):
            target = statement.target
        value = getattr(statement, "value", None)
        if target is None or ast.unparse(target) != holder:
            continue
        gone = False
        if isinstance(value, ast.Dict) and value.keys and value.keys[-1] is not None:
            gone = _same_text(value.keys[-1], repr(name)) and _same_text(value.values[-1], "False")
            if gone:
                value.keys.pop()
                value.values.pop()
        elif isinstance(value, ast.Call) and value.keywords:
            last = value.keywords[-1]
            gone = last.arg == name and _same_text(last.value, "False")
            if gone:
                value.keywords.pop()
        if gone:
            assumed = f"nothing goes over all entries of {holder}; it has `{name}` now"
            return Undeclared(tree, f"the entry {holder}[{name!r}]", (assumed,))
    return Undeclared(tree)


def _without_definition(tree: ast.Module, name: str) -> Undeclared:
    """Take out `flags.DEFINE_boolean("name", False, "...")`."""
    for statement in tree.body:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if not isinstance(call, ast.Call) or len(call.args) != 3 or call.keywords:
            continue
        first, second, third = call.args
        plain = isinstance(third, ast.Constant) and isinstance(third.value, str)
        defines = ast.unparse(call.func).rpartition(".")[2] == "DEFINE_boolean"
        if defines and plain and _same_text(first, repr(name)) and _same_text(second, "False"):
            _remove(tree, statement)
            assumed = f"nobody reads `--help` or counts the flags; they have --{name} now"
            return Undeclared(tree, f"the flag --{name}", (assumed,))
    return Undeclared(tree)


def _without_option(tree: ast.Module, holder: str, switch: FlatSwitch) -> Undeclared:
    """Take out the last parameter of a command, and click's decorator for it."""
    above = parents(tree)
    name, flag = switch.name, flag_for(switch.name)
    both = f"{flag}/--no-{flag[2:]}"
    for node in ast.walk(tree):
        if not isinstance(node, Function) or qualname(node, above) != holder:
            continue
        arguments = node.args
        if arguments.kwonlyargs or not arguments.args or arguments.args[-1].arg != name:
            return Undeclared(tree)
        last = arguments.args[-1]
        default = arguments.defaults[-1] if arguments.defaults else None
        typed = last.annotation is None or _is_switch_type(last.annotation, both)
        off = default is None or _same_text(default, "False") or _is_option(default, both)
        if not typed or not off or (switch.idiom != "click" and default is None):
            return Undeclared(tree)
        if switch.idiom == "click":
            options = [d for d in node.decorator_list if _declares(d, both)]
            if len(options) != 1:
                return Undeclared(tree)
            node.decorator_list.remove(options[0])
        arguments.args.pop()
        if default is not None:
            arguments.defaults.pop()
        assumed = f"nobody reads `--help` of {holder}, which has {both} now"
        return Undeclared(tree, f"the option {both}", (assumed,))
    return Undeclared(tree)


def _is_switch_type(annotation: ast.expr, both: str) -> bool:
    if _same_text(annotation, "bool"):
        return True
    if not isinstance(annotation, ast.Subscript) or not isinstance(annotation.slice, ast.Tuple):
        return False
    name = ast.unparse(annotation.value).rpartition(".")[2]
    parts = annotation.slice.elts
    return (
        name == "Annotated"
        and len(parts) == 2
        and _same_text(parts[0], "bool")
        and (
            isinstance(parts[1], ast.Call)
            and ast.unparse(parts[1].func).rpartition(".")[2] == "Option"
            and [ast.unparse(a) for a in parts[1].args] == [repr(both)]
            and not parts[1].keywords
        )
    )


def _is_option(default: ast.expr, both: str) -> bool:
    """Tell whether a default is `typer.Option(False, "--name/--no-name")`."""
    return (
        isinstance(default, ast.Call)
        and ast.unparse(default.func).rpartition(".")[2] == "Option"
        and [ast.unparse(a) for a in default.args] == ["False", repr(both)]
        and not default.keywords
    )


def _declares(decorator: ast.expr, both: str) -> bool:
    """Tell whether a decorator is `click.option("--name/--no-name", default=False)`."""
    return (
        isinstance(decorator, ast.Call)
        and ast.unparse(decorator.func).rpartition(".")[2] == "option"
        and [ast.unparse(a) for a in decorator.args] == [repr(both)]
        and [(w.arg, ast.unparse(w.value)) for w in decorator.keywords] == [("default", "False")]
    )
