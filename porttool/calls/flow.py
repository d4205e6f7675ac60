"""Where the object that a site makes goes, and who else holds what it wraps."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Literal

from porttool.calls.kinds import CHAINABLE
from porttool.calls.neighbours import mentioned_elsewhere
from porttool.calls.values import Site
from porttool.calls.view import (
    COMPREHENSIONS,
    FUNCTIONS,
    View,
    ancestors,
    function_of,
    is_after,
    origin,
    scope_of,
    spelled,
    statement_of,
    uses,
)
from porttool.frozen import dataclass
from porttool.source.nodes import walk

# Functions that read an object and neither run nor keep it.
_LOOKS = {"print", "repr", "str", "id", "type", "isinstance", "len", "hash", "save", "deepcopy"}
Fate = Literal["bound", "returned", "handed on", "element", "discarded"]


@dataclass(frozen=True)
class Result:
    """`top` is the whole expression that gives the object; `targets` are what it is bound to."""

    top: ast.expr
    targets: tuple[ast.expr, ...]
    fate: Fate


def result_of(here: View, site: Site) -> Result:
    """Return where the object that a site makes goes at first."""
    top: ast.expr = site.whole
    named: list[ast.expr] = []
    if site.kind == "optimize" and site.target is not None:
        outer = here.above[top]
        assert isinstance(outer, ast.expr)
        top = outer
    while True:
        above = here.above[top]
        if isinstance(above, ast.Attribute) and above.attr in CHAINABLE:
            called = here.above[above]
            if not (isinstance(called, ast.Call) and called.func is above):
                break
            top = called
        elif isinstance(above, ast.NamedExpr):
            named.append(above.target)
            top = above
        elif isinstance(above, ast.IfExp) and top is not above.test:
            top = above
        else:
            break
    targets, fate = _bound(here, top)
    if named and fate in ("handed on", "discarded"):
        fate = "bound"
    return Result(top, (*named, *targets), fate)


def _bound(here: View, top: ast.expr) -> tuple[list[ast.expr], Fate]:
    above = here.above[top]
    if isinstance(above, ast.Assign):
        return list(above.targets), "bound"
    if isinstance(above, ast.AnnAssign):
        return [above.target], "bound"
    if isinstance(above, ast.Expr):
        return [], "discarded"
    if isinstance(above, ast.Return | ast.Yield | ast.Lambda):
        return [], "returned"
    if isinstance(above, ast.Tuple | ast.List):
        assign = here.above[above]
        if isinstance(assign, ast.Assign) and len(assign.targets) == 1:
            target = assign.targets[0]
            if isinstance(target, ast.Tuple | ast.List) and len(target.elts) == len(above.elts):
                return [target.elts[above.elts.index(top)]], "bound"
        if isinstance(assign, ast.Return):
            return [], "returned"
        return [], "element"
    if isinstance(above, (ast.Dict, ast.Set, *COMPREHENSIONS)):
        return [], "element"
    if isinstance(above, ast.Call) and len(above.args) == 3 and top is above.args[2]:
        owner, name = above.args[0], above.args[1]
        if (
            isinstance(above.func, ast.Name)
            and above.func.id == "setattr"
            and isinstance(name, ast.Constant)
            and isinstance(name.value, str)
        ):
            stored = ast.Attribute(value=owner, attr=name.value, ctx=ast.Store())
            return [stored], "bound"
    return [], "handed on"


def loads(here: View, expressions: Iterable[ast.expr]) -> Iterator[ast.expr]:
    """Yield every read of the same variables or attributes."""
    for expression in expressions:
        if expression not in here.above:
            continue  # built from `setattr(owner, "name", ...)`
        for use in uses(here, expression):
            if isinstance(use.ctx, ast.Load):
                yield use


def attribute_loads(here: View, targets: Iterable[ast.expr]) -> Iterator[ast.expr]:
    """Yield every read of an attribute by the name of one that is bound, of whatever object."""
    names = {target.attr for target in targets if isinstance(target, ast.Attribute)}
    for node in here.nodes:
        if (
            isinstance(node, ast.Attribute)
            and node.attr in names
            and isinstance(node.ctx, ast.Load)
        ):
            yield node


def only_called(here: View, targets: Iterable[ast.expr], site: Site) -> bool:
    """Tell whether whatever is bound is only ever called, so that a function may stand for it."""
    for use in [*loads(here, targets), *attribute_loads(here, targets)]:
        above = here.above[use]
        if _within(here, use, site.target) or earlier(here, use, site):
            continue
        if not (isinstance(above, ast.Call) and above.func is use):
            return False
    return all(isinstance(target, ast.Name | ast.Attribute) for target in targets)


def wrapped_variable(site: Site) -> ast.expr | None:
    """Return the name or attribute that holds what a site wraps, through `.to(device)` and such."""
    target = site.target
    while (
        isinstance(target, ast.Call)
        and isinstance(target.func, ast.Attribute)
        and target.func.attr in CHAINABLE
    ):
        target = target.func.value
    return target if target is not None and spelled(target) is not None else None


def raw_handles(here: View, raw: ast.expr, result: Result) -> list[ast.expr]:
    """Return what else holds the wrapped object: the variable, and those assigned from it."""
    held = {spelled(target) for target in result.targets}
    found = [] if spelled(raw) in held else [raw]
    for use in uses(here, raw):
        above = here.above[use]
        if isinstance(above, ast.Assign) and isinstance(use.ctx, ast.Load):
            found += [one for one in above.targets if spelled(one) and spelled(one) not in held]
        elif isinstance(above, ast.Assign) and spelled(raw) not in held:
            # `self.core = core = Net()`, or `core = self.core`: two names of one object.
            others = [one for one in above.targets if one is not use and spelled(one)]
            found += [one for one in others if spelled(one) not in held]
            if spelled(above.value) and spelled(above.value) not in held:
                found.append(above.value)
    unique = {spelled(one): one for one in found}
    return list(unique.values())


def used_raw(here: View, handles: Iterable[ast.expr], site: Site, sites: Iterable[Site]) -> bool:
    """Tell whether some use of the unwrapped object would be compiled too if the object were.

    A call, or handing it to somebody who may call it; reading its parameters or keys is neither.
    What runs before the site, once, is not touched by it.
    """
    wrapped = {id(one.target) for one in sites}
    for use in loads(here, handles):
        above = here.above[use]
        if _within(here, use, site.target) or id(use) in wrapped:
            continue
        if isinstance(above, ast.Attribute) and above.attr not in ("forward", "__call__"):
            continue
        if isinstance(above, ast.Assign) and _falls_back(here, above, site):
            return True
        if isinstance(above, ast.Assign | ast.Compare | ast.If | ast.Assert):
            continue
        if _once_before(here, use, site) or _only_read(here, use):
            continue
        return True
    return False


def _only_read(here: View, use: ast.expr) -> bool:
    """Tell whether an object goes to a function of the file that only reads attributes of it."""
    call = here.above[use]
    if (
        not isinstance(call, ast.Call)
        or use not in call.args
        or not isinstance(call.func, ast.Name)
    ):
        return False
    found = [
        node for node in here.nodes if isinstance(node, FUNCTIONS) and node.name == call.func.id
    ]
    names = [one.arg for node in found for one in (*node.args.posonlyargs, *node.args.args)]
    place = call.args.index(use)
    if len(found) != 1 or place >= len(names):
        return False
    return all(
        isinstance(above, ast.Attribute) and above.attr not in ("forward", "__call__")
        for node in walk(found[0])
        if isinstance(node, ast.Name) and node.id == names[place]
        for above in [here.above[node]]
    )


def _falls_back(here: View, assign: ast.Assign, site: Site) -> bool:
    """Tell whether the unwrapped object takes the place of one whose first call fails."""
    handler = here.above[assign]
    tried = here.above[handler]
    targets = result_of(here, site).targets
    if not isinstance(handler, ast.ExceptHandler) or tried not in ancestors(here, site.whole):
        return False
    called = any(
        getattr(here.above[use], "func", None) is use and tried in ancestors(here, use)
        for use in loads(here, targets)
    )
    return called and bool({*map(spelled, assign.targets)} & {*map(spelled, targets)})


def called_raw(here: View, handles: Iterable[ast.expr], site: Site, result: Result) -> bool:
    """Tell whether the unwrapped object is called, or kept beside the wrapped one in a container.

    What runs before the site, once, does not count.
    """
    beside = here.above[result.top] if result.fate == "element" else None
    return any(
        (getattr(here.above[use], "func", None) is use or here.above[use] is beside)
        and not _within(here, use, site.target)
        and not _once_before(here, use, site)
        for use in loads(here, handles)
    )


def _within(here: View, node: ast.AST, outer: ast.AST | None) -> bool:
    return outer is not None and (node is outer or outer in ancestors(here, node))


def _once_before(here: View, use: ast.AST, site: Site) -> bool:
    """Tell whether whoever is given an object, or calls it, is done with it when the site runs."""
    call = here.above[use]
    if not isinstance(call, ast.Call):
        return False
    if call.func is not use and (spelled(call.func) or "?").rpartition(".")[2] in _LOOKS:
        return True
    # What stores it (`Trainer(net)`) may call it later; a function (`init_weights(net)`) is over.
    stores = call.func is not use and not _is_function(here, call)
    return earlier(here, use, site) and not stores


def _is_function(here: View, call: ast.Call) -> bool:
    """Tell whether what is called is named as a function is, and keeps nothing in an object."""
    name = (spelled(call.func) or "").rpartition(".")[2]
    holder = origin(here, call.func.value) if isinstance(call.func, ast.Attribute) else ""
    optimizer = (origin(here, call.func) or "").startswith("torch.optim.")
    return optimizer or (name != "" and name == name.lower() and holder is not None)


def earlier(here: View, use: ast.AST, site: Site) -> bool:
    """Tell whether a use is over when the site runs: in the same scope, and in no loop."""
    looped = any(
        isinstance(one, ast.For | ast.While | ast.AsyncFor) for one in ancestors(here, site.whole)
    )
    same = scope_of(here, use) is scope_of(here, site.whole)
    return same and not looped and is_after(site.whole, use)


def other_wraps(here: View, raw: ast.expr, site: Site, sites: Iterable[Site]) -> list[Site]:
    """Return the other sites that wrap the same variable."""
    same = {id(use) for use in uses(here, raw)}
    return [
        one
        for one in sites
        if one is not site
        and one.kind in ("call", "optimize", "method")
        and (variable := wrapped_variable(one)) is not None
        and id(variable) in same
    ]


def exclusive(here: View, first: ast.AST, second: ast.AST) -> bool:
    """Tell whether two places stand in different branches of one condition."""
    chains = []
    for node in (first, second):
        chain = [node, *ancestors(here, node)]
        chains.append({id(one): below for below, one in pairwise(chain)})
    for key, below in chains[0].items():
        other = chains[1].get(key)
        if other is None or other is below:
            continue
        holder = here.above[below]
        if isinstance(holder, ast.If) and (below in holder.body) is not (other in holder.body):
            return True
        tried = isinstance(holder, ast.Try) and below in holder.body
        return isinstance(holder, ast.IfExp) or (tried and isinstance(other, ast.ExceptHandler))
    return False


def stays_local(here: View, site: Site, result: Result) -> bool:
    """Tell whether nothing in sight shows the wrapper: the object is called, returned, no more."""
    function = function_of(here, site.whole)
    if function is None or result.fate not in ("bound", "returned"):
        return False
    if any(isinstance(one, ast.ClassDef) for one in _between(here, site.whole, function)):
        return False
    if _result_used(here, function):
        return False
    for target in result.targets:
        if not isinstance(target, ast.Name) or not _is_local(here, target, function):
            return False
        for use in loads(here, [target]):
            above = here.above[use]
            if isinstance(above, ast.Return) or (isinstance(above, ast.Call) and above.func is use):
                continue
            if _within(here, use, site.target):
                continue
            if (
                isinstance(above, ast.Attribute)
                and above.attr in (CHAINABLE | {"parameters", "zero_grad", "training"})
                and not isinstance(here.above[here.above[above]], ast.Assign)
            ):
                continue
            return False
    return True


def _between(here: View, node: ast.AST, end: ast.AST) -> Iterator[ast.AST]:
    for one in ancestors(here, node):
        if one is end:
            return
        yield one


def _is_local(here: View, name: ast.Name, function: ast.AST) -> bool:
    return not any(
        isinstance(node, ast.Global | ast.Nonlocal) and name.id in node.names
        for node in ast.walk(function)
    )


def _result_used(here: View, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Tell whether something that is read here does more with a function than call it."""
    kind = ast.Attribute if isinstance(here.above[function], ast.ClassDef) else ast.Name
    for node in here.nodes:
        if not isinstance(node, kind):
            continue
        word = node.id if isinstance(node, ast.Name) else node.attr
        if word != function.name or not isinstance(getattr(node, "ctx", None), ast.Load):
            continue
        call = here.above[node]
        if not (isinstance(call, ast.Call) and call.func is node):
            return True
        if not isinstance(here.above[call], ast.Expr):
            return True
    return mentioned_elsewhere(here, function.name)


def straight_line(here: View, node: ast.AST) -> bool:
    """Tell whether a statement is one of its function's or module's own, in no branch or loop."""
    return isinstance(here.above[statement_of(here, node)], (ast.Module, *FUNCTIONS))
