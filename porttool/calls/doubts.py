"""What makes a call one that no rule can gate: reported with the line, its file left as it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from porttool.calls.find import doubt
from porttool.calls.flow import (
    Result,
    attribute_loads,
    earlier,
    exclusive,
    loads,
    result_of,
    wrapped_variable,
)
from porttool.calls.kinds import class_definition, is_function, loops_around
from porttool.calls.makers import functions_named, given_compiled
from porttool.calls.prefixes import old_keys
from porttool.calls.threads import other_threads
from porttool.calls.values import Finding, Site
from porttool.calls.view import (
    FUNCTIONS,
    View,
    ancestors,
    function_of,
    is_after,
    origin,
    spelled,
    statement_of,
    uses,
)
from porttool.source.nodes import walk

RECOMPILE_LIMIT = 8  # torch._dynamo.config.recompile_limit
_COPIES = ("copy.deepcopy", "copy.copy", "torch.optim.swa_utils.AveragedModel")


def doubts_about(here: View, sites: Sequence[Site]) -> tuple[Finding, ...]:
    """Return what a person has to decide about the sites of a file, in file order."""
    found: list[Finding] = []
    for site in sites:
        found += _about_target(here, site, sites)
        if site.kind in ("call", "optimize", "method"):
            result = result_of(here, site)
            found += _about_result(here, site, result)
            owner = _owner_of(site, result)
            if owner is not None:
                found += _about_uses(here, site, [owner])
            elif not (site.target is not None and is_function(here, site.target)):
                found += _about_uses(here, site, _held(here, site, result))
    unique = {(one.line, one.column, one.what): one for one in found}
    return tuple(sorted(unique.values(), key=lambda one: (one.line, one.column)))


def _owner_of(site: Site, result: Result) -> ast.expr | None:
    """Return `m` of `m.forward = torch.compile(m.forward)`."""
    target = site.target
    bound = [spelled(one) for one in result.targets]
    if isinstance(target, ast.Attribute) and target.attr == "forward" and spelled(target) in bound:
        return target.value
    return None


def _held(here: View, site: Site, result: Result) -> list[ast.expr]:
    """Return every variable that holds the object: those bound, the wrapped, factories' results."""
    held = [one for one in result.targets if spelled(one) and one in here.above]
    if site.target is not None and spelled(site.target) and site.kind == "method":
        held.append(site.target)
    function = function_of(here, site.whole)
    if function is not None and _is_returned(here, held, result, function):
        for node in here.nodes:
            if isinstance(node, ast.Call) and function in functions_named(here, node.func):
                above = here.above[node]
                targets = above.targets if isinstance(above, ast.Assign) else []
                held += [one for one in targets if spelled(one)]
    return held


def _is_returned(here: View, held: list[ast.expr], result: Result, function: ast.AST) -> bool:
    if result.fate == "returned":
        return True
    return any(isinstance(here.above[use], ast.Return) for use in loads(here, held))


def _about_target(here: View, site: Site, sites: Sequence[Site]) -> Iterator[Finding]:
    target = site.target
    if target is None:
        return
    inner = [one for one in sites if one is not site and _inside(here, one.whole, target)]
    if any(_hands_on(here, one, target) for one in inner):
        yield _twice(here, site)
    raw = wrapped_variable(site)
    if raw is not None and site.kind in ("call", "optimize"):
        same = {id(use) for use in uses(here, raw)}
        for one in sites:
            if one is site or one.kind not in ("call", "optimize", "method"):
                continue
            bound = result_of(here, one).targets
            if one.kind == "method" and one.target is not None:
                bound = (one.target,)
            if (
                any(id(store) in same for store in bound)
                and is_after(site.whole, one.whole)
                and not exclusive(here, one.whole, site.whole)
                and not _rebound_between(here, raw, one, site)
                and not is_function(here, raw)
            ):
                yield _twice(here, site)
                break
    if given_compiled(here, site, sites):
        yield _twice(here, site)
    if site.kind in ("call", "optimize") and _each_turn(here, site):
        yield doubt(
            here,
            site.whole,
            "compiled again in every turn of a loop: torch gives a bare function for a module that "
            "is compiled already",
            "compile it in front of the loop",
        )
    looked_up = _only_value(here, target)
    if (
        isinstance(looked_up, ast.Call)
        and _looks_up(looked_up)
        and not _constant_names(here, looked_up)
    ):
        yield doubt(
            here,
            site.whole,
            "what is compiled is looked up by a name that is not written here",
            "gate it by hand: `forward` needs another form than the rest",
        )
    if isinstance(target, ast.Name | ast.Attribute) and class_definition(here, target):
        yield doubt(
            here, site.whole, "a class is compiled, not a function", "compile its instances"
        )
    varied = _varied_structure(here, site)
    if varied is not None:
        yield doubt(
            here,
            site.whole,
            f"`{varied}` gives modules of different structure, more than {RECOMPILE_LIMIT} that "
            "torch compiles of one code object; the rest runs uncompiled, and silently",
            "compile the module that holds them, or few of them",
        )


