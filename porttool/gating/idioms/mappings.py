"""Settings in a dict or a namespace that the source writes out, and absl flags: one entry more."""

from __future__ import annotations

import ast
import re

from porttool.gating.idioms.lookup import module_statements, qualified, simple_assignment
from porttool.gating.idioms.values import Holder
from porttool.source.nodes import nodes_of
from porttool.source.scopes import Function, bound_names
from porttool.source.syntax import (
    Source,
    TextEdit,
    indent_of,
    line_at,
    line_start,
    parents,
    qualname,
    span_of,
    statement_span,
    text_of,
)

# Called with keywords they give an object that has them as attributes.
NAMESPACES = (
    "types.SimpleNamespace",
    "argparse.Namespace",
    "munch.Munch",
    "easydict.EasyDict",
    "box.Box",
)
# Functions that give what a settings file holds, as plain dicts.
LOADERS = (
    "yaml.safe_load",
    "yaml.load",
    "yaml.full_load",
    "json.load",
    "json.loads",
    "tomllib.load",
    "tomllib.loads",
    "tomli.load",
    "tomli.loads",
    "toml.load",
    "toml.loads",
)
_DEFINES = re.compile(r"absl\.flags\.DEFINE_\w+")
ABSL_FLAGS = "absl.flags.FLAGS"


def written_dict(source: Source, value: ast.expr) -> ast.expr | None:
    """Return a dict display or call with text keys only, or a namespace; None for anything else."""
    if isinstance(value, ast.Dict):
        keys = [key for key in value.keys if key is not None]
        return value if all(_is_text(key) for key in keys) else None
    if isinstance(value, ast.Call) and not value.args:
        origin = qualified(source, value.func)
        if origin == "builtins.dict" or origin in NAMESPACES:
            return value
    return None


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def is_namespace(source: Source, value: ast.expr) -> bool:
    """Tell whether entries are read as attributes."""
    return isinstance(value, ast.Call) and qualified(source, value.func) in NAMESPACES


def entry_objection(source: Source, value: ast.expr, name: str) -> str | None:
    """Return why the switch cannot become an entry; "" where it is one already, off."""
    entries: list[tuple[object, ast.expr]] = []
    if isinstance(value, ast.Dict):
        for key, entry in zip(value.keys, value.values, strict=True):
            if key is None:
                return f"line {entry.lineno} takes entries over that cannot be seen"
            entries.append((key.value if isinstance(key, ast.Constant) else None, entry))
    elif isinstance(value, ast.Call):
        for word in value.keywords:
            if word.arg is None:
                return f"line {word.value.lineno} takes entries over that cannot be seen"
            entries.append((word.arg, word.value))
    for written, entry in entries:
        if written == name:
            off = isinstance(entry, ast.Constant) and entry.value is False
            where = f"{source.path}:{entry.lineno}"
            return "" if off else f"`{name}` is there already ({where}): `{ast.unparse(entry)}`"
    return None


def declare_entry(source: Source, holder: Holder, name: str) -> list[TextEdit]:
    """Return the edit that adds the switch as the last entry of a dict or namespace."""
    value = _value(source, holder)
    if isinstance(value, ast.Dict):
        single = bool(value.keys) and text_of(source, value.keys[-1] or value).startswith("'")
        quote = "'" if single else '"'
        entry = f"{quote}{name}{quote}: False"
        last: ast.expr | None = value.values[-1] if value.values else None
        first: ast.AST | None = value.keys[-1] if value.keys else None
    else:
        assert isinstance(value, ast.Call)
        entry = f"{name}=False"
        last = value.keywords[-1].value if value.keywords else None
        first = value.keywords[-1] if value.keywords else None
    end = span_of(source, value).end - 1
    if last is None or first is None:
        return [TextEdit(end, end, entry)]
    behind = span_of(source, last).end
    comma = _comma(source, behind, end)
    if line_at(source, behind) == line_at(source, end):
        position = behind if comma is None else comma + 1
        return [TextEdit(position, position, f"{', ' if comma is None else ' '}{entry}")]
    start = span_of(source, first).start
    lead = source.text[line_start(source, start) : start]
    indent = lead if not lead.strip() else " " * len(lead)
    closing = line_start(source, end)
    if source.text[closing:end].strip():
        # The bracket closes behind an entry that itself spans lines.
        position = behind if comma is None else comma + 1
        return [TextEdit(position, position, f"{',' if comma is None else ''}\n{indent}{entry}")]
    edits = [] if comma is not None else [TextEdit(behind, behind, ",")]
    return [*edits, TextEdit(closing, closing, f"{indent}{entry},\n")]


def _comma(source: Source, start: int, end: int) -> int | None:
    """Return where the comma behind the last entry stands."""
    for match in re.finditer(r"#[^\r\n]*|,", source.text[start:end]):
        if match.group() == ",":
            return start + match.start()
    return None


