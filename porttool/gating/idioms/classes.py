"""Classes of settings: dataclasses, pydantic and attrs models, plain classes of constants."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Literal

from porttool.frozen import dataclass
from porttool.gating.idioms.lookup import Definition, Sources, definition, qualified
from porttool.gating.idioms.values import Holder
from porttool.source.nodes import nodes_of
from porttool.source.scopes import Function
from porttool.source.syntax import (
    Source,
    TextEdit,
    indent_of,
    line_of,
    span_of,
    statement_span,
    text_of,
)

ClassKind = Literal["dataclass", "pydantic", "attrs", "plain"]
_DECORATORS: dict[str, ClassKind] = {
    "dataclasses.dataclass": "dataclass",
    "pydantic.dataclasses.dataclass": "dataclass",
    "attrs.define": "attrs",
    "attrs.frozen": "attrs",
    "attrs.mutable": "attrs",
    "attr.define": "attrs",
    "attr.frozen": "attrs",
    "attr.dataclass": "attrs",
}
_MODELS = (
    "pydantic.BaseModel",
    "pydantic.main.BaseModel",
    "pydantic.v1.BaseModel",
    "pydantic.BaseSettings",
    "pydantic.v1.BaseSettings",
    "pydantic_settings.BaseSettings",
)
_NEUTRAL_BASES = ("builtins.object", "typing.Generic", "abc.ABC", "typing.Protocol")
_OTHER_BASES = {
    "typing.NamedTuple": "adding a field to a named tuple changes how many values it unpacks to",
    "typing.TypedDict": "a TypedDict declares no default, so no reader could count on the key",
    "typing_extensions.TypedDict": "a TypedDict declares no default",
    "pydantic.RootModel": "a root model holds one value",
}
_SETTINGS_NAME = re.compile(
    r"(Config|Configuration|Cfg|Conf|Settings|Options|Opts|Args|Arguments|Params|Parameters"
    r"|HParams|Hparams|Hyperparameters|HyperParams|Flags)(V?\d+)?$"
)
_METHODS = ("dict", "json", "copy", "fields", "schema", "construct", "validate")


@dataclass(frozen=True)
class SettingsClass:
    """A class of the project that holds settings."""

    source: Source
    node: ast.ClassDef
    kind: ClassKind

    @property
    def holder(self) -> Holder:
        """The class as the place of a declaration."""
        return Holder(self.source.path, self.node.name, line_of(self.node))


def looks_like_settings(name: str) -> bool:
    """Tell whether a class is named as classes of settings are."""
    return bool(_SETTINGS_NAME.search(name))


def settings_class(sources: Sources, found: Definition) -> SettingsClass | str | None:
    """Return a class of settings: a text where it is one that cannot be extended, else None.

    A plain class counts where it is constants and nothing else.
    """
    node = found.node
    if not isinstance(node, ast.ClassDef):
        return None
    kind: ClassKind | None = None
    unknown = []
    for part in _family(sources, found):
        if isinstance(part, str):
            if part in _MODELS:
                kind = "pydantic"
            elif part in _OTHER_BASES:
                return f"{node.name} cannot take the switch: {_OTHER_BASES[part]}"
            elif part not in _NEUTRAL_BASES:
                unknown.append(part)
            continue
        assert isinstance(part.node, ast.ClassDef)
        for decorator in part.node.decorator_list:
            callee = decorator.func if isinstance(decorator, ast.Call) else decorator
            origin = qualified(part.source, callee)
            if origin in _DECORATORS:
                kind = kind or _DECORATORS[origin]
            elif origin in ("attr.s", "attr.attrs") and _is_true(decorator, "auto_attribs"):
                kind = "attrs"
    if kind is not None:
        if kind == "dataclass" and not _is_dataclass(found):
            return f"{node.name} derives from a dataclass and is none itself"
        return SettingsClass(found.source, node, kind)
    if unknown or node.decorator_list or node.keywords:
        return None
    constants = [part for part in node.body if isinstance(part, ast.Assign | ast.AnnAssign)]
    if not constants or any(
        isinstance(part, Function) and _sets_itself(part) for part in node.body
    ):
        return None
    return SettingsClass(found.source, node, "plain")


def _is_dataclass(found: Definition) -> bool:
    return any(
        qualified(found.source, d.func if isinstance(d, ast.Call) else d) in _DECORATORS
        for d in getattr(found.node, "decorator_list", [])
    )


def _is_true(decorator: ast.expr, name: str) -> bool:
    return isinstance(decorator, ast.Call) and any(
        word.arg == name and isinstance(word.value, ast.Constant) and word.value.value is True
        for word in decorator.keywords
    )


def _sets_itself(method: Function) -> bool:
    return any(
        isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        for node in ast.walk(method)
    )


def _family(sources: Sources, found: Definition) -> Iterator[Definition | str]:
    """Yield a class and its bases, nearest first; a base from outside by its dotted name."""
    seen: set[ast.AST] = set()
    waiting: list[Definition | str] = [found]
    while waiting:
        part = waiting.pop(0)
        if isinstance(part, str):
            yield part
            continue
        if part.node in seen or not isinstance(part.node, ast.ClassDef):
            continue
        seen.add(part.node)
        yield part
        for base in part.node.bases:
            plain = base.value if isinstance(base, ast.Subscript) else base
            inside = definition(sources, part.source, plain)
            waiting.append(inside or qualified(part.source, plain) or ast.unparse(plain))


def annotated_fields(node: ast.ClassDef) -> list[ast.AnnAssign]:
    """Return the fields that annotations declare, class variables apart."""
    return [
        statement
        for statement in node.body
        if isinstance(statement, ast.AnnAssign)
        and "ClassVar" not in ast.unparse(statement.annotation)
    ]


def field_names(sources: Sources, found: Definition) -> set[str] | None:
    """Return the fields of a class and its bases, aliases too; None where more may be allowed.

    Extra keys are allowed by `extra="allow"` or "ignore", which is what pydantic does by default.
    """
    names: set[str] = set()
    is_model = forbids = False
    for part in _family(sources, found):
        if isinstance(part, str):
            is_model |= part in _MODELS
            if part not in _MODELS and part not in _NEUTRAL_BASES:
                return None
            continue
        if not isinstance(part.node, ast.ClassDef):
            return None
        forbids |= re.search(r"extra\s*=\s*\S*forbid", ast.unparse(part.node)) is not None
        for field in annotated_fields(part.node):
            names.add(ast.unparse(field.target))
            for word in field.value.keywords if isinstance(field.value, ast.Call) else []:
                if word.arg in ("alias", "validation_alias"):
                    names.add(ast.unparse(word.value).strip("'\""))
    return names if not is_model or forbids else None


def field_objection(sources: Sources, owner: SettingsClass, name: str) -> str | None:
    """Return why the switch cannot become a field; "" where it is one already, off."""
    found = Definition(owner.source, owner.node)
    for part in _family(sources, found):
        if isinstance(part, str) or not isinstance(part.node, ast.ClassDef):
            continue
        why = _declared(part.source, part.node, name)
        if why is not None:
            return why
    if owner.kind == "pydantic" and name in _METHODS:
        return f"`{name}` is a method of pydantic's models"
    why = _made_by_hand(owner)
    if why is not None:
        return why
    return _derived_objection(sources, owner, name)


def _declared(source: Source, node: ast.ClassDef, name: str) -> str | None:
    """Say what a class makes of the name: "" for the switch, a refusal, None for nothing."""
    for statement in node.body:
        where = f"{source.path}:{line_of(statement)}"
        if isinstance(statement, Function) and statement.name == name:
            return f"`{name}` is a method of {node.name} ({where})"
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        if not any(isinstance(t, ast.Name) and t.id == name for t in targets):
            continue
        value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
        if isinstance(value, ast.Call):
            words = {word.arg: word.value for word in value.keywords}
            value = words.get("default", value.args[0] if value.args else None)
        boolean = not isinstance(statement, ast.AnnAssign) or (
            ast.unparse(statement.annotation) in ("bool", "'bool'")
        )
        text = text_of(source, statement)
        if not boolean:
            return f"`{name}` is there already ({where}) and is no bool: `{text}`"
        if not isinstance(value, ast.Constant) or value.value is not False:
            return f"`{name}` is there already ({where}) and is not off: `{text}`"
        return ""
    return None


def _made_by_hand(owner: SettingsClass) -> str | None:
    """Return what keeps a new field from being filled in."""
    node = owner.node
    for statement in node.body:
        if (
            isinstance(statement, Function)
            and statement.name == "__init__"
            and owner.kind != "plain"
        ):
            return f"{node.name} has an `__init__` of its own, which would have to take the switch"
        names = [t.id for t in getattr(statement, "targets", []) if isinstance(t, ast.Name)]
        if "__slots__" in names:
            return f"{node.name} lists its `__slots__` by hand"
    for decorator in node.decorator_list:
        for word in decorator.keywords if isinstance(decorator, ast.Call) else []:
            if word.arg == "init" and isinstance(word.value, ast.Constant) and not word.value.value:
                return f"{node.name} is made with init=False, so nothing could turn the switch on"
    start, body = span_of(owner.source, node).start, span_of(owner.source, node.body[0]).start
    if re.search(r"[\r\n]", owner.source.text[start:body]):
        return None
    return f"{node.name} is written on one line"


def _derived_objection(sources: Sources, owner: SettingsClass, name: str) -> str | None:
    """Return what a class that derives from the owner would make of one more field."""
    for path in sources:
        source = sources[path]
        if owner.node.name not in source.text:
            continue
        for node in nodes_of(source.tree):
            if not isinstance(node, ast.ClassDef) or node is owner.node:
                continue
            family = list(_family(sources, Definition(source, node)))
            if not any(isinstance(p, Definition) and p.node is owner.node for p in family):
                continue
            where = f"{path}:{line_of(node)}"
            why = _declared(source, node, name)
            if why:
                return why
            if owner.kind not in ("dataclass", "attrs") or not annotated_fields(node):
                continue
            by_keyword = any(_is_true(decorator, "kw_only") for decorator in node.decorator_list)
            if not by_keyword:
                return (
                    f"{node.name} ({where}) derives from {owner.node.name} and has fields of its "
                    "own: a field in the middle would change what is given by position"
                )
    return None


def declare_field(source: Source, holder: Holder, name: str) -> list[TextEdit]:
    """Return the edit that adds the switch as the last field of a class."""
    node = next(
        node
        for node in source.tree.body
        if isinstance(node, ast.ClassDef) and node.name == holder.name
    )
    annotated = [part for part in node.body if isinstance(part, ast.AnnAssign)]
    plain = [part for part in node.body if isinstance(part, ast.Assign)]
    fields = annotated or plain
    typed = bool(annotated) or bool(node.decorator_list) or bool(node.bases)
    anchor: ast.stmt = fields[-1] if fields else node.body[0]
    following = node.body[node.body.index(anchor) + 1 :]
    if fields and following and _is_text(following[0]):
        anchor = following[0]  # the field's own docstring
    end = statement_span(source, anchor).end
    opening = "" if source.text[:end].endswith(("\n", "\r")) else "\n"
    gap = "" if fields or not _is_text(anchor) else "\n"
    line = f"{name}: bool = False" if typed else f"{name} = False"
    if not fields and isinstance(anchor, ast.Pass):
        span = span_of(source, anchor)
        return [TextEdit(span.start, span.end, line)]
    return [TextEdit(end, end, f"{opening}{gap}{indent_of(source, anchor)}{line}\n")]


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