def _twice(here: View, site: Site) -> Finding:
    return doubt(
        here,
        site.whole,
        "compiled twice: torch gives a bare function for a module that is compiled already",
        "drop one of the two calls",
    )


def _inside(here: View, node: ast.AST, outer: ast.AST) -> bool:
    return node is outer or outer in ancestors(here, node)


def _each_turn(here: View, site: Site) -> bool:
    """Tell whether a loop wraps what it has wrapped itself, in the turn before."""
    raw = wrapped_variable(site)
    if raw is None or is_function(here, raw):
        return False
    own = statement_of(here, site.whole)
    if spelled(raw) not in map(spelled, result_of(here, site).targets):
        return False
    names = {one.id for one in walk(raw) if isinstance(one, ast.Name)}
    for loop in ancestors(here, own):
        if isinstance(loop, (*FUNCTIONS, ast.ClassDef, ast.If, ast.Match)):
            return False
        if isinstance(loop, ast.For | ast.While | ast.AsyncFor):
            stored = {
                spelled(node)
                for node in walk(loop)
                if isinstance(node, ast.Name | ast.Attribute)
                and not isinstance(node.ctx, ast.Load)
                and statement_of(here, node) is not own
            }
            leaves = any(isinstance(one, ast.Break | ast.Return) for one in walk(loop))
            return not leaves and not stored & {spelled(raw), *names}
    return False


def _only_value(here: View, target: ast.expr) -> ast.expr:
    """Return what the only assignment of a name stores, or the expression itself."""
    if not isinstance(target, ast.Name):
        return target
    stores = [use for use in uses(here, target) if not isinstance(use.ctx, ast.Load)]
    holder = here.above[stores[0]] if len(stores) == 1 else None
    return holder.value if isinstance(holder, ast.Assign) else target


def _hands_on(here: View, inner: Site, target: ast.expr) -> bool:
    """Tell whether the inner site's object is what the outer one wraps, not a part of it."""
    return result_of(here, inner).top is target


def _rebound_between(here: View, raw: ast.expr, first: Site, second: Site) -> bool:
    """Tell whether something else is stored in a variable between two sites."""
    own = statement_of(here, first.whole), statement_of(here, second.whole)
    for use in uses(here, raw):
        if isinstance(use.ctx, ast.Load):
            continue
        if statement_of(here, use) in own:
            continue
        if is_after(use, first.whole) and is_after(second.whole, use):
            return True
    return False


def _looks_up(call: ast.Call) -> bool:
    return (
        isinstance(call.func, ast.Name)
        and call.func.id == "getattr"
        and len(call.args) >= 2
        and not isinstance(call.args[1], ast.Constant)
    )


def _constant_names(here: View, call: ast.Call) -> bool:
    """Tell whether a looked-up name runs over constants of a loop, none of them `forward`."""
    name = call.args[1]
    for loop in loops_around(here, call):
        if (
            isinstance(name, ast.Name)
            and isinstance(loop.target, ast.Name)
            and loop.target.id == name.id
        ):
            iterated = _only_value(here, loop.iter)
            values = iterated.elts if isinstance(iterated, ast.Tuple | ast.List) else []
            return bool(values) and all(
                isinstance(one, ast.Constant) and one.value not in ("forward", "__call__")
                for one in values
            )
    return False


