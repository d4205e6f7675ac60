"""Is an expression a torch module, a function, or something that cannot be told?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from porttool.calls.neighbours import module_source
from porttool.calls.view import (
    COMPREHENSIONS,
    FUNCTIONS,
    View,
    ancestors,
    class_of,
    origin,
    scope_of,
    spelled,
    uses,
    variable_scope,
    view,
)
from porttool.source.nodes import walk
from porttool.source.scopes import top_level_name

# Methods of nn.Module that return the module itself.
CHAINABLE = frozenset(
    [
        "to",
        "cuda",
        "cpu",
        "eval",
        "train",
        "half",
        "float",
        "double",
        "bfloat16",
        "type",
        "requires_grad_",
        "apply",
        "to_empty",
        "xpu",
        "ipu",
        "share_memory",
    ]
)
_MODULE_WORDS = re.compile(
    r"(^|_)(model|net|network|module|backbone|encoder|decoder|transformer|unet|vae|policy|actor|"
    r"critic|generator|discriminator|block|layer|head|student|teacher|ema|vit|gpt|llm)s?(_|\d|$)"
)
_DEPTH = 6


def is_module(here: View, expression: ast.expr, depth: int = _DEPTH) -> bool | None:
    """Tell whether an expression is an nn.Module with torch's own `compile`; None: not seen."""
    if depth == 0:
        return None
    if isinstance(expression, ast.Call):
        return _call_gives_module(here, expression, depth)
    if isinstance(expression, ast.NamedExpr | ast.Await):
        return is_module(here, expression.value, depth - 1)
    if isinstance(expression, ast.IfExp):
        both = {is_module(here, one, depth - 1) for one in (expression.body, expression.orelse)}
        return both.pop() if len(both) == 1 else None
    if isinstance(expression, ast.Lambda | ast.Constant):
        return False
    if isinstance(expression, ast.Subscript):
        return _element_is_module(here, expression.value, depth - 1)
    if isinstance(expression, ast.Name | ast.Attribute):
        return _variable_is_module(here, expression, depth)
    return None


def may_be_module(here: View, expression: ast.expr) -> bool:
    """Tell whether an expression could be a module, from what it is or what it is called."""
    sure = is_module(here, expression)
    if sure is not None:
        return sure
    if isinstance(expression, ast.Call):
        # `lowered(...).compile()`: what a function gives back is only a module if it is named so.
        return bool(_MODULE_WORDS.search(_last_word(expression.func)))
    return bool(_MODULE_WORDS.search(_last_word(expression)))


def is_function(here: View, expression: ast.expr) -> bool:
    """Tell whether an expression is plainly a function or a method, not a module."""
    if isinstance(expression, ast.Lambda):
        return True
    if isinstance(expression, ast.Attribute):
        if expression.attr in ("forward", "step", "__call__"):
            return True
        meant = origin(here, expression)
        if meant is not None and meant.startswith("torch.") and expression.attr.islower():
            return True
        return _is_method(here, expression)
    if isinstance(expression, ast.Name):
        home = here.names.binding(expression.id, expression)
        return home is not None and any(
            isinstance(node, FUNCTIONS)
            and node.name == expression.id
            and scope_of(here, node) is home[0]
            for node in here.nodes
        )
    return False


def _is_method(here: View, expression: ast.Attribute) -> bool:
    """Tell whether an attribute is a method of the class that its object is seen to be of."""
    owner = expression.value
    classes = [class_of(here, owner)] if spelled(owner) == "self" else []
    for store in uses(here, owner) if not classes else ():
        holder = here.above[store]
        if isinstance(holder, ast.Assign) and isinstance(holder.value, ast.Call):
            classes.append(_class_named(here, holder.value.func))
    return bool(classes) and all(
        definition is not None
        and any(
            isinstance(one, FUNCTIONS)
            and one.name == expression.attr
            and not any("property" in (spelled(mark) or "") for mark in one.decorator_list)
            for one in definition.body
        )
        for definition in classes
    )


