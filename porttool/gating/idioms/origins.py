"""What an expression that looks like settings is: a namespace, a model, a dict, and made where."""

from __future__ import annotations

import ast
import re
from typing import Literal

from porttool.frozen import dataclass
from porttool.gating.idioms.bindings import (
    dataclasses_parsed,
    hydra_main,
    local_binding,
    makes_instance,
    member_assignments,
    scope_name,
)
from porttool.gating.idioms.classes import SettingsClass, annotated_fields, settings_class
from porttool.gating.idioms.lookup import (
    Definition,
    Sources,
    argument_for,
    binding_function,
    calls_of,
    class_around,
    class_named,
    definition,
    is_parameter,
    qualified,
    returned,
    simple_assignment,
)
from porttool.gating.idioms.mappings import (
    ABSL_FLAGS,
    LOADERS,
    absl_defines,
    is_namespace,
    written_dict,
)
from porttool.gating.idioms.parsers import PARSING, Parser, parser_of
from porttool.gating.idioms.values import Holder, Idiom
from porttool.source.nodes import nodes_of
from porttool.source.scopes import Function, parameters
from porttool.source.syntax import Source

MAX_DEPTH = 8
USUAL_NAMES = ("config", "cfg", "conf", "args", "settings", "options", "opts", "hparams")
_OMEGACONF = (
    "omegaconf.OmegaConf.load",
    "omegaconf.OmegaConf.create",
    "omegaconf.OmegaConf.from_cli",
    "omegaconf.OmegaConf.merge",
    "hydra.compose",
)
_OMEGACONF_TYPES = ("omegaconf.DictConfig", "omegaconf.dictconfig.DictConfig")
_FROM_CLASS = ("tyro.cli", "draccus.parse", "pyrallis.parse", "simple_parsing.parse")
_COPIES = ("dataclasses.replace", "copy.copy", "copy.deepcopy")
_SAME = ("model_copy", "copy", "resolve", "parse_args")
_PLAIN = ("dataclasses.asdict", "builtins.vars", "builtins.dict")
_DICT_TYPES = re.compile(r"(dict|Dict|Mapping|MutableMapping)(\[.*\])?")

Access = Literal["attribute", "item", "get", "select", "name"]


@dataclass(frozen=True)
class Settings:
    """What holds settings, and how one of them is read."""

    idiom: Idiom
    access: Access
    holder: Holder | None
    parser: Parser | None = None
    owner: SettingsClass | None = None
    written: ast.expr | None = None  # the dict or namespace display itself
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Opaque:
    """Settings that cannot be given a switch, or whose nature cannot be seen."""

    why: str


Origin = Settings | Opaque | None


def origin_of(
    sources: Sources, source: Source, expression: ast.expr, depth: int = MAX_DEPTH
) -> Origin:
    """Return what an expression holds; None where it is nothing known to be settings."""
    if depth == 0:
        return None
    if isinstance(expression, ast.Await):
        return origin_of(sources, source, expression.value, depth - 1)
    if isinstance(expression, ast.Call):
        return _of_call(sources, source, expression, depth)
    if isinstance(expression, ast.Name):
        return _of_name(sources, source, expression, depth)
    if isinstance(expression, ast.Attribute):
        return _of_attribute(sources, source, expression, depth)
    if isinstance(expression, ast.Subscript):
        return _of_item(sources, source, expression, depth)
    return None


def _of_call(sources: Sources, source: Source, call: ast.Call, depth: int) -> Origin:
    func = call.func
    name = qualified(source, func)
    if isinstance(func, ast.Attribute) and func.attr in PARSING and "known" not in func.attr:
        parser = parser_of(sources, source, func.value)
        if parser is not None:
            return of_parser(parser)
    if name in LOADERS:
        return Settings("dict", "get", None)
    if name in _OMEGACONF:
        return Settings("hydra", "select", None)
    if name == "omegaconf.OmegaConf.structured" and call.args:
        return _instance(sources, source, call.args[0])
    if name in _COPIES and call.args:
        return origin_of(sources, source, call.args[0], depth - 1)
    if name in _PLAIN and len(call.args) == 1 and not call.keywords:
        return _as_dict(origin_of(sources, source, call.args[0], depth - 1))
    if name in _FROM_CLASS and call.args:
        return _instance(sources, source, call.args[0])
    if isinstance(func, ast.Attribute) and func.attr in _SAME:
        inner = origin_of(sources, source, func.value, depth - 1)
        if isinstance(inner, Settings) and inner.owner is not None:
            return inner
    made = _instance(sources, source, func)
    if made is not None:
        return made
    return _of_function(sources, source, call, depth)