def _varied_structure(here: View, site: Site) -> str | None:
    """Return what differs in the modules that a loop compiles, where there may be too many."""
    assert site.target is not None
    for loop in loops_around(here, site.whole):
        names = {one.id for one in ast.walk(loop.target) if isinstance(one, ast.Name)}
        for node in walk(site.target):
            if not isinstance(node, ast.Call):
                continue
            root = node.func
            while isinstance(root, ast.Attribute | ast.Subscript):
                root = root.value
            picked = isinstance(node.func, ast.Name) and node.func.id in names
            indexed = isinstance(node.func, ast.Subscript) and any(
                isinstance(one, ast.Name) and one.id in names for one in walk(node.func.slice)
            )
            if (picked or indexed) and not _few(here, loop.iter):
                return ast.unparse(node)
    return None


def _few(here: View, iterated: ast.expr) -> bool:
    """Tell whether a loop runs at most as often as torch compiles one code object."""
    if isinstance(iterated, ast.Name):
        stores = [
            here.above[use] for use in uses(here, iterated) if not isinstance(use.ctx, ast.Load)
        ]
        if len(stores) == 1 and isinstance(stores[0], ast.Assign):
            iterated = stores[0].value
    if isinstance(iterated, ast.Tuple | ast.List | ast.Set):
        return len(iterated.elts) <= RECOMPILE_LIMIT
    if isinstance(iterated, ast.Dict):
        return len(iterated.keys) <= RECOMPILE_LIMIT
    return False


def _about_result(here: View, site: Site, result: Result) -> Iterator[Finding]:
    if site.kind == "method":
        return
    if result.fate == "discarded" and not result.targets:
        yield doubt(
            here,
            site.whole,
            "the compiled object is dropped: this compiles nothing",
            "bind it, or delete the call",
        )
    container = _elements_called_raw(here, site, result)
    if container is not None:
        yield doubt(
            here,
            site.whole,
            f"elements of `{container}` are called uncompiled as well",
            "give each use modules of its own, or store the compiled ones there",
        )
    for target in result.targets:
        if not isinstance(target, ast.Name) or site.target is None:
            continue
        for loop in loops_around(here, site.whole):
            variables = [one for one in ast.walk(loop.target) if isinstance(one, ast.Name)]
            if target.id not in {one.id for one in variables} or not isinstance(loop, ast.For):
                continue
            if not any(
                is_after(use, site.whole) and _inside(here, use, loop)
                for use in loads(here, [target])
            ):
                yield doubt(
                    here,
                    site.whole,
                    f"`{target.id}` is the loop's own: this compiles nothing",
                    "store it where the loop takes it from",
                )


def _elements_called_raw(here: View, site: Site, result: Result) -> str | None:
    """Return a container whose elements are compiled for another one, and called themselves."""
    raw = wrapped_variable(site)
    if result.fate != "element" or not isinstance(raw, ast.Name):
        return None
    for loop in loops_around(here, site.whole):
        if not any(isinstance(one, ast.Name) and one.id == raw.id for one in walk(loop.target)):
            continue
        for container in walk(loop.iter):
            if not isinstance(container, ast.Name | ast.Attribute) or spelled(container) is None:
                continue
            stored = statement_of(here, site.whole)
            targets = stored.targets if isinstance(stored, ast.Assign) else []
            if spelled(container) in [spelled(one) for one in targets]:
                return None
            if any(_calls_elements(here, use, loop) for use in loads(here, [container])):
                return spelled(container)
    return None


def _calls_elements(here: View, use: ast.expr, own: ast.AST) -> bool:
    """Tell whether a read of a container calls what it holds: by index, or in a loop of its own."""
    above = here.above[use]
    if isinstance(above, ast.Subscript) and above.value is use:
        return getattr(here.above[above], "func", None) is above
    for loop in [use, *ancestors(here, use)]:
        holder = here.above.get(loop)
        if isinstance(holder, ast.For | ast.comprehension) and holder.iter is loop:
            if holder is own:
                return False
            body = here.above[holder] if isinstance(holder, ast.comprehension) else holder
            names = {one.id for one in walk(holder.target) if isinstance(one, ast.Name)}
            return any(
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in names
                for node in walk(body)
            )
    return False