def _last_word(expression: ast.expr) -> str:
    if isinstance(expression, ast.Attribute):
        return expression.attr.lower()
    if isinstance(expression, ast.Subscript):
        return _last_word(expression.value)
    return expression.id.lower() if isinstance(expression, ast.Name) else ""


def _call_gives_module(here: View, call: ast.Call, depth: int) -> bool | None:
    if isinstance(call.func, ast.Attribute) and call.func.attr in CHAINABLE:
        inner = is_module(here, call.func.value, depth - 1)
        if inner is not None:
            return inner
    meant = origin(here, call.func)
    if meant in ("torch.compile", "copy.deepcopy", "copy.copy") and call.args:
        return is_module(here, call.args[0], depth - 1)
    return class_is_module(here, call.func, depth)


def class_is_module(here: View, named: ast.expr, depth: int = _DEPTH) -> bool | None:
    """Tell whether a name is a class of modules that does not override `compile`."""
    if depth == 0:
        return None
    meant = origin(here, named)
    if meant is None:
        definition = _class_named(here, named)
        return None if definition is None else _definition_is_module(here, definition, depth)
    package, _, name = meant.rpartition(".")
    if package == "torch.nn" or package.startswith(("torch.nn.modules", "torch.nn.parallel")):
        return (name[:1].isupper() and name not in ("Parameter", "Buffer")) or None
    if name in ("LightningModule",) or meant.startswith("torchvision.models."):
        return True
    other = _imported(here, meant)
    if other is None:
        return None
    there, definition = other
    return _definition_is_module(there, definition, depth - 1)


def class_definition(here: View, named: ast.expr) -> tuple[View, ast.ClassDef] | None:
    """Return the class that a name means and its file, where it is one of those that are known."""
    meant = origin(here, named)
    if meant is not None:
        return _imported(here, meant)
    definition = _class_named(here, named)
    return None if definition is None else (here, definition)


def _class_named(here: View, named: ast.expr) -> ast.ClassDef | None:
    if not isinstance(named, ast.Name):
        return None
    found = [one for one in here.nodes if isinstance(one, ast.ClassDef) and one.name == named.id]
    return found[0] if len(found) == 1 else None


def _definition_is_module(here: View, definition: ast.ClassDef, depth: int) -> bool | None:
    if any(isinstance(one, FUNCTIONS) and one.name == "compile" for one in definition.body):
        return False
    if not definition.bases:
        return False
    bases = [class_is_module(here, base, depth - 1) for base in definition.bases]
    if True in bases:
        return True if None not in bases and False not in bases else None
    return False if all(base is False for base in bases) else None


def _imported(here: View, meant: str) -> tuple[View, ast.ClassDef] | None:
    """Return the class that an import leads to, where its file is among those that are known."""
    module, _, name = meant.rpartition(".")
    source = module_source(here, module)
    if source is None:
        return None
    for statement in source.tree.body:
        if isinstance(statement, ast.ClassDef) and top_level_name(statement) == name:
            return view(source, here.files), statement
    return None


def _variable_is_module(
    here: View, expression: ast.Name | ast.Attribute, depth: int
) -> bool | None:
    if isinstance(expression, ast.Name) and expression.id == "self":
        owner = class_of(here, expression)
        return None if owner is None else _definition_is_module(here, owner, depth)
    imported = isinstance(expression, ast.Attribute) and origin(here, expression) is not None
    if imported and here.names.binding(_root_of(expression), expression):
        return False
    answers = {
        answer
        for store in uses(here, expression)
        if not isinstance(store.ctx, ast.Load) and not _rebinds(here, store)
        for answer in [_stored(here, store, depth - 1)]
    }
    if isinstance(expression, ast.Name):
        answers |= _parameter(here, expression, depth)
        if is_function(here, expression):
            answers.add(False)
    elif not answers:
        answers = {
            _stored(there, store, depth - 1)
            for there, store in _stores_in_class(here, expression, depth)
        }
    return answers.pop() if len(answers) == 1 else None