def _of_function(sources: Sources, source: Source, call: ast.Call, depth: int) -> Origin:
    """Return what a function or a class method of the project gives back."""
    if isinstance(call.func, ast.Attribute):
        built = definition(sources, source, call.func.value)
        if built is not None and isinstance(built.node, ast.ClassDef):
            made = _class_origin(sources, built)
            return made if made is not None and makes_instance(built.node, call.func.attr) else None
    if isinstance(call.func, ast.Name) and binding_function(source, call.func.id, call) is not None:
        return None
    meant = definition(sources, source, call.func)
    if meant is None or not isinstance(meant.node, Function):
        return None
    if meant.node.returns is not None:
        found = annotated(sources, meant.source, meant.node.returns)
        if isinstance(found, Settings) and found.owner is not None:
            return found
    results = returned(meant.node)
    origins: list[Origin] = []
    for result in results:
        if result is None:
            return None
        if isinstance(result, ast.Name) and is_parameter(meant.node, result.id):
            given = argument_for(call, meant.node, result.id, bound=False)
            origins.append(origin_of(sources, source, given, depth - 1) if given else None)
        else:
            origins.append(origin_of(sources, meant.source, result, depth - 1))
    return _agreed(origins)


def _agreed(origins: list[Origin]) -> Origin:
    """Return what several origins agree on; None where nothing is known or they differ."""
    if not origins or None in origins:
        return None
    first = origins[0]
    return first if all(origin == first for origin in origins) else None


def _instance(sources: Sources, source: Source, callee: ast.expr) -> Origin:
    """Return what calling a class of the project gives, when it is a class of settings."""
    found = class_named(sources, source, callee)
    return _class_origin(sources, found) if found is not None else None


def _class_origin(sources: Sources, found: Definition) -> Origin:
    made = settings_class(sources, found)
    if isinstance(made, SettingsClass):
        return of_class(made)
    return Opaque(made) if isinstance(made, str) else None


def of_class(owner: SettingsClass) -> Settings:
    """Return what an instance of a class of settings is."""
    idiom: Idiom = "pydantic" if owner.kind == "pydantic" else "dataclass"
    return Settings(idiom, "attribute", owner.holder, owner=owner)


def of_parser(parser: Parser) -> Settings:
    """Return what a parser's namespace is."""
    return Settings("argparse", "attribute", parser.holder, parser=parser)


def _as_dict(inner: Origin) -> Origin:
    """Return the same settings as a dict."""
    if isinstance(inner, Settings) and inner.access == "attribute":
        return Settings(inner.idiom, "item", inner.holder, inner.parser, inner.owner, inner.written)
    return inner if isinstance(inner, Settings) and inner.access in ("get", "item") else None


def annotated(sources: Sources, source: Source, annotation: ast.expr) -> Origin:
    """Return what a value with an annotation is, by the annotation alone."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            annotation = ast.parse(annotation.value, mode="eval").body
        except SyntaxError:
            return None
    if isinstance(annotation, ast.BinOp):
        return None  # `Config | None` may hold nothing to read
    if qualified(source, annotation) in _OMEGACONF_TYPES or _written_type(source, annotation) in (
        _OMEGACONF_TYPES
    ):
        return Settings("hydra", "select", None)
    found = class_named(sources, source, annotation)
    if found is not None:
        return _class_origin(sources, found)
    if _DICT_TYPES.fullmatch(ast.unparse(annotation).split(".")[-1]):
        return Settings("dict", "get", None)
    return None


def _written_type(source: Source, annotation: ast.expr) -> str:
    """Return the origin of a type that stands in a string, where nodes belong to no tree."""
    if not isinstance(annotation, ast.Name):
        return ""
    for statement in source.tree.body:
        if isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                if (alias.asname or alias.name) == annotation.id:
                    return f"{statement.module}.{alias.name}"
    return ""


def _of_name(sources: Sources, source: Source, name: ast.Name, depth: int) -> Origin:
    function = binding_function(source, name.id, name)
    if function is not None:
        argument = next((a for a in parameters(function) if a.arg == name.id), None)
        if argument is not None and is_parameter(function, name.id):
            return of_parameter(sources, source, function, argument, depth - 1)
        bound = local_binding(function, name.id, name.lineno)
        return of_binding(sources, source, bound, name.id, depth - 1) if bound else None
    if qualified(source, name) == ABSL_FLAGS:
        return of_absl(source)
    return of_global(sources, source, name.id, depth - 1)


def of_absl(source: Source) -> Origin:
    """Return what absl's FLAGS is in a file: extendable where the file defines flags."""
    defines = absl_defines(source)
    if not defines:
        return Opaque("its absl flags are defined in another file")
    return Settings("absl", "attribute", Holder(source.path, "FLAGS", defines[0].lineno))


