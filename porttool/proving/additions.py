"""What a branch may add to a file without onto being able to tell.

A function that nothing of onto calls, an import whose effect is there already, the switch's own
classes and field, a local name that only switched-off code read. Additions of any other kind are
refused, with the reason.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from porttool.plan.switch import SectionPlan, SwitchPlan
from porttool.proving.fold import Folded, position
from porttool.source.nodes import walk
from porttool.source.scopes import (
    Function,
    bound_names,
    identifiers,
    imported_modules,
    imported_names,
    local_names,
)
from porttool.source.syntax import Names, same_tree

_UNSWITCHED = "it is not behind the switch"
# Decorators that, used on a function that nobody calls, do nothing that anybody could see.
_INERT = frozenset(
    {
        *("builtins.staticmethod", "builtins.classmethod", "contextlib.contextmanager"),
        *("functools.cache", "functools.lru_cache", "typing.final", "typing.no_type_check"),
        *("torch.no_grad", "torch.inference_mode", "torch.enable_grad"),
    }
)
# Calls that only make a value, where the rest of a program cannot tell that it was made.
_PURE = frozenset({"functools.partial", "logging.getLogger", "typing.TypeVar"})
_BASES = frozenset({"builtins.object", "builtins.Exception", "torch.nn.Module"})
# Decorators of classes that do not look at methods of ordinary names.
_CLASS_DECORATORS = frozenset({"attr.define", "attr.s", "attrs.define", "dataclasses.dataclass"})
_FACTORIES = ("dataclasses.field", "pydantic.Field", "pydantic.fields.Field")


@dataclass(frozen=True)
class AddedModule:
    """A file that the branch adds, and what it does when it is loaded, None where nothing."""

    path: str
    tree: ast.Module
    why: str | None


@dataclass
class Additions:
    """Judges the additions to one file; `config` is the switch where this file declares it."""

    path: str
    onto: ast.Module
    branch: Folded
    config: SwitchPlan | None
    mentioned: Callable[[str], bool]  # whether any file of onto has this word
    added_module: Callable[[str, int], AddedModule | None]  # the new file that an import would load
    old_module: Callable[[str, int], ast.Module | None]  # the file of onto that it would load
    loaded: frozenset[str] = frozenset()  # modules that whoever loads this file has loaded too
    called: frozenset[str] = frozenset()  # methods, `Class.name`, that are there for the rewrites
    accepted: list[str] = field(default_factory=list)
    assumes: list[str] = field(default_factory=list)
    new_names: list[str] = field(default_factory=list)  # that the module has now
    declared: bool = False

    def __post_init__(self) -> None:
        self._imported = imported_modules(self.onto)
        self._lazy_annotations = any(
            isinstance(node, ast.ImportFrom)
            and node.module == "__future__"
            and any(alias.name == "annotations" for alias in node.names)
            for node in self.onto.body or self.branch.tree.body
        )

    # Most files of a branch have no addition: what judges them is made for the first.
    @cached_property
    def _names(self) -> Names:
        return Names(self.branch.tree)

    @cached_property
    def _taken(self) -> set[str]:
        return identifiers(self.onto)

    @cached_property
    def _num_bound(self) -> Counter[str]:
        """Count the top-level statements of the branch that bind each name."""
        return Counter(name for node in self.branch.tree.body for name in bound_names([node]))

    def objection_to_loading(self) -> str | None:
        """Return what a file that is new does when it is loaded, None where that is nothing."""
        for index, statement in enumerate(self.branch.tree.body):
            future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
            docstring = isinstance(statement, ast.Expr) and not index
            listed = isinstance(statement, ast.Assign) and bound_names([statement]) == {"__all__"}
            value = getattr(statement, "value", None)
            if future or ((docstring or listed) and value is not None and _is_constant(value)):
                continue
            why = self._module_level(statement)
            if why is not None:
                runs = f"`{_label(statement)}` runs"
                return f"line {statement.lineno}, {runs if why == _UNSWITCHED else why}"
        return None

    def refusal(self, statement: ast.stmt, owner: ast.AST, rest: list[ast.stmt]) -> str | None:
        """Return why an added statement counts; `rest` is what of onto follows in its block."""
        if isinstance(owner, ast.Module):
            why = self._module_level(statement)
        elif isinstance(owner, ast.ClassDef):
            why = self._class_level(statement, owner, rest)
        elif isinstance(owner, Function):
            why = self._dead_store(statement, owner)
        else:
            why = _UNSWITCHED
        if why is None:
            self.accepted.append(_label(statement))
            if isinstance(owner, ast.Module):
                self.new_names += sorted(bound_names([statement]))
        return why

    def _module_level(self, statement: ast.stmt) -> str | None:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            return self._import(statement)
        if isinstance(statement, ast.ClassDef) and self.config is not None:
            return self._config_class(statement, self.config)
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            return self._fresh({statement.name}) or self._definition(statement)
        if isinstance(statement, ast.ClassDef):
            return self._fresh({statement.name}) or self._class(statement)
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            names = bound_names([statement])
            made = statement.value is not None and self._is_inert_value(statement.value, statement)
            if len(names) == 1 and made and isinstance(statement, ast.Assign):
                return self._fresh(names)
        return _UNSWITCHED

    def _fresh(self, names: set[str]) -> str | None:
        for name in sorted(names):
            if name in self._taken:
                return f"the name {name} means something else in this file"
            if name.startswith("__"):
                return f"the name {name} is special"
            if self._num_bound[name] != 1:
                return f"the name {name} is bound more than once"
        return None

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> str | None:
        """Return why defining a function, which nobody calls, would do something."""
        for decorator in node.decorator_list:
            if not self._is_inert(decorator, node):
                return f"{node.name} is decorated with `{ast.unparse(decorator)}`, which runs"
        defaults = [*node.args.defaults, *(value for value in node.args.kw_defaults if value)]
        if not all(_is_constant(value) for value in defaults):
            return f"a default value of {node.name} is computed"
        if self._lazy_annotations:
            return None
        annotations = [
            node.returns,
            *(a.annotation for a in walk(node) if isinstance(a, ast.arg)),
        ]
        for annotation in filter(None, annotations):
            for part in walk(annotation):
                if isinstance(part, ast.Call | ast.NamedExpr | ast.Await):
                    return f"an annotation of {node.name} is computed"
                if isinstance(part, ast.Name) and not self._known_above(part.id, node):
                    return f"an annotation of {node.name} reads {part.id}, which is not there yet"
        return None

    def _class(self, node: ast.ClassDef) -> str | None:
        """Return why defining a class, which nobody uses, would do something."""
        named = all(
            self._names.qualified(base) in _BASES
            and self._known_above(ast.unparse(base).partition(".")[0], node)
            for base in node.bases
        )
        if node.decorator_list or node.keywords or not named:
            return f"{node.name} has bases or decorators that may do something"
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                why = self._definition(statement)
                if why is not None:
                    return why
            elif not isinstance(statement, ast.Pass) and not (
                isinstance(statement, ast.Expr | ast.Assign) and _is_constant(statement.value)
            ):
                return f"the body of {node.name} does something"
        return None

    def _is_inert_value(self, value: ast.expr, statement: ast.stmt) -> bool:
        """Tell whether evaluating what a new name is bound to does nothing."""
        if _is_constant(value):
            return True
        if isinstance(value, ast.Name):
            return value.id == "__name__" or self._known_above(value.id, statement)
        if isinstance(value, ast.Lambda):
            defaults = [*value.args.defaults, *(one for one in value.args.kw_defaults if one)]
            return all(map(_is_constant, defaults))
        if isinstance(value, ast.Call):
            given = [*value.args, *(word.value for word in value.keywords)]
            callee = ast.unparse(value.func).partition(".")[0]
            return (
                self._names.qualified(value.func) in _PURE
                and self._known_above(callee, statement)
                and all(self._is_inert_value(one, statement) for one in given)
            )
        return False

    def _is_inert(self, decorator: ast.expr, node: ast.stmt) -> bool:
        """Tell whether a decorator does nothing but hand on the function, or what calls it."""
        called = decorator
        if isinstance(decorator, ast.Call):
            values = [*decorator.args, *(word.value for word in decorator.keywords)]
            if not all(map(_is_constant, values)):
                return False
            called = decorator.func
        root = ast.unparse(called).partition(".")[0]
        return self._names.qualified(called) in _INERT and self._known_above(root, node)

    def _known_above(self, name: str, node: ast.stmt) -> bool:
        above = [s for s in self.branch.tree.body if s.lineno < node.lineno]
        return name in bound_names(above) or hasattr(builtins, name)

    def _import(self, statement: ast.Import | ast.ImportFrom) -> str | None:
        names = imported_names(statement)
        level = statement.level if isinstance(statement, ast.ImportFrom) else 0
        packages: set[str] = set()  # that hold a file of onto, and so are the project's own
        if isinstance(statement, ast.ImportFrom):
            if statement.module == "__future__" or "*" in names:
                return "it changes what the whole file means"
            base = statement.module or ""
            found = self.old_module(base, level)
            modules = [base]
            for alias in statement.names:
                below = f"{base}.{alias.name}" if base else alias.name
                added = self.added_module(below, level)
                if added is not None and added.why is not None:
                    return f"it loads {added.path}, which is new: {added.why}"
                there = self.added_module(base, level) if base else None
                same = there is not None and added is not None and there.path == added.path
                if same and there is not None and alias.name not in bound_names(there.tree.body):
                    return f"{there.path} has no {alias.name}"
                if self.old_module(below, level) is not None:
                    modules.append(below)
                    packages.add(base)
                elif found is not None and alias.name not in bound_names(found.body):
                    return f"{'.' * level}{base} has no {alias.name}"
        else:
            modules = [alias.name for alias in statement.names]
            # `import torch._dynamo` binds `torch`, which `import torch` has bound before.
            bare = {alias.name.partition(".")[0] for alias in statement.names if not alias.asname}
            names -= bare & self._imported
        for module in modules:
            why = self._module_objection(module, level, own=module in packages)
            if why is not None:
                return why
        return self._fresh(names)

    def _module_objection(self, module: str, level: int, *, own: bool) -> str | None:
        """Return why loading a module could be seen: it is new here, and not of a kind to trust."""
        if level and not module:
            return None  # a package that this file is in, and that is loaded ahead of it
        dotted = "." * level + module
        added = self.added_module(module, level)
        if added is not None:
            return f"it loads {added.path}, which is new: {added.why}" if added.why else None
        if dotted in self._imported or dotted in self.loaded:
            return None
        standard = not level and module.partition(".")[0] in sys.stdlib_module_names
        if own or standard or self.old_module(module, level) is not None:
            self.assumes.append(f"importing {dotted} does nothing else ({self.path})")
            return None
        return f"{self.path} did not import {dotted} before, and importing it may do something"

    def _class_level(
        self, statement: ast.stmt, owner: ast.ClassDef, rest: list[ast.stmt]
    ) -> str | None:
        if self.config is not None and owner.name == self.config.root:
            if any(isinstance(other, ast.AnnAssign) for other in rest):
                return "the switch's field has to come last"
            if not self._is_section(statement, self.config.key, self.config.class_name):
                return "it is not the field that the plan declares"
            self.declared = True
            return None
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            return _UNSWITCHED
        decorators = [getattr(one, "func", one) for one in owner.decorator_list]
        plain = all(self._names.qualified(one) in _CLASS_DECORATORS for one in decorators)
        if owner.keywords or not plain:
            return f"{owner.name} has a metaclass or a decorator that may use {statement.name}"
        if statement.name.startswith("__") or self.mentioned(statement.name):
            return f"the name {statement.name} is used elsewhere"
        if sum(statement.name in bound_names([other]) for other in owner.body) != 1:
            return f"the name {statement.name} is bound more than once"
        why = self._definition(statement)
        bases = [text for base in owner.bases if (text := ast.unparse(base)) != "object"]
        of = " and ".join(bases)
        if why is not None or not of:
            return why
        if f"{owner.name}.{statement.name}" not in self.called:  # a hook that a framework calls
            return f"no rewrite calls {statement.name}, and {of} may"
        self.assumes.append(f"{of} has nothing by the name {statement.name} ({self.path})")
        return None

    def _dead_store(self, statement: ast.stmt, owner: Function) -> str | None:
        """Return why a local assignment counts; unread ones of plain values do not."""
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return _UNSWITCHED
        target = statement.targets[0]
        reads_switch = any(
            position(node) in self.branch.pure
            for node in walk(statement.value)
            if isinstance(node, ast.expr)
        )
        plain = reads_switch and self._is_plain(statement.value)
        if not isinstance(target, ast.Name) or not plain:
            return _UNSWITCHED
        body = [other for other in owner.body if other is not statement]
        others = ast.Module(body=body, type_ignores=[])
        if statement not in owner.body or target.id in identifiers(others) | (
            local_names(owner) - bound_names([statement])
        ):
            return f"`{target.id}` is read outside of the switch"
        return None

    def _is_plain(self, node: ast.expr) -> bool:
        if position(node) in self.branch.pure or _is_constant(node):
            return True
        if isinstance(node, ast.Call):
            builtin = self._names.qualified(node.func) == "builtins.dict"
            return builtin and not node.args and all(self._is_plain(w.value) for w in node.keywords)
        if isinstance(node, ast.Dict):
            keys = all(key is not None and _is_constant(key) for key in node.keys)
            return keys and all(self._is_plain(value) for value in node.values)
        if isinstance(node, ast.Tuple | ast.List):
            return all(self._is_plain(item) for item in node.elts)
        return False

    def _config_class(self, node: ast.ClassDef, config: SwitchPlan) -> str | None:
        """Return why a class is not one that the plan declares, word for word."""
        why = self._fresh({node.name})
        if why is not None:
            return why
        like = [
            other
            for other in self.onto.body
            if isinstance(other, ast.ClassDef) and _same_heading(node, other)
        ]
        if not like:
            return f"no class of the file is decorated and derived like {node.name}"
        body = node.body[1:] if ast.get_docstring(node) is not None else list(node.body)
        fields = [statement for statement in body if isinstance(statement, ast.AnnAssign)]
        for statement in body:
            copied = any(same_tree(statement, part) for other in like for part in other.body)
            if statement not in fields and not copied:
                return f"{node.name} holds more than the plan's fields"
        if node.name == config.class_name:
            wanted = [(section.key, section.class_name) for section in config.sections]
            same = len(wanted) == len(fields) and all(
                self._is_section(statement, key, name)
                for statement, (key, name) in zip(fields, wanted, strict=True)
            )
            return None if same else f"{node.name} does not have the plan's sections"
        for section in config.sections:
            if section.class_name == node.name:
                return self._options(fields, section)
        return f"the plan declares no class {node.name}"

    def _options(self, fields: list[ast.AnnAssign], section: SectionPlan) -> str | None:
        for index in range(max(len(fields), len(section.fields))):
            if index >= len(fields) or index >= len(section.fields):
                return f"{section.class_name} does not have the plan's options"
            option, statement = section.fields[index], fields[index]
            default = statement.value
            same = (
                isinstance(statement.target, ast.Name)
                and statement.target.id == option.name
                and self._is_type(statement.annotation, option.type)
                and default is not None
                and same_tree(default, ast.parse(repr(option.default), mode="eval").body)
            )
            if not same:
                return (
                    f"{section.class_name} has `{ast.unparse(statement)}` where the plan has "
                    f"`{option.name}: {option.type} = {option.default!r}`"
                )
        return None

    def _is_type(self, annotation: ast.expr, text: str) -> bool:
        wanted = ast.parse(text, mode="eval").body
        if isinstance(annotation, ast.Subscript) and isinstance(wanted, ast.Subscript):
            origin = self._names.qualified(annotation.value) or ""
            return origin.split(".")[-1] == ast.unparse(wanted.value) and same_tree(
                annotation.slice, wanted.slice
            )
        return same_tree(annotation, wanted)

    def _is_section(self, statement: ast.stmt, key: str, class_name: str) -> bool:
        """Tell whether a statement is `key: Class = field(default_factory=Class)`, or `Class()`."""
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.value, ast.Call):
            return False
        call = statement.value
        by_factory = (
            self._names.qualified(call.func) in _FACTORIES
            and [word.arg for word in call.keywords] == ["default_factory"]
            and ast.unparse(call.keywords[0].value) == class_name
        )
        by_call = ast.unparse(call) == f"{class_name}()"
        return (
            ast.unparse(statement.target) == key
            and ast.unparse(statement.annotation) == class_name
            and not call.args
            and (by_factory or by_call)
        )


def _label(statement: ast.stmt) -> str:
    """Return what a reader calls an addition."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return f"{statement.name}()"
    if isinstance(statement, ast.ClassDef):
        return f"class {statement.name}"
    return ast.unparse(statement).split("\n")[0]


def _is_constant(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    if isinstance(node, ast.Tuple | ast.List):
        return all(_is_constant(item) for item in node.elts)
    return isinstance(node, ast.Constant)


def _same_heading(left: ast.ClassDef, right: ast.ClassDef) -> bool:
    def heading(node: ast.ClassDef) -> list[str]:
        parts = [*node.decorator_list, *node.bases, *(word.value for word in node.keywords)]
        return [ast.dump(part) for part in parts] + [str(word.arg) for word in node.keywords]

    return heading(left) == heading(right)