def _stores_in_class(
    here: View, expression: ast.Attribute, depth: int
) -> Iterator[tuple[View, ast.expr]]:
    """Yield where the class of an attribute's owner stores it: `self.layers` for `model.layers`."""
    if depth <= 0 or spelled(expression) is None:
        return
    found = [
        class_definition(here, named)
        for named in _classes_of(here, expression.value)
        if not (isinstance(named, ast.Name) and named.id == "self")
    ]
    if len(found) != 1 or found[0] is None:
        return
    there, definition = found[0]
    for node in walk(definition):
        if (
            isinstance(node, ast.Attribute)
            and spelled(node) == f"self.{expression.attr}"
            and isinstance(node.ctx, ast.Store)
        ):
            yield there, node


def _classes_of(here: View, owner: ast.expr) -> Iterator[ast.expr]:
    """Yield what a variable is made by, and what its parameter is annotated with."""
    for store in uses(here, owner):
        holder = here.above[store]
        if isinstance(holder, ast.Assign) and store in holder.targets:
            value = holder.value
            while (
                isinstance(value, ast.Call)
                and isinstance(value.func, ast.Attribute)
                and value.func.attr in CHAINABLE
            ):
                value = value.func.value
            yield value.func if isinstance(value, ast.Call) else value
    if isinstance(owner, ast.Name):
        home = variable_scope(here, owner)
        for node in ast.walk(home.args) if isinstance(home, FUNCTIONS) else ():
            if isinstance(node, ast.arg) and node.arg == owner.id and node.annotation:
                yield node.annotation


def _root_of(expression: ast.expr) -> str:
    while isinstance(expression, ast.Attribute):
        expression = expression.value
    return expression.id if isinstance(expression, ast.Name) else ""


def _rebinds(here: View, store: ast.expr) -> bool:
    """Tell whether an assignment stores the same object again: `m = torch.compile(m).eval()`."""
    holder = here.above[store]
    value = holder.value if isinstance(holder, ast.Assign | ast.AnnAssign) else None
    while isinstance(value, ast.Call):
        if isinstance(value.func, ast.Attribute) and value.func.attr in CHAINABLE:
            value = value.func.value
        elif value.args and origin(here, value.func) == "torch.compile":
            value = value.args[0]
        else:
            return False
    return value is not None and spelled(value) == spelled(store)


def _stored(here: View, store: ast.expr, depth: int) -> bool | None:
    """Tell whether what one assignment stores in a variable is a module."""
    holder = here.above[store]
    if isinstance(holder, ast.Assign | ast.AnnAssign | ast.NamedExpr) and holder.value is not None:
        if isinstance(holder, ast.AnnAssign) and _annotated(here, holder.annotation):
            return True
        return is_module(here, holder.value, depth)
    if isinstance(holder, ast.Tuple | ast.List):
        assign = here.above[holder]
        if isinstance(assign, ast.Assign) and isinstance(assign.value, ast.Tuple | ast.List):
            index = holder.elts.index(store)
            if len(assign.value.elts) == len(holder.elts):
                return is_module(here, assign.value.elts[index], depth)
        if isinstance(assign, ast.For | ast.comprehension):
            return _pair_is_module(here, assign.iter, holder.elts.index(store), depth)
        return None
    if isinstance(holder, ast.For | ast.comprehension):
        return _element_is_module(here, holder.iter, depth)
    return None


def _parameter(here: View, name: ast.Name, depth: int) -> set[bool | None]:
    home = variable_scope(here, name)
    if not isinstance(home, (*FUNCTIONS, ast.Lambda)):
        return set()
    found: set[bool | None] = set()
    for node in ast.walk(home.args):
        if isinstance(node, ast.arg) and node.arg == name.id:
            found.add(True if node.annotation and _annotated(here, node.annotation) else None)
    return found


