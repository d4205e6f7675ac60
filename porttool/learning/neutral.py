"""Is a rewrite neutral: does it give the same result on an object that is not wrapped?

A template is folded under the assumption that nothing in it is wrapped: `getattr(x, "_orig_mod",
x)` is x, no key starts with the prefix, and a helper's body stands for its call. What folds back to
the pattern is neutral. The contents of mappings are compared, not their types: a dict with the same
items counts as the same result.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Mapping, Sequence

from porttool.learning.lesson import (
    Helper,
    Wrapper,
    is_name_of,
)
from porttool.learning.rewriting import (
    called_names,
    is_pure,
    metavariable,
    pattern_expression,
)

Definitions = Mapping[str, ast.stmt]
_MAPPINGS = {"dict", "OrderedDict", "collections.OrderedDict"}
_PARTIALS = {"partial", "functools.partial"}
# Decorators under which a call still does what the function's body says.
_TRANSPARENT = {
    *("staticmethod", "classmethod", "final", "typing.final", "override", "typing.override"),
    *("no_type_check", "typing.no_type_check", "no_grad", "torch.no_grad"),
}
_DEPTH = 8


def named_helpers(helpers: Iterable[Helper], template: str) -> dict[str, ast.stmt]:
    """Return the definitions of helpers by every name that a template may call them by.

    A method is called behind `self.` too, and a helper of another file through its module.
    """
    found: dict[str, ast.stmt] = {}
    called = called_names(pattern_expression(template))
    for helper in helpers:
        definition = ast.parse(helper.text).body[0]
        owner, _, method = helper.name.rpartition(".")
        own = [f"self.{method}", f"cls.{method}"] if owner else []
        full = [name for name in called if is_name_of(helper, name)]
        found |= dict.fromkeys((helper.name, *own, *full), definition)
    return found


def is_neutral(before: str, after: str, definitions: Definitions, wrapper: Wrapper) -> bool:
    """Tell whether `after` folds to `before`; `definitions` holds helpers and constants by name."""
    folded = _fold(pattern_expression(after), {}, (definitions, wrapper, _DEPTH))
    return _text(folded) == _text(pattern_expression(before))


def is_neutral_dropped(before: str, after: str, definitions: Definitions, wrapper: Wrapper) -> bool:
    """Tell whether `after` does just what `before` does, where both throw their value away."""
    world = definitions, wrapper, _DEPTH
    folded = _fold(pattern_expression(after), {}, world)
    wanted = _text(pattern_expression(before))
    helper = _helper_of(folded, world) if isinstance(folded, ast.Call) else None
    if helper is None or not isinstance(folded, ast.Call):
        return _text(folded) == wanted
    values = _bound(helper, folded)
    done = _effects(helper.body, values, world) if values is not None else None
    return done is not None and [_text(one) for one in done] == [wanted]


def _text(node: ast.AST) -> str:
    return ast.unparse(node)


_World = tuple[Definitions, Wrapper, int]
_Values = Mapping[str, ast.expr]


def _fold(node: ast.expr, values: _Values, world: _World) -> ast.expr:
    """Return an expression with known names replaced and what is known of plain objects applied."""
    if isinstance(node, ast.Name) and node.id in values:
        return values[node.id]
    if isinstance(node, ast.Name) and not metavariable(node):
        constant = world[0].get(node.id)
        if isinstance(constant, ast.Assign) and isinstance(constant.value, ast.Constant):
            return constant.value
    shallow = copy.copy(node)
    hidden = _comprehension_names(node)
    visible = {name: value for name, value in values.items() if name not in hidden}
    for name, value in ast.iter_fields(node):
        setattr(shallow, name, _fold_field(value, visible, world))
    return _simplify(shallow, world)


def _fold_field(value: object, values: _Values, world: _World) -> object:
    if isinstance(value, ast.expr):
        return _fold(value, values, world)
    if isinstance(value, list):
        return [_fold_field(item, values, world) for item in value]
    if isinstance(value, ast.keyword | ast.comprehension):
        inside = copy.copy(value)
        for name, part in ast.iter_fields(value):
            setattr(inside, name, _fold_field(part, values, world))
        return inside
    return value


def _comprehension_names(node: ast.AST) -> set[str]:
    generators = getattr(node, "generators", [])
    return {
        name.id
        for generator in generators
        for name in ast.walk(generator.target)
        if isinstance(name, ast.Name)
    }


def _simplify(node: ast.expr, world: _World) -> ast.expr:
    if isinstance(node, ast.IfExp):
        known = truth(node.test, world[1])
        return node if known is None else node.body if known else node.orelse
    if isinstance(node, ast.DictComp):
        source = _items_of(node.generators)
        if source and _is_pair(node.generators[0].target, node.key, node.value):
            return source
    if isinstance(node, ast.Call):
        return _simplify_call(node, world)
    return node


def _simplify_call(node: ast.Call, world: _World) -> ast.expr:
    definitions, wrapper, depth = world
    node = _unpacked(node)
    function = _text(node.func)
    args = node.args
    if function == "getattr" and len(args) == 3 and _is_text(args[1], wrapper.unwrap):
        return args[2]
    if isinstance(node.func, ast.Attribute):
        plain = node.func.value
        if (
            node.func.attr == "removeprefix"
            and len(args) == 1
            and _is_text(args[0], wrapper.prefix)
        ):
            return plain
        replaces = node.func.attr == "replace" and len(args) >= 2 and _is_text(args[1], "")
        if replaces and _is_text(args[0], wrapper.prefix):
            return plain
    if function in _MAPPINGS and len(args) == 1 and not node.keywords:
        inner = args[0]
        if isinstance(inner, ast.GeneratorExp | ast.ListComp):
            source = _items_of(inner.generators)
            pair = inner.elt.elts if isinstance(inner.elt, ast.Tuple) else []
            if source and len(pair) == 2 and _is_pair(inner.generators[0].target, *pair):
                return source
        elif isinstance(inner, ast.Call):
            return _items_source(inner) or inner
    made = definitions.get(function)
    value = made.value if isinstance(made, ast.Assign | ast.AnnAssign) else None
    if isinstance(value, ast.Call) and _text(value.func) in _PARTIALS and value.args and depth:
        given = {word.arg: word for word in (*value.keywords, *node.keywords)}
        call = ast.Call(value.args[0], [*value.args[1:], *args], [*given.values()])
        return _simplify(call, (definitions, wrapper, depth - 1))
    helper = _helper_of(node, world)
    if helper is not None and depth > 0:
        return _returned(helper, node, (definitions, wrapper, depth - 1)) or node
    return node


def _unpacked(call: ast.Call) -> ast.Call:
    """Return a call with what stars unpack in its place, where that is written out."""
    args: list[ast.expr] = []
    for one in call.args:
        known = isinstance(one, ast.Starred) and isinstance(one.value, ast.Tuple)
        args += one.value.elts if known else [one]  # type: ignore[attr-defined]
    words: list[ast.keyword] = []
    for word in call.keywords:
        value = word.value
        if word.arg is None and isinstance(value, ast.Dict):
            names = [key.value for key in value.keys if isinstance(key, ast.Constant)]
            if len(names) == len(value.keys):
                pairs = zip(names, value.values, strict=True)
                words += [ast.keyword(str(name), one) for name, one in pairs]
                continue
        words.append(word)
    return ast.Call(call.func, args, words)


def _helper_of(call: ast.Call, world: _World) -> ast.FunctionDef | None:
    function = _text(call.func)
    name = function.rpartition(".")[2] if function.startswith(("self.", "cls.")) else function
    helper = world[0].get(function, world[0].get(name))
    value = helper.value if isinstance(helper, ast.Assign | ast.AnnAssign) else None
    if isinstance(value, ast.Lambda):
        body: list[ast.stmt] = [ast.Return(value.body)]
        return ast.FunctionDef(name, value.args, body, decorator_list=[])
    if not isinstance(helper, ast.FunctionDef):
        return None
    hands_on = (ast.unparse(getattr(one, "func", one)) for one in helper.decorator_list)
    return helper if all(name in _TRANSPARENT for name in hands_on) else None


def _returned(helper: ast.FunctionDef, call: ast.Call, world: _World) -> ast.expr | None:
    """Return what a helper returns for a call, or None when its body is more than is understood."""
    values = _bound(helper, call)
    return _run(helper.body, values, world)[0] if values is not None else None


def _bound(helper: ast.FunctionDef, call: ast.Call) -> dict[str, ast.expr] | None:
    """Return what a helper's parameters stand for in a call; None where that cannot be told."""
    names = [argument.arg for argument in (*helper.args.posonlyargs, *helper.args.args)]
    if names[:1] in (["self"], ["cls"]) and _text(call.func).startswith(("self.", "cls.")):
        names = names[1:]
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        return None
    values: dict[str, ast.expr] = {}
    defaults = helper.args.defaults
    for name, default in zip(names[len(names) - len(defaults) :], defaults, strict=False):
        values[name] = default
    for argument, value in zip(helper.args.kwonlyargs, helper.args.kw_defaults, strict=True):
        if value is not None:
            values[argument.arg] = value
    more = call.args[len(names) :]
    if more and helper.args.vararg is None:
        return None
    if helper.args.vararg is not None:
        values[helper.args.vararg.arg] = ast.Tuple([*more], ast.Load())
    values.update(zip(names, call.args, strict=False))
    known = {*names, *(argument.arg for argument in helper.args.kwonlyargs)}
    rest: dict[str, ast.expr] = {}
    for keyword in call.keywords:
        if keyword.arg is None or (keyword.arg not in known and helper.args.kwarg is None):
            return None
        (values if keyword.arg in known else rest)[keyword.arg] = keyword.value
    if helper.args.kwarg is not None:
        keys: list[ast.expr | None] = [ast.Constant(name) for name in rest]
        values[helper.args.kwarg.arg] = ast.Dict(keys, [*rest.values()])
    return values