def of_global(sources: Sources, source: Source, name: str, depth: int = MAX_DEPTH) -> Origin:
    """Return what a name at the top of a file holds, imports followed."""
    found = definition(sources, source, ast.Name(id=name))
    if found is None:
        return None
    return of_binding(sources, found.source, found.node, name, depth)


def of_binding(
    sources: Sources, source: Source, statement: ast.stmt, name: str, depth: int = MAX_DEPTH
) -> Origin:
    """Return what a statement gives to a name that it binds."""
    target, value, annotation = simple_assignment(statement)
    if annotation is not None:
        found = annotated(sources, source, annotation)
        if isinstance(found, Settings) and found.owner is not None:
            return found
    if value is None or target is None:
        return None
    if isinstance(target, ast.Tuple):
        return _unpacked(sources, source, target, value, name)
    if not isinstance(target, ast.Name | ast.Attribute):
        return None
    written = written_dict(source, value)
    if written is not None and isinstance(target, ast.Name):
        # The names that several displays of one scope share are for `reading` to tell apart.
        scope = scope_name(source, statement)
        holder = Holder(source.path, f"{scope}.{target.id}" if scope else target.id, value.lineno)
        access: Access = "attribute" if is_namespace(source, value) else "item"
        return Settings("dict", access, holder, written=written)
    if qualified(source, value) == ABSL_FLAGS:
        return of_absl(source)
    return origin_of(sources, source, value, depth)


def _unpacked(
    sources: Sources, source: Source, target: ast.Tuple, value: ast.expr, name: str
) -> Origin:
    """Return what a name gets from `args, rest = parser.parse_known_args()` and its like."""
    index = next(
        (i for i, e in enumerate(target.elts) if isinstance(e, ast.Name) and e.id == name), None
    )
    if (
        index is None
        or not isinstance(value, ast.Call)
        or not isinstance(value.func, ast.Attribute)
    ):
        return None
    method, receiver = value.func.attr, value.func.value
    if method in PARSING and "known" in method and index == 0 and len(target.elts) == 2:
        parser = parser_of(sources, source, receiver)
        return of_parser(parser) if parser is not None else None
    if method == "parse_args_into_dataclasses":
        classes = dataclasses_parsed(source, receiver)
        if len(classes) == len(target.elts):
            return _instance(sources, source, classes[index])
    return None


def of_parameter(
    sources: Sources, source: Source, function: Function, argument: ast.arg, depth: int = MAX_DEPTH
) -> Origin:
    """Return what a parameter holds: by its annotation, else by what every call gives for it."""
    if argument in (function.args.vararg, function.args.kwarg) or depth <= 0:
        return None
    decorator = hydra_main(source, function)
    if decorator is not None and argument is parameters(function)[0]:
        return _composed(sources, source, argument, decorator)
    stated = None
    if argument.annotation is not None:
        stated = annotated(sources, source, argument.annotation)
        if qualified(source, argument.annotation) != "argparse.Namespace" and stated is None:
            return None
    bound = class_around(source, function) is not None
    given = [
        (call, argument_for(call.node, function, argument.arg, bound=bound))
        for call in calls_of(sources, source, function)
    ]
    found = [
        origin_of(sources, call.source, value, depth - 1) if value is not None else None
        for call, value in given
    ]
    if isinstance(stated, Settings) and _defaults_to_none(function, argument):
        return Opaque(f"`{argument.arg}` may be None, which has no switch to read")
    if isinstance(stated, Settings):
        passed = {(o.idiom, o.holder) for o in found if isinstance(o, Settings)}
        if stated.owner is not None and any(idiom != stated.idiom for idiom, _ in passed):
            return Opaque(f"`{argument.arg}` is annotated as one thing and given another")
        if stated.holder is None and len(found) == 1 and isinstance(found[0], Settings):
            return found[0] if found[0].idiom == stated.idiom else stated
        return stated
    if isinstance(stated, Opaque):
        return stated
    return _agreed(found)


def _defaults_to_none(function: Function, argument: ast.arg) -> bool:
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    for one, default in zip(
        [*positional, *arguments.kwonlyargs], [*defaults, *arguments.kw_defaults], strict=True
    ):
        if one is argument:
            return isinstance(default, ast.Constant) and default.value is None
    return False