def _annotated(here: View, annotation: ast.expr) -> bool:
    """Tell whether an annotation says nn.Module, or a class of modules."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value in ("nn.Module", "torch.nn.Module")
    return bool(class_is_module(here, annotation))


def _pair_is_module(here: View, iterated: ast.expr, index: int, depth: int) -> bool | None:
    """Tell whether the name at `index` of a pair that a loop unpacks is a module."""
    if not isinstance(iterated, ast.Call):
        return None
    if isinstance(iterated.func, ast.Name) and iterated.func.id in ("list", "tuple", "reversed"):
        return _pair_is_module(here, iterated.args[0], index, depth) if iterated.args else None
    if isinstance(iterated.func, ast.Name) and iterated.func.id == "enumerate" and iterated.args:
        return _element_is_module(here, iterated.args[0], depth) if index == 1 else False
    if isinstance(iterated.func, ast.Name) and iterated.func.id == "zip":
        return (
            _element_is_module(here, iterated.args[index], depth)
            if index < len(iterated.args)
            else None
        )
    if isinstance(iterated.func, ast.Attribute):
        if iterated.func.attr in ("named_children", "named_modules"):
            return index == 1
        if iterated.func.attr == "items":
            return _element_is_module(here, iterated.func.value, depth) if index == 1 else False
    return None


def _element_is_module(here: View, container: ast.expr, depth: int) -> bool | None:
    """Tell whether every element of a container is a module."""
    if depth <= 0:
        return None
    if isinstance(container, ast.Tuple | ast.List | ast.Set):
        answers = {is_module(here, one, depth - 1) for one in container.elts}
        return answers.pop() if len(answers) == 1 else None
    if isinstance(container, ast.Dict):
        answers = {is_module(here, one, depth - 1) for one in container.values}
        return answers.pop() if len(answers) == 1 else None
    if isinstance(container, ast.ListComp | ast.GeneratorExp | ast.SetComp):
        return is_module(here, container.elt, depth - 1)
    if isinstance(container, ast.DictComp):
        return is_module(here, container.value, depth - 1)
    if isinstance(container, ast.Call):
        meant = origin(here, container.func)
        if meant in ("torch.nn.ModuleList", "torch.nn.ModuleDict", "torch.nn.Sequential"):
            return True
        if isinstance(container.func, ast.Name) and container.func.id in (
            "list",
            "tuple",
            "reversed",
        ):
            return (
                _element_is_module(here, container.args[0], depth - 1) if container.args else None
            )
        if isinstance(container.func, ast.Attribute):
            if container.func.attr in ("children", "modules"):
                return True
            if container.func.attr == "values":
                return _element_is_module(here, container.func.value, depth - 1)
        return None
    if isinstance(container, ast.Name | ast.Attribute):
        answers = set()
        for store in uses(here, container):
            holder = here.above[store]
            if isinstance(store.ctx, ast.Load):
                continue
            if isinstance(holder, ast.Assign | ast.AnnAssign) and holder.value is not None:
                answers.add(_element_is_module(here, holder.value, depth - 1))
            else:
                answers.add(None)
        if isinstance(container, ast.Attribute) and not answers:
            answers = {
                _element_is_module(there, holder.value, depth - 1)
                for there, store in _stores_in_class(here, container, depth)
                for holder in [there.above[store]]
                if isinstance(holder, ast.Assign | ast.AnnAssign) and holder.value is not None
            }
        return answers.pop() if len(answers) == 1 else None
    return None


def loops_around(here: View, node: ast.AST) -> list[ast.For | ast.AsyncFor | ast.comprehension]:
    """Return the loops and comprehension clauses whose variables a node can read."""
    found: list[ast.For | ast.AsyncFor | ast.comprehension] = []
    for one in ancestors(here, node):
        if isinstance(one, COMPREHENSIONS):
            found += reversed(one.generators)
        elif isinstance(one, ast.For | ast.AsyncFor):
            found.append(one)
        elif isinstance(one, (*FUNCTIONS, ast.ClassDef)):
            break
    return found