def _effects(
    body: Sequence[ast.stmt], values: dict[str, ast.expr], world: _World
) -> list[ast.expr] | None:
    """Return what straight-line statements evaluate that may do something, in this order.

    None when that is more than is understood. Changes `values` as assignments do.
    """
    done: list[ast.expr] = []
    for statement in _taken(body, values, world):
        target, value = _assignment(statement)
        if isinstance(statement, ast.Expr | ast.Return):
            value = statement.value
        elif not isinstance(statement, ast.Pass) and (target is None or value is None):
            return None
        if value is not None:
            value = _fold(value, values, world)
            done += [] if is_pure(value) else [value]
        if target is not None and value is not None:
            if not is_pure(value):
                value = ast.Name(f"<what {target} is>", ast.Load())
            values[target] = value
        if isinstance(statement, ast.Return):
            break
    return done


def _run(
    body: Sequence[ast.stmt], values: dict[str, ast.expr], world: _World
) -> tuple[ast.expr | None, bool]:
    """Run straight-line statements; returns (the returned expression, whether all was understood).

    Changes `values` as assignments do.
    """
    for statement in body:
        if isinstance(statement, ast.Return):
            return (_fold(statement.value, values, world) if statement.value else None), True
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue
        if isinstance(statement, ast.Pass):
            continue
        target, value = _assignment(statement)
        if target is not None and value is not None:
            values[target] = _fold(value, values, world)
            continue
        if isinstance(statement, ast.If | ast.While):
            known = truth(_fold(statement.test, values, world), world[1])
            if known is None or (known and isinstance(statement, ast.While)):
                return None, False
            branch = statement.body if known else statement.orelse
            returned, understood = _run(branch, values, world)
            if returned is not None or not understood:
                return returned, understood
            continue
        if not (isinstance(statement, ast.For) and _copies_items(statement, values, world)):
            return None, False
    return None, True


