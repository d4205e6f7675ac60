"""The switch declared in the project's own config module, in that file's idiom.

A dataclass of the standard library, one of pydantic or a pydantic model: decorators, bases, the
spelling of default factories and the habit of docstrings are taken from the sections that are
there. What is there already, in the same shape, is left alone.
"""

from __future__ import annotations

import ast
import builtins
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal

from porttool.errors import NeedsPerson
from porttool.frozen import dataclass
from porttool.plan.switch import FieldPlan, SectionPlan, SwitchPlan
from porttool.source.imports import import_names
from porttool.source.layout import DEFAULT_LINE_LENGTH, bracketed, quoted
from porttool.source.syntax import (
    Names,
    Source,
    TextEdit,
    apply_edits,
    line_of,
    line_start,
    same_tree,
    statement_span,
    text_of,
)

_DATACLASSES = {
    "dataclasses.dataclass": "dataclass",
    "pydantic.dataclasses.dataclass": "pydantic dataclass",
}
_FACTORIES = {
    "dataclass": "dataclasses.field",
    "pydantic dataclass": "dataclasses.field",
    "pydantic model": "pydantic.Field",
}
_ORIGINS = {
    **dict.fromkeys(("Annotated", "Any", "Final", "Literal", "Optional", "Union"), "typing"),
    "Path": "pathlib",
}


@dataclass(frozen=True)
class Idiom:
    """How the classes of a config module are written."""

    kind: Literal["dataclass", "pydantic dataclass", "pydantic model"]
    decorator: str | None  # its text without "@"
    bases: str  # "" or "(Strict)"
    opening: tuple[str, ...]  # statements that open every class, such as `model_config = ...`
    factory: str | None  # "field", "dataclasses.field"; None where sections are plain calls
    documented: bool


def declare_config(
    source: Source, switch: SwitchPlan, *, line_length: int = DEFAULT_LINE_LENGTH
) -> bytes:
    """Add the switch's classes in front of the root class, and the root's field behind its others.

    Raises:
        NeedsPerson: when the root class is not there or of no known idiom, or when a name is taken
            by something of another shape.
    """
    root = _root_class(source, switch)
    names = Names(source.tree)
    idiom = read_idiom(source, root, names)
    classes = {node.name: node for node in source.tree.body if isinstance(node, ast.ClassDef)}
    needed: dict[str, str] = {}  # name to import -> its module
    factory = idiom.factory
    if factory in ("field", "Field") and not names.binds(factory, source.tree):
        needed[factory] = _FACTORIES[idiom.kind].rpartition(".")[0]
    texts = []
    for name, fields in _wanted(switch):
        lines = [_field_lines(field, names, source, needed, line_length) for field in fields]
        if name == switch.class_name:
            lines = [
                _section_field(section.key, section.class_name, factory, line_length)
                for section in switch.sections
            ]
        if name in classes:
            _check_shape(source, classes[name], lines)
        elif names.binds(name, source.tree):
            raise _taken(source, name, "it is bound to something that is not a class")
        else:
            texts.append(_class_text(name, lines, _docstring(name, switch), idiom))
    edits = []
    if texts:
        anchor = min((root, classes.get(switch.class_name, root)), key=line_of)
        position = _above_comments(source, anchor)
        edits.append(TextEdit(position, position, "\n\n\n".join(texts) + "\n\n\n"))
    line = _section_field(switch.key, switch.class_name, factory, line_length)
    edit = _root_field(source, root, switch, line)
    edits += [edit] if edit else []
    for module in sorted(set(needed.values())):
        wanted = [name for name, origin in needed.items() if origin == module]
        edits.append(import_names(source, module, wanted, line_length=line_length))
    return apply_edits(source, edits)


def read_idiom(source: Source, root: ast.ClassDef, names: Names) -> Idiom:
    """Return how the root's sections are written: what most of them do, else the root itself.

    Raises NeedsPerson for an idiom that is not known.
    """
    classes = {node.name: node for node in source.tree.body if isinstance(node, ast.ClassDef)}
    sections = [
        classes[field.annotation.id]
        for field in _fields(root)
        if isinstance(field.annotation, ast.Name) and field.annotation.id in classes
    ]
    model = sections or [root]
    written = Counter(_heading(source, node, names) for node in model)
    decorator, bases = max(reversed(written), key=lambda heading: written[heading])
    chosen = next(
        node for node in reversed(model) if _heading(source, node, names) == (decorator, bases)
    )
    kind = _kind(source, chosen, names, classes)
    spelled = _factory_spelling(source, root, *sections)
    plain = any(
        isinstance(field.value, ast.Call) and same_tree(field.value.func, field.annotation)
        for field in _fields(root)
    )
    if spelled is None and not (kind == "pydantic model" and plain):
        spelled = names.spelling(_FACTORIES[kind], source.tree)
        spelled = spelled or _FACTORIES[kind].rpartition(".")[2]
    return Idiom(
        kind=kind,
        decorator=decorator,
        bases=bases,
        opening=tuple(_opening(source, chosen)) if kind == "pydantic model" else (),
        factory=spelled,
        documented=sum(ast.get_docstring(node) is not None for node in model) * 2 > len(model),
    )