def _value(source: Source, holder: Holder) -> ast.expr:
    scope_name, _, variable = holder.name.rpartition(".")
    above = parents(source.tree)
    for statement in nodes_of(source.tree):
        if not isinstance(statement, ast.Assign | ast.AnnAssign):
            continue
        target, value, _ = simple_assignment(statement)
        here: ast.AST | None = statement
        while here is not None and not isinstance(here, Function | ast.ClassDef):
            here = above.get(here)
        scope = qualname(here, above) if here is not None else ""
        if scope == scope_name and isinstance(target, ast.Name) and target.id == variable:
            found = written_dict(source, value) if value is not None else None
            if found is not None:
                return found
    raise ValueError(f"{source.path} has no dict {holder.name}")


def absl_defines(source: Source) -> list[ast.stmt]:
    """Return the statements at the top of a file that define absl flags."""
    return [
        statement
        for statement in module_statements(source.tree)
        if isinstance(statement, ast.Expr | ast.Assign)
        and isinstance(statement.value, ast.Call)
        and _DEFINES.fullmatch(qualified(source, statement.value.func))
    ]


def absl_objection(source: Source, name: str) -> str | None:
    """Return why the switch cannot become an absl flag; "" where it is one already, off."""
    for statement in absl_defines(source):
        call = statement.value if isinstance(statement, ast.Expr | ast.Assign) else None
        if not isinstance(call, ast.Call) or not call.args:
            continue
        first = call.args[0]
        if isinstance(first, ast.Constant) and first.value in (name, f"no{name}"):
            boolean = qualified(source, call.func).endswith(("DEFINE_bool", "DEFINE_boolean"))
            default = call.args[1] if len(call.args) > 1 else None
            off = isinstance(default, ast.Constant) and default.value is False
            if boolean and off and first.value == name:
                return ""
            where = f"{source.path}:{statement.lineno}"
            return f"the flag `{name}` is there already ({where}): `{ast.unparse(call)}`"
    return None


def declare_absl(source: Source, name: str) -> list[TextEdit]:
    """Return the edit that defines the switch behind the last absl flag of a file."""
    anchor = absl_defines(source)[-1]
    value = anchor.value if isinstance(anchor, ast.Expr | ast.Assign) else None
    assert isinstance(value, ast.Call)
    module = text_of(source, value.func).rpartition(".")[0]
    quote = "'" if value.args and text_of(source, value.args[0]).startswith("'") else '"'
    what = f"{quote}{name}{quote}"
    help_text = f"{quote}Compile with torch.compile.{quote}"
    head = f"{module}.DEFINE_boolean(" if module else "DEFINE_boolean("
    end = statement_span(source, anchor).end
    opening = "" if source.text[:end].endswith(("\n", "\r")) else "\n"
    line = f"{indent_of(source, anchor)}{head}{what}, False, {help_text})"
    return [TextEdit(end, end, f"{opening}{line}\n")]


def overridden_globals(source: Source) -> ast.stmt | None:
    """Return the statement that lets a command line override a file's constants, nanoGPT's way."""
    for statement in source.tree.body:
        value = statement.value if isinstance(statement, ast.Expr) else None
        if (
            isinstance(value, ast.Call)
            and qualified(source, value.func) == "builtins.exec"
            and value.args
            and ("open(" in ast.unparse(value.args[0]) or "read" in ast.unparse(value.args[0]))
        ):
            return statement
    return None


def _constants(source: Source) -> list[ast.stmt]:
    """Return the assignments of constants above the override, and above what collects them."""
    found: list[ast.stmt] = []
    stop = overridden_globals(source)
    for statement in source.tree.body:
        if statement is stop or "globals()" in ast.unparse(statement):
            break
        target, value, _ = simple_assignment(statement)
        if isinstance(target, ast.Name) and isinstance(value, ast.expr):
            number = value.operand if isinstance(value, ast.UnaryOp) else value
            if isinstance(number, ast.Constant):
                found.append(statement)
    return found


def constant_objection(source: Source, name: str) -> str | None:
    """Return why the switch cannot become a constant; "" where it is one already, off."""
    bound = [node for node in module_statements(source.tree) if name in bound_names([node])]
    if not bound:
        return None if _constants(source) else "no constants stand above the override"
    target, value, _ = simple_assignment(bound[0])
    off = isinstance(value, ast.Constant) and value.value is False
    if len(bound) == 1 and isinstance(target, ast.Name) and off:
        return ""
    text = ast.unparse(bound[0]).split("\n")[0]
    return f"`{name}` is there already ({source.path}:{bound[0].lineno}): `{text}`"


def declare_constant(source: Source, name: str) -> list[TextEdit]:
    """Return the edit that adds the switch behind the last constant that can be overridden."""
    anchor = _constants(source)[-1]
    end = statement_span(source, anchor).end
    opening = "" if source.text[:end].endswith(("\n", "\r")) else "\n"
    return [TextEdit(end, end, f"{opening}{name} = False\n")]
