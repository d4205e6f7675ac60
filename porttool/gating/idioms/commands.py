"""typer and click: a command's own parameters are its settings, and the switch is one more."""

from __future__ import annotations

import ast
import re

from porttool.gating.idioms.lookup import Sources, calls_of, definition, qualified
from porttool.gating.idioms.parsers import flag_for
from porttool.gating.idioms.values import Holder, Idiom
from porttool.source.imports import import_names
from porttool.source.nodes import nodes_of
from porttool.source.scopes import Function, bound_names, own_nodes, parameters
from porttool.source.syntax import (
    Names,
    Source,
    TextEdit,
    indent_of,
    line_at,
    line_of,
    line_start,
    parents,
    qualname,
    span_of,
    text_of,
)

_CLICK_COMMANDS = ("click.command", "click.group", "rich_click.command", "rich_click.group")
_RUNNERS: dict[str, Idiom] = {"typer.run": "typer", "fire.Fire": "fire"}


def command_idiom(sources: Sources, source: Source, function: Function) -> Idiom | None:
    """Return whether typer or click calls a function with options; None for neither."""
    for decorator in function.decorator_list:
        callee = decorator.func if isinstance(decorator, ast.Call) else decorator
        origin = qualified(source, callee)
        if origin in _CLICK_COMMANDS:
            return "click"
        if isinstance(callee, ast.Attribute) and callee.attr in ("command", "callback", "group"):
            found = _made_by(sources, source, callee.value)
            if found is not None:
                return found
    for node in nodes_of(source.tree):
        if (
            isinstance(node, ast.Call)
            and qualified(source, node.func) in _RUNNERS
            and node.args
            and isinstance(node.args[0], ast.Name)
            and node.args[0].id == function.name
            and not function.decorator_list
        ):
            return _RUNNERS[qualified(source, node.func)]
    return None


def _made_by(sources: Sources, source: Source, app: ast.expr) -> Idiom | None:
    """Return what made the object whose `.command` decorates: a typer app or a click group."""
    meant = definition(sources, source, app)
    if meant is None:
        return None
    if isinstance(meant.node, Function):
        return command_idiom(sources, meant.source, meant.node)
    value = getattr(meant.node, "value", None)
    if isinstance(value, ast.Call):
        origin = qualified(meant.source, value.func)
        if origin == "typer.Typer":
            return "typer"
        if origin in ("click.Group", "click.CommandCollection"):
            return "click"
    return None


def command_holder(source: Source, function: Function) -> Holder:
    """Return a command as the place of a declaration."""
    return Holder(source.path, qualname(function, parents(source.tree)), line_of(function))


def command_objection(
    sources: Sources, source: Source, function: Function, idiom: Idiom, name: str
) -> str | None:
    """Return why the switch cannot become an option of a command; "" where it is one, off."""
    flag = flag_for(name)
    for argument, default in _defaults(function):
        if argument.arg == name:
            return _existing(source, function, idiom, argument, default)
    if name in bound_names(function.body):
        return f"{function.name} uses the name `{name}` for something else"
    if function.args.vararg is not None or function.args.kwarg is not None:
        return f"{function.name} takes further arguments by stars"
    for node in own_nodes([*function.decorator_list, *(d for _, d in _defaults(function) if d)]):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for text in re.split(r"[/\s]+", node.value):
                if text in (flag, f"--no-{flag[2:]}"):
                    return f"`{text}` is an option of {function.name} already"
    if idiom == "click":
        for decorator in function.decorator_list:
            callee = decorator.func if isinstance(decorator, ast.Call) else decorator
            origin = qualified(source, callee).replace("rich_click.", "click.")
            command = isinstance(callee, ast.Attribute) and callee.attr in ("command", "group")
            if not command and not origin.startswith("click."):
                return f"what `@{ast.unparse(decorator)}` hands to {function.name} cannot be seen"
        for path in sources:
            if re.search(rf"\b{function.name}\.callback\b", sources[path].text):
                return f"{path} calls {function.name}.callback, which would lack an argument"
    return None


def _defaults(function: Function) -> list[tuple[ast.arg, ast.expr | None]]:
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    gap = len(positional) - len(arguments.defaults)
    pairs: list[tuple[ast.arg, ast.expr | None]] = [
        (argument, arguments.defaults[index - gap] if index >= gap else None)
        for index, argument in enumerate(positional)
    ]
    return [*pairs, *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]


def _existing(
    source: Source, function: Function, idiom: Idiom, argument: ast.arg, default: ast.expr | None
) -> str:
    where = f"{source.path}:{argument.lineno}"
    taken = f"{function.name} has a parameter `{argument.arg}` already ({where})"
    if idiom != "click":
        value = default
        if isinstance(value, ast.Call) and value.args:
            value = value.args[0]
        typed = argument.annotation is not None
        boolean = "bool" in ast.unparse(argument.annotation) if argument.annotation else True
        boolean &= typed or idiom == "fire"
        off = boolean and isinstance(value, ast.Constant) and value.value is False
        return "" if off else f"{taken}, and it is not a switch that is off"
    for decorator in function.decorator_list:
        if not isinstance(decorator, ast.Call):
            continue
        texts = [a.value for a in decorator.args if isinstance(a, ast.Constant)]
        words = {word.arg: word.value for word in decorator.keywords}
        names = [str(t).split("/")[0].lstrip("-").replace("-", "_") for t in texts]
        if argument.arg in names:
            flag = words.get("is_flag")
            boolean = any("/" in str(t) for t in texts) or (
                isinstance(flag, ast.Constant) and flag.value is True
            )
            value = words.get("default")
            off = value is None or (isinstance(value, ast.Constant) and value.value is False)
            if boolean and off:
                return ""
    return f"{taken}, and it is not a switch that is off"