def _composed(sources: Sources, source: Source, argument: ast.arg, decorator: ast.Call) -> Settings:
    """Return what hydra hands to a main function: a class's fields only where it is registered."""
    plain = Settings("hydra", "select", None)
    if argument.annotation is None:
        return plain
    stated = annotated(sources, source, argument.annotation)
    name = next((word.value for word in decorator.keywords if word.arg == "config_name"), None)
    if (
        not isinstance(stated, Settings)
        or stated.owner is None
        or not isinstance(name, ast.Constant)
    ):
        return plain
    for path in sources:
        other = sources[path]
        if "ConfigStore" not in other.text:
            continue
        for node in nodes_of(other.tree):
            words = {w.arg: w.value for w in node.keywords} if isinstance(node, ast.Call) else {}
            key, value = words.get("name"), words.get("node")
            if isinstance(value, ast.Call):
                value = value.func
            if isinstance(key, ast.Constant) and key.value == name.value and value is not None:
                meant = class_named(sources, other, value)
                if meant is not None and meant.node is stated.owner.node:
                    return stated
    return plain


def _of_attribute(sources: Sources, source: Source, attribute: ast.Attribute, depth: int) -> Origin:
    """Return what `self.config`, `config.train` or `module.settings` holds."""
    root = attribute.value
    if isinstance(root, ast.Name):
        function = binding_function(source, root.id, attribute)
        if function is not None and parameters(function)[:1]:
            owner = class_around(source, function)
            if owner is not None and parameters(function)[0].arg == root.id:
                return of_member(sources, source, owner, attribute.attr, depth - 1)
        if function is None:
            found = definition(sources, source, attribute)
            if found is not None:
                return of_binding(sources, found.source, found.node, attribute.attr, depth - 1)
    inner = origin_of(sources, source, root, depth - 1)
    if isinstance(inner, Settings) and inner.owner is not None and inner.access == "attribute":
        for field in annotated_fields(inner.owner.node):
            if isinstance(field.target, ast.Name) and field.target.id == attribute.attr:
                return annotated(sources, inner.owner.source, field.annotation)
    if isinstance(inner, Settings) and inner.idiom == "hydra":
        return _part_of(inner, attribute)
    if attribute.attr == "__dict__":
        return _as_dict(inner)
    return None


def of_member(
    sources: Sources, source: Source, owner: ast.ClassDef, name: str, depth: int = MAX_DEPTH
) -> Origin:
    """Return what an attribute of a class's objects holds, by its one assignment."""
    for statement in owner.body:
        if isinstance(statement, ast.AnnAssign) and ast.unparse(statement.target) == name:
            return annotated(sources, source, statement.annotation)
    assigned = member_assignments(owner, name)
    if len(assigned) != 1:
        return None
    function, statement = assigned[0]
    if function.name not in ("__init__", "__post_init__", "setup", "setUp"):
        return None
    return of_binding(sources, source, statement, name, depth)


def _of_item(sources: Sources, source: Source, item: ast.Subscript, depth: int) -> Origin:
    key = item.slice
    if (
        isinstance(key, ast.Constant)
        and key.value == 0
        and isinstance(item.value, ast.Call)
        and isinstance(item.value.func, ast.Attribute)
        and item.value.func.attr in PARSING
        and "known" in item.value.func.attr
    ):
        parser = parser_of(sources, source, item.value.func.value)
        return of_parser(parser) if parser is not None else None
    if (
        isinstance(key, ast.Constant)
        and isinstance(key.value, int)
        and isinstance(item.value, ast.Call)
        and isinstance(item.value.func, ast.Attribute)
        and item.value.func.attr == "parse_args_into_dataclasses"
    ):
        classes = dataclasses_parsed(source, item.value.func.value)
        return _instance(sources, source, classes[key.value]) if key.value < len(classes) else None
    inner = origin_of(sources, source, item.value, depth - 1)
    by_name = isinstance(key, ast.Constant) and isinstance(key.value, str)
    undeclared = isinstance(inner, Settings) and inner.access in ("get", "select")
    if by_name and undeclared and isinstance(inner, Settings):
        return _part_of(inner, item)
    return None


def _part_of(inner: Settings, expression: ast.expr) -> Opaque:
    """Say of a section of settings that nothing declares that the switch is not one of its keys."""
    text = ast.unparse(expression)
    return Opaque(f"`{text}` is a part of the {inner.idiom} settings, and the switch is not in it")