def _assignment(statement: ast.stmt) -> tuple[str | None, ast.expr | None]:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        return (target.id, statement.value) if isinstance(target, ast.Name) else (None, None)
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return statement.target.id, statement.value
    return None, None


def _copies_items(loop: ast.For, values: dict[str, ast.expr], world: _World) -> bool:
    """Recognise a loop that fills an empty mapping with the items of another, and bind it so."""
    source = _items_source(_fold(loop.iter, values, world))
    target = loop.target
    inside = {name: value for name, value in values.items() if name not in _names(target)}
    body = _taken(loop.body, inside, world)
    if loop.orelse or (body and source is None) or not isinstance(target, ast.Tuple | ast.Name):
        return False
    for statement in body:
        store = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if isinstance(store, ast.Subscript) and isinstance(store.value, ast.Name):
            filled = values.get(store.value.id)
            value = _fold(statement.value, inside, world)  # type: ignore[attr-defined]
            key = _fold(store.slice, inside, world)
            if filled is None or _text(filled) not in ("{}", "dict()", "OrderedDict()"):
                return False
            if statement is not body[-1] or not _is_pair(target, key, value) or not source:
                return False
            values[store.value.id] = source
            return True
        returned, understood = _run([statement], inside, world)
        if returned is not None or not understood:
            return False
    # Nothing is left of the body: the loop only touched keys that carry the prefix.
    return not body