def declare_option(
    sources: Sources, source: Source, holder: Holder, name: str, *, line_length: int
) -> list[TextEdit]:
    """Return the edits that add the switch to a command: a parameter, and click's decorator."""
    above = parents(source.tree)
    function = next(
        node
        for node in nodes_of(source.tree)
        if isinstance(node, Function) and qualname(node, above) == holder.name
    )
    flag = flag_for(name)
    both = f"{flag}/--no-{flag[2:]}"
    edits: list[TextEdit] = []
    idiom = command_idiom(sources, source, function)
    if idiom == "fire":
        typed = any(a.annotation is not None for a in parameters(function))
        return [
            parameter_edit(source, function, f"{name}: bool = False" if typed else f"{name}=False")
        ]
    if idiom == "typer":
        return [_typer_parameter(sources, source, function, name)]
    options = [
        decorator
        for decorator in function.decorator_list
        if isinstance(decorator, ast.Call)
        and qualified(source, decorator.func).endswith(("click.option", "click.argument"))
    ]
    anchor = options[-1] if options else function.decorator_list[-1]
    spelled = Names(source.tree).spelling("click.option", source.tree)
    if spelled is None:
        spelled = "option"
        edits.append(import_names(source, "click", ["option"], line_length=line_length))
    end = span_of(source, anchor).end
    last = line_at(source, end)
    end = source.line_starts[last] if last < len(source.line_starts) else len(source.text)
    quote = "'" if options and _singly(source, options[-1]) else '"'
    indent = indent_of(source, function)
    line = f"{indent}@{spelled}({quote}{both}{quote}, default=False)"
    edits.append(TextEdit(end, end, f"{line}\n"))
    annotated = any(a.annotation is not None for a in parameters(function))
    text = f"{name}: bool" if annotated else name
    if any(default is not None for _, default in _defaults(function)):
        text += " = False" if annotated else "=False"
    edits.append(parameter_edit(source, function, text))
    return edits


def _singly(source: Source, call: ast.Call) -> bool:
    return bool(call.args) and text_of(source, call.args[0]).startswith("'")


def _typer_parameter(sources: Sources, source: Source, function: Function, name: str) -> TextEdit:
    flag = flag_for(name)
    both = f"{flag}/--no-{flag[2:]}"
    names = Names(source.tree)
    option = names.spelling("typer.Option", source.tree) or "typer.Option"
    annotations = [ast.unparse(a.annotation) for a in parameters(function) if a.annotation]
    annotated = next((a for a in annotations if "Annotated[" in a), None)
    defaults = [default for _, default in _defaults(function) if isinstance(default, ast.Call)]
    called = any(
        not isinstance(parents(call.source.tree).get(call.node), ast.Call)
        for call in calls_of(sources, source, function)
    )
    if annotated is not None:
        spelled = annotated.partition("[")[0]
        text = f'{name}: {spelled}[bool, {option}("{both}")] = False'
    elif defaults and not called:
        text = f'{name}: bool = {option}(False, "{both}")'
    else:
        # Called from Python too, an option object as the default would count as true.
        text = f"{name}: bool = False"
    return parameter_edit(source, function, text)


def parameter_edit(source: Source, function: Function, text: str) -> TextEdit:
    """Return the edit that adds a last parameter, in the layout of those that are there."""
    pairs = _defaults(function)
    if not pairs:
        name_end = source.text.index("(", span_of(source, function).start) + 1
        return TextEdit(name_end, name_end, text)
    argument, default = pairs[-1]
    end = span_of(source, default or argument).end
    # Brackets around a default are not part of its node.
    rest = re.compile(r"[ \t]*(?:\)(?=[ \t]*[,)]))*[ \t]*(,?)").match(source.text, end)
    start = span_of(source, argument).start
    lead = source.text[line_start(source, start) : start]
    own_line = not lead.strip()
    comma = rest is not None and rest.group(1) == ","
    if not own_line:
        position = end
        return TextEdit(position, position, f", {text}")
    if comma and rest is not None:
        last = line_at(source, end)
        line_end = source.line_starts[last] if last < len(source.line_starts) else end
        closes = source.text[rest.end() : line_end].lstrip().startswith(")")
        if closes:
            return TextEdit(rest.end(), rest.end(), f" {text}")
        return TextEdit(line_end, line_end, f"{lead}{text},\n")
    if source.text[end:].lstrip(" \t").startswith(("\n", "\r")):
        return TextEdit(end, end, f",\n{lead}{text}")
    return TextEdit(end, end, f", {text}")
