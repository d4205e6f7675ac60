"""How a site is put behind the switch: what it did until now stays, unless that leaks in sight.

**call**: the wrapper stays what it was, for an object that only a function sees. **in place**: the
module stays the same object and only its calls are compiled, so that its keys keep their names.
**handle**: the module stays as it is, and a compiled way to call it has a name of its own.
**lazy**: a decorator decides when the function is called. **guard**: a method is replaced only when
the switch is on. **owner**: `m.forward = torch.compile(m.forward)` compiles calls of `m`.
**unregistered**: a second name of a submodule is kept out of its owner's keys.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from porttool.calls.find import doubt
from porttool.calls.flow import (
    Result,
    called_raw,
    loads,
    only_called,
    other_wraps,
    raw_handles,
    result_of,
    stays_local,
    used_raw,
    wrapped_variable,
)
from porttool.calls.kinds import is_function, is_module
from porttool.calls.values import Finding, Form, Site
from porttool.calls.view import FUNCTIONS, View, class_of, function_of, spelled, statement_of
from porttool.source.nodes import walk


def choose_form(
    here: View, site: Site, sites: Sequence[Site], *, configured: bool
) -> Form | Finding:
    """Return how a site is gated, or why a person has to do it.

    `configured`: the switch is read from settings that are in scope, not from the environment.
    """
    if site.kind == "decorator":
        return _decorator_form(here, site, configured)
    if site.kind == "method" and site.target is None:
        return "guard"  # super().compile()
    if site.kind != "call" or site.target is None:
        return "in place"
    result = result_of(here, site)
    if method := _own_method(site, result):
        return method
    if isinstance(site.target, ast.Attribute) and is_function(here, site.target):
        return _method_form(here, site, result)
    raw = wrapped_variable(site)
    if raw is not None and not is_function(here, raw):
        form = _handle_form(here, site, raw, result, sites)
        if form is not None:
            return form
    if configured and stays_local(here, site, result):
        return "call"
    return "in place"


def _decorator_form(here: View, site: Site, configured: bool) -> Form | Finding:
    decorated = here.above[site.whole]
    if isinstance(decorated, ast.ClassDef):
        return doubt(
            here, site.whole, "a class is compiled, not a function", "compile its instances"
        )
    assert isinstance(decorated, FUNCTIONS)
    generates = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in walk(decorated))
    if isinstance(decorated, ast.AsyncFunctionDef) or generates:
        # A function that decides when it is called would be no coroutine function any more.
        return "in place"
    return "in place" if configured and function_of(here, decorated) is not None else "lazy"


def _own_method(site: Site, result: Result) -> Form | None:
    """Return the form of `m.forward = torch.compile(m.forward)`."""
    target = site.target
    if not isinstance(target, ast.Attribute) or target.attr not in ("forward", "__call__"):
        return None
    bound = [spelled(one) for one in result.targets]
    return "owner" if bound == [spelled(target)] and result.top is site.whole else None


def _method_form(here: View, site: Site, result: Result) -> Form:
    same = (
        [spelled(one) for one in result.targets] == [spelled(site.target)] if site.target else False
    )
    statement = statement_of(here, site.whole)
    alone = isinstance(statement, ast.Assign) and statement.value is site.whole
    # A bound method put into the instance would be there when the switch is off, too.
    return "guard" if same and alone and spelled(site.target) else "in place"  # type: ignore[arg-type]


def _handle_form(
    here: View, site: Site, raw: ast.expr, result: Result, sites: Sequence[Site]
) -> Form | Finding | None:
    """Return the form where the wrapped object has another name as well."""
    handles = raw_handles(here, raw, result)
    others = [
        one
        for one in other_wraps(here, raw, site, sites)
        if {spelled(t) for t in result_of(here, one).targets}
        != {spelled(t) for t in result.targets}
    ]
    if handles and result.fate != "bound" and called_raw(here, handles, site, result):
        called = here.above[result.top]
        at_once = isinstance(called, ast.Call) and called.func is site.whole
        return "handle" if at_once else _two(here, site, raw)
    if not handles or (result.fate != "bound" and not others):
        return None
    raw_used = used_raw(here, handles, site, sites)
    registers = _registers(here, result)
    if registers:
        own = [one for one in handles if isinstance(one, ast.Attribute)]
        if own and (raw_used or others):
            return _two(here, site, raw)
        return "unregistered" if own else None
    if only_called(here, result.targets, site) and _has_uses(here, handles, site):
        return "handle"
    return _two(here, site, raw) if raw_used or others else None


def _has_uses(here: View, handles: list[ast.expr], site: Site) -> bool:
    """Tell whether the unwrapped object is mentioned anywhere but where it is wrapped."""
    inside = set(map(id, walk(site.whole)))
    return any(id(use) not in inside for use in loads(here, handles))


def _registers(here: View, result: Result) -> bool:
    """Tell whether a result becomes an attribute of a module, which registers it there."""
    for target in result.targets:
        if (
            isinstance(target, ast.Attribute)
            and spelled(target.value) == "self"
            and target in here.above
        ):
            owner = class_of(here, target)
            if owner is not None and is_module(here, target.value) is not False:
                return True
    return False


def _two(here: View, site: Site, raw: ast.expr) -> Finding:
    return doubt(
        here,
        site.whole,
        f"`{spelled(raw)}` is used uncompiled as well, and the compiled one is more than called",
        "give each use a name of its own: one that is only called, or one module",
    )