def _root_class(source: Source, switch: SwitchPlan) -> ast.ClassDef:
    classes = [node for node in source.tree.body if isinstance(node, ast.ClassDef)]
    for node in classes:
        if node.name == switch.root:
            return node
    raise NeedsPerson(
        f"the switch's root class {switch.root} is not in {source.path}",
        where=source.path,
        why=f"the classes there are {', '.join(node.name for node in classes) or 'none'}",
        next="correct switch.module or switch.root in port.yaml",
    )


def _fields(node: ast.ClassDef) -> list[ast.AnnAssign]:
    return [statement for statement in node.body if isinstance(statement, ast.AnnAssign)]


def _dataclass_decorator(node: ast.ClassDef, names: Names) -> tuple[ast.expr, str] | None:
    for decorator in node.decorator_list:
        callee = decorator.func if isinstance(decorator, ast.Call) else decorator
        kind = _DATACLASSES.get(names.qualified(callee) or "")
        if kind:
            return decorator, kind
    return None


def _heading(source: Source, node: ast.ClassDef, names: Names) -> tuple[str | None, str]:
    """Return the dataclass decorator's text and the bracketed bases of a class."""
    found = _dataclass_decorator(node, names)
    bases = [text_of(source, base) for base in node.bases]
    bases += [f"{word.arg}={text_of(source, word.value)}" for word in node.keywords]
    decorator = text_of(source, found[0]) if found else None
    return decorator, f"({', '.join(bases)})" if bases else ""


def _kind(
    source: Source, node: ast.ClassDef, names: Names, classes: dict[str, ast.ClassDef]
) -> Literal["dataclass", "pydantic dataclass", "pydantic model"]:
    found = _dataclass_decorator(node, names)
    if found:
        return "dataclass" if found[1] == "dataclass" else "pydantic dataclass"
    seen = {node.name}
    todo = list(node.bases)
    while todo:
        base = todo.pop()
        if names.qualified(base) in ("pydantic.BaseModel", "pydantic.main.BaseModel"):
            return "pydantic model"
        name = base.id if isinstance(base, ast.Name) else ""
        if name in classes and name not in seen:
            seen.add(name)
            todo += classes[name].bases
    raise NeedsPerson(
        f"{source.path}: how {node.name} is configured is not an idiom that is known",
        where=f"{source.path}:{line_of(node)}",
        why="known are dataclasses, pydantic dataclasses and pydantic models",
        next="declare the switch's classes by hand; classes of the planned shape are left alone",
    )


def _factory_spelling(source: Source, *nodes: ast.ClassDef) -> str | None:
    for node in nodes:
        for field in _fields(node):
            value = field.value
            if isinstance(value, ast.Call) and any(
                word.arg == "default_factory" for word in value.keywords
            ):
                return text_of(source, value.func)
    return None


def _opening(source: Source, node: ast.ClassDef) -> Iterator[str]:
    """Yield what configures a pydantic model inside its body."""
    for statement in node.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id == "model_config" for target in targets):
            yield text_of(source, statement)


def _wanted(switch: SwitchPlan) -> Iterator[tuple[str, tuple[FieldPlan, ...]]]:
    """Yield the classes in the order in which they have to stand."""
    for section in switch.sections:
        yield section.class_name, section.fields
    yield switch.class_name, ()


def _docstring(name: str, switch: SwitchPlan) -> str:
    for section in switch.sections:
        if section.class_name == name:
            switches = [field.name for field in section.fields if field.type == "bool"]
            off = switch.enabled.name in switches and _default(section, switch) is False
            tail = f", off unless `{switch.enabled.name}` is set" if off else ""
            return f"The section `{switch.key}.{section.key}`{tail}."
    parts = ", ".join(f"`{section.key}`" for section in switch.sections)
    return f"The section `{switch.key}`: {parts}."


def _default(section: SectionPlan, switch: SwitchPlan) -> object:
    return next(field.default for field in section.fields if field.name == switch.enabled.name)


def _literal(value: object) -> str:
    return quoted(value) if isinstance(value, str) else repr(value)


def _field_lines(
    field: FieldPlan, names: Names, source: Source, needed: dict[str, str], width: int
) -> str:
    """Return the declaration of an option, indented; what its type needs goes to `needed`."""
    annotation = _type_text(field.type, names, source, needed)
    end = f" = {_literal(field.default)}"
    comment = f"  # {field.comment}" if field.comment else ""
    line = f"    {field.name}: {annotation}{end}"
    if len(line + comment) <= width:
        return line + comment
    above = ""
    if field.comment:
        wrapped = textwrap.wrap(field.comment, max(20, width - 6))
        above = "".join(f"    # {part}\n" for part in wrapped)
    tree = ast.parse(annotation, mode="eval").body
    if len(line) > width and isinstance(tree, ast.Subscript) and isinstance(tree.slice, ast.Tuple):
        head = f"{field.name}: {ast.unparse(tree.value)}["
        items = [ast.get_source_segment(annotation, item) or "" for item in tree.slice.elts]
        return above + bracketed(head, items, f"]{end}", indent="    ", width=width)
    return above + line