def _taken(body: Sequence[ast.stmt], values: _Values, world: _World) -> list[ast.stmt]:
    """Put the branch that a plain object takes in place of every test that is decided."""
    taken: list[ast.stmt] = []
    for statement in body:
        known = None
        if isinstance(statement, ast.If):
            known = truth(_fold(statement.test, values, world), world[1])
        if isinstance(statement, ast.If) and known is not None:
            taken += _taken(statement.body if known else statement.orelse, values, world)
        else:
            taken.append(statement)
    return taken


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _items_of(generators: Sequence[ast.comprehension]) -> ast.expr | None:
    if len(generators) != 1 or generators[0].ifs:
        return None
    return _items_source(generators[0].iter)


def _items_source(node: ast.expr) -> ast.expr | None:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
        return node.func.value if node.func.attr == "items" else None
    return None


def _is_pair(target: ast.expr, key: ast.expr, value: ast.expr) -> bool:
    """Tell whether `key, value` are the very names that `target` binds, in that order."""
    if not isinstance(target, ast.Tuple) or len(target.elts) != 2:
        return False
    return [_text(part) for part in target.elts] == [_text(key), _text(value)]


def truth(test: ast.expr, wrapper: Wrapper) -> bool | None:
    """Return what a test says of a plain object; None when that is not known."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        known = truth(test.operand, wrapper)
        return None if known is None else not known
    if isinstance(test, ast.BoolOp):
        parts = [truth(value, wrapper) for value in test.values]
        deciding = isinstance(test.op, ast.Or)
        if deciding in parts:
            return deciding
        return None if None in parts else not deciding
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.In):
        texts = (wrapper.prefix, wrapper.unwrap)
        return False if any(text and _is_text(test.left, text) for text in texts) else None
    if isinstance(test, ast.Call):
        function = _text(test.func)
        if function == "hasattr" and len(test.args) == 2:
            return False if _is_text(test.args[1], wrapper.unwrap) else None
        if function == "isinstance" and len(test.args) == 2:
            return False if _names_types(test.args[1], wrapper) else None
        if function == "any" and len(test.args) == 1:
            parts_of = test.args[0]
            if isinstance(parts_of, ast.GeneratorExp | ast.ListComp):
                return False if truth(parts_of.elt, wrapper) is False else None
        if function.endswith(".startswith") and len(test.args) == 1:
            return False if wrapper.prefix and _is_text(test.args[0], wrapper.prefix) else None
    if isinstance(test, ast.Constant):
        return bool(test.value)
    return None


def _names_types(node: ast.expr, wrapper: Wrapper) -> bool:
    """Tell whether the second argument of `isinstance` names nothing but the wrapper's classes."""
    if isinstance(node, ast.Tuple):
        return bool(node.elts) and all(_names_types(part, wrapper) for part in node.elts)
    return _text(node).rpartition(".")[2] in wrapper.types


def _is_text(node: ast.expr, text: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == text