def _about_uses(here: View, site: Site, held: list[ast.expr]) -> Iterator[Finding]:
    reads = list(
        {id(use): use for use in [*loads(here, held), *attribute_loads(here, held)]}.values()
    )
    for use in reads:
        above = here.above[use]
        if not isinstance(above, ast.Attribute):
            continue
        called = here.above[above]
        if above.attr == "forward" and _runs_or_keeps(called, above):
            yield doubt(
                here,
                above,
                f"`{spelled(above)}(...)` runs uncompiled once `{spelled(use)}` is gated",
                f"call `{spelled(use)}(...)`",
            )
    for use in [*reads, site.whole]:
        call = here.above[use]
        if isinstance(call, ast.Call) and origin(here, call.func) == "torch.nn.DataParallel":
            yield doubt(
                here,
                call,
                "DataParallel's copies of a module compiled in place would all call the first one",
                "compile what DataParallel gives, or use DistributedDataParallel",
            )
        elif (
            isinstance(call, ast.Call)
            and (origin(here, call.func) or "") in _COPIES
            and not earlier(here, use, site)
        ):
            yield replace(
                doubt(
                    here,
                    call,
                    "a copy of a module compiled in place is not compiled",
                    "compile the copy if it is what runs",
                ),
                kind="note",
            )
    yield from old_keys(here, site, reads)
    yield from _hooks(here, reads)
    yield from other_threads(here, reads)


def _runs_or_keeps(user: ast.AST, forward: ast.Attribute) -> bool:
    """Tell whether a module's `forward` is called, or given another name to be called by."""
    if isinstance(user, ast.Call):
        return user.func is forward
    targets = user.targets if isinstance(user, ast.Assign) else []
    return bool(targets) and spelled(forward) not in map(spelled, targets)


def unwrapped(here: View) -> Iterator[Finding]:
    """Yield the places that reach into the wrapper without asking whether there is one."""
    for node in here.nodes:
        owner = _wrapper_of(node)
        if owner is not None and not _tested(here, node):
            yield doubt(
                here,
                node,
                f"`{ast.unparse(node)}` is there only while `{ast.unparse(owner)}` is wrapped",
                f"use `{ast.unparse(owner)}` itself, then run this again",
            )


def _wrapper_of(node: ast.AST) -> ast.expr | None:
    """Return `m` of `m._orig_mod`, and of the other ways to say that."""
    if isinstance(node, ast.Attribute):
        return node.value if node.attr == "_orig_mod" and isinstance(node.ctx, ast.Load) else None
    if isinstance(node, ast.Subscript):
        named = isinstance(node.slice, ast.Constant) and node.slice.value == "_orig_mod"
        return node.value if named and isinstance(node.ctx, ast.Load) else None
    if not isinstance(node, ast.Call):
        return None
    texts = [isinstance(one, ast.Constant) and one.value == "_orig_mod" for one in node.args]
    if isinstance(node.func, ast.Name) and node.func.id == "getattr" and texts == [False, True]:
        return node.args[0]
    if isinstance(node.func, ast.Attribute) and node.func.attr == "get_submodule" and any(texts):
        return node.func.value
    return None


def _tested(here: View, node: ast.AST) -> bool:
    """Tell whether the code around a node asks about the wrapper first."""
    around = function_of(here, node) or statement_of(here, node)
    holders = [one for one in ancestors(here, node) if isinstance(one, ast.If | ast.While)]
    below = node
    for one in ancestors(here, node):
        if isinstance(one, ast.Try) and below in one.body:
            return True
        below = one
    for one in [*walk(around), *holders]:
        if isinstance(one, ast.If | ast.IfExp | ast.While | ast.Assert):
            words = ast.unparse(one.test)
            if "_orig_mod" in words or "OptimizedModule" in words:
                return True
    return False


def _hooks(here: View, reads: list[ast.expr]) -> Iterator[Finding]:
    """Yield the hooks that are registered behind the first compiled call, which never sees them."""
    called = [use for use in reads if getattr(here.above[use], "func", None) is use]
    for use in reads:
        chain: ast.AST = use
        while isinstance(here.above[chain], ast.Attribute | ast.Subscript):
            chain = here.above[chain]
        if not (
            isinstance(chain, ast.Attribute) and "register" in chain.attr and "hook" in chain.attr
        ):
            continue
        if any(is_after(chain, call) for call in called):
            yield doubt(
                here,
                chain,
                "a hook that is registered behind the first compiled call never runs",
                "register it in front of that call",
            )