def _type_text(text: str, names: Names, source: Source, needed: dict[str, str]) -> str:
    """Return a type in the file's spelling, its missing imports noted."""
    for node in ast.walk(ast.parse(text, mode="eval")):
        if not isinstance(node, ast.Name) or names.binds(node.id, source.tree):
            continue
        if node.id in _ORIGINS:
            spelling = names.spelling(f"{_ORIGINS[node.id]}.{node.id}", source.tree)
            if spelling is None:
                needed[node.id] = _ORIGINS[node.id]
            else:
                text = re.sub(rf"(?<![\w.\"']){node.id}\b", spelling, text)
        elif not hasattr(builtins, node.id):
            raise NeedsPerson(
                f"{source.path} does not know the name {node.id} of the planned type {text}",
                where=source.path,
                next=f"import {node.id} there, or plan another type",
            )
    return text


def _section_field(key: str, class_name: str, factory: str | None, width: int) -> str:
    value = f"{class_name}()" if factory is None else f"{factory}(default_factory={class_name})"
    line = f"    {key}: {class_name} = {value}"
    if len(line) <= width or factory is None:
        return line
    head = f"{key}: {class_name} = {factory}("
    return bracketed(head, [f"default_factory={class_name}"], ")", indent="    ", width=width)


def _class_text(name: str, lines: list[str], docstring: str, idiom: Idiom) -> str:
    head = f"@{idiom.decorator}\n" if idiom.decorator else ""
    body = [f'    """{docstring}"""', ""] if idiom.documented else []
    for statement in idiom.opening:
        body += [f"    {statement}", ""]
    return "\n".join([f"{head}class {name}{idiom.bases}:", *body, *lines])


def _parsed_fields(lines: Iterable[str]) -> list[ast.AnnAssign]:
    bodies = [ast.parse(textwrap.dedent(line)).body for line in lines]
    return [node for body in bodies for node in body if isinstance(node, ast.AnnAssign)]


def _check_shape(source: Source, node: ast.ClassDef, lines: list[str]) -> None:
    """Refuse a class that lacks what the plan declares; main may have added what has a default."""
    seen = {ast.unparse(field.target): field for field in _fields(node)}
    for wanted in _parsed_fields(lines):
        field = seen.pop(ast.unparse(wanted.target), None)
        if field is None or not same_tree(field, wanted):
            has = f"has `{text_of(source, field)}`" if field else "has nothing"
            why = f"it {has} where the plan plans `{ast.unparse(wanted)}`"
            raise _taken(source, node.name, why, field or node)
    for field in seen.values():
        if field.value is None:
            why = f"its `{text_of(source, field)}` has no default, so nothing can make one"
            raise _taken(source, node.name, why, field)


def _taken(source: Source, name: str, why: str, node: ast.AST | None = None) -> NeedsPerson:
    return NeedsPerson(
        f"{source.path} has a {name} of another shape than the switch's",
        where=f"{source.path}:{line_of(node)}" if node else source.path,
        why=why,
        next="give the plan's class another name, or make the two agree",
    )


def _above_comments(source: Source, node: ast.ClassDef) -> int:
    """Return where a class starts together with the comment lines that touch it."""
    start = statement_span(source, node).start
    while start:
        above = line_start(source, start - 1)
        if not source.text[above:start].lstrip(" \t").startswith("#"):
            break
        start = above
    return start


def _root_field(
    source: Source, root: ast.ClassDef, switch: SwitchPlan, line: str
) -> TextEdit | None:
    fields = _fields(root)
    wanted = _parsed_fields([line])[0]
    for field in fields:
        if isinstance(field.target, ast.Name) and field.target.id == switch.key:
            if same_tree(field, wanted):
                return None
            taken = {node.target.id for node in fields if isinstance(node.target, ast.Name)}
            free = next(
                key
                for key in (f"{switch.key}_switch", *(f"{switch.key}_{n}" for n in range(2, 99)))
                if key not in taken
            )
            raise NeedsPerson(
                f"the key `{switch.key}` is taken in {root.name}",
                where=f"{source.path}:{line_of(field)}",
                why=f"it is `{text_of(source, field)}`, and the switch's section needs the name",
                next=f"choose another switch.key in port.yaml, such as {free}, also in switch.gate "
                "and the keys that variants set",
            )
    anchor = fields[-1] if fields else root.body[0]
    end = statement_span(source, anchor).end
    opening = "" if source.text[:end].endswith(("\n", "\r")) else "\n"
    gap = "" if fields else "\n"
    return TextEdit(end, end, f"{opening}{gap}{line}\n")
