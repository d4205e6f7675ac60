"""Ways to run a module around what is compiled in place: a `__call__` of its own, or `forward`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from porttool.calls.arguments import arguments
from porttool.calls.find import doubt
from porttool.calls.flow import Result, loads, result_of
from porttool.calls.kinds import class_definition
from porttool.calls.neighbours import Neighbours
from porttool.calls.values import Finding, Form, Site
from porttool.calls.view import (
    FUNCTIONS,
    View,
    ancestors,
    function_of,
    scope_of,
    spelled,
    statement_of,
    uses,
)
from porttool.source.nodes import nodes_of, walk
from porttool.source.syntax import Source

_DEPTH = 4
_IN_PLACE: tuple[Form, ...] = ("in place", "unregistered", "owner")
_FORWARD = re.compile(r"\.forward\(")


def around_in_place(here: View, site: Site, form: Form) -> Iterator[Finding]:
    """Yield why a module that is compiled in place would run uncompiled with the switch on."""
    if form not in _IN_PLACE or site.target is None:
        return
    owner = site.target
    if form == "owner" and isinstance(owner, ast.Attribute):
        owner = owner.value
    for there, named in _classes(here, owner):
        found = class_definition(there, named)
        # An object of a class without bases is no module: it is its `__call__` that is compiled.
        if found is not None and found[1].bases and _calls_otherwise(*found, _DEPTH):
            yield doubt(
                here,
                site.whole,
                f"`{ast.unparse(named)}` has a `__call__` of its own, which a module compiled in "
                "place does not go through",
                "rename it to `forward`, or let it call super().__call__",
            )
            return
    if form != "owner":
        result = result_of(here, site)
        yield from _forward_elsewhere(here, site, result)
        yield from _forward_inside(here, site, result)
        yield from _forward_of_elements(here, site, result)


def _classes(here: View, value: ast.expr) -> Iterator[tuple[View, ast.expr]]:
    """Yield the classes that a value is made of, as far as assignments and arguments tell."""
    seen: set[tuple[str, str]] = set()
    todo = [(here, value)]
    while todo:
        there, one = todo.pop()
        if isinstance(one, ast.Call):
            yield there, one.func
            if isinstance(one.func, ast.Attribute):
                todo.append((there, one.func.value))  # `Net().to(device)`
        elif isinstance(one, ast.IfExp):
            todo += [(there, one.body), (there, one.orelse)]
        elif isinstance(one, ast.NamedExpr):
            todo.append((there, one.value))
        elif (text := spelled(one)) is not None and (there.source.path, text) not in seen:
            seen.add((there.source.path, text))
            if text == "self":
                yield from ((there, named) for named in _own_class(there, one))
            for use in uses(there, one):
                holder = there.above[use]
                if isinstance(holder, ast.Assign | ast.AnnAssign) and use is not holder.value:
                    todo += [(there, holder.value)] if holder.value is not None else []
            yield from ((there, named) for named in _annotation(there, one))
            if isinstance(one, ast.Name):
                todo += arguments(there, one)


def _own_class(here: View, own: ast.expr) -> Iterator[ast.expr]:
    node: ast.AST | None = own
    while node is not None and not isinstance(node, ast.ClassDef):
        node = here.above.get(node)
    if node is not None:
        yield ast.copy_location(ast.Name(node.name, ast.Load()), own)


def _annotation(here: View, name: ast.expr) -> Iterator[ast.expr]:
    """Yield the annotation of a parameter."""
    around = function_of(here, name)
    for argument in ast.walk(around.args) if around is not None else ():
        if isinstance(argument, ast.arg) and argument.arg == spelled(name) and argument.annotation:
            yield argument.annotation


def _calls_otherwise(here: View, definition: ast.ClassDef, depth: int) -> bool:
    """Tell whether calls of a class's objects do not reach torch's own `__call__`."""
    for one in definition.body:
        if isinstance(one, FUNCTIONS) and one.name == "__call__":
            return not any(
                isinstance(node, ast.Attribute)
                and node.attr in ("__call__", "_call_impl", "_wrapped_call_impl")
                for node in walk(one)
            )
        if isinstance(one, ast.Assign) and "__call__" in map(spelled, one.targets):
            return True
    for base in definition.bases if depth else ():
        found = class_definition(here, base)
        if found is not None and _calls_otherwise(*found, depth - 1):
            return True
    return False


def _forward_elsewhere(here: View, site: Site, result: Result) -> Iterator[Finding]:
    """Yield the places in other files that call `forward` of what a site makes."""
    names = {
        one.id if isinstance(one, ast.Name) else one.attr
        for one in result.targets
        if isinstance(one, ast.Attribute)
        or (isinstance(one, ast.Name) and scope_of(here, site.whole) is here.source.tree)
    }
    around = function_of(here, site.whole)
    maker = around.name if around is not None and result.fate == "returned" else ""
    if not names and not maker:
        return
    for path, line, text in _forwards(_importers(here), names, maker):
        yield doubt(
            here,
            site.whole,
            f"`{text}.forward(...)` ({path}:{line}) runs uncompiled once this is gated",
            f"call `{text}(...)` there",
        )


def _forward_inside(here: View, site: Site, result: Result) -> Iterator[Finding]:
    """Yield the calls of `forward` by a class or function that what a site makes is handed to."""
    above = here.above[result.top]
    if isinstance(above, ast.Attribute) and above.attr == "forward":
        yield doubt(
            here,
            site.whole,
            "its `forward` is taken, which runs uncompiled once this is gated",
            "take the object itself, and call it",
        )
    for given in [result.top, *loads(here, result.targets)]:
        call = here.above[given]
        if isinstance(call, ast.keyword):
            call = here.above[call]
        if not isinstance(call, ast.Call) or call.func is given:
            continue
        taken = _parameter_of(here, call, given)
        forward = _forward_of(*taken) if taken is not None else None
        if forward is not None:
            path, line, text = forward
            yield doubt(
                here,
                site.whole,
                f"`{text}.forward(...)` ({path}:{line}) runs uncompiled once this is gated",
                f"call `{text}(...)` there",
            )


def _forward_of_elements(here: View, site: Site, result: Result) -> Iterator[Finding]:
    """Yield the calls of `forward` on an element of the container that a site's object is in."""
    for use in loads(here, _containers(here, result)):
        above = here.above[use]
        if isinstance(above, ast.Subscript) and above.value is use:
            yield from _forward_calls(here, [above])
        for holder in ancestors(here, use):
            if isinstance(holder, ast.stmt) and not isinstance(holder, ast.For):
                break
            if isinstance(holder, ast.For | ast.comprehension) and use in walk(holder.iter):
                body = here.above[holder] if isinstance(holder, ast.comprehension) else holder
                names = {one.id for one in walk(holder.target) if isinstance(one, ast.Name)}
                elements = [
                    one for one in walk(body) if isinstance(one, ast.Name) and one.id in names
                ]
                yield from _forward_calls(here, elements)


def _forward_calls(here: View, elements: Sequence[ast.expr]) -> Iterator[Finding]:
    for element in elements:
        method = here.above[element]
        if (
            isinstance(method, ast.Attribute)
            and method.attr == "forward"
            and getattr(here.above[method], "func", None) is method
        ):
            text = ast.unparse(element)
            what = f"`{text}.forward(...)` runs uncompiled once its modules are gated"
            yield doubt(here, method, what, f"call `{text}(...)`")


def _containers(here: View, result: Result) -> list[ast.expr]:
    """Return the variables that hold a container which a site's object is put into."""
    above = here.above[result.top]
    if result.fate == "element":
        holder = statement_of(here, result.top)
        return list(holder.targets) if isinstance(holder, ast.Assign) else []
    if isinstance(above, ast.Call) and isinstance(above.func, ast.Attribute):
        return [above.func.value] if above.func.attr in ("append", "insert", "extend") else []
    return [one.value for one in result.targets if isinstance(one, ast.Subscript)]


def _parameter_of(
    here: View, call: ast.Call, given: ast.expr
) -> tuple[View, ast.AST, ast.AST, str] | None:
    """Return file, class or function, the function itself, and its name for an argument."""
    found = class_definition(here, call.func)
    makers: list[ast.AST] = []
    if found is not None:
        there, home = found[0], found[1]
        makers = [one for one in home.body if getattr(one, "name", "") == "__init__"]
    else:
        there = here
        makers = [
            node
            for node in here.nodes
            if isinstance(node, FUNCTIONS) and node.name == spelled(call.func)
        ]
    if len(makers) != 1 or not isinstance(makers[0], FUNCTIONS):
        return None
    maker = makers[0]
    names = [one.arg for one in (*maker.args.posonlyargs, *maker.args.args)]
    names = names[1:] if found is not None else names
    word = next((one.arg for one in call.keywords if one.value is given), None)
    if word is None and given in call.args and call.args.index(given) < len(names):
        word = names[call.args.index(given)]
    return None if word is None else (there, found[1] if found else maker, maker, word)


def _forward_of(
    there: View, home: ast.AST, maker: ast.AST, name: str
) -> tuple[str, int, str] | None:
    """Return path, line and receiver where a parameter, or what it is kept as, is run that way."""
    kept = {
        spelled(target)
        for node in walk(maker)
        if isinstance(node, ast.Assign) and spelled(node.value) == name
        for target in node.targets
    }
    for node in walk(home):
        if isinstance(node, ast.Call) and _last_word(node.func) == "forward":
            receiver = node.func.value if isinstance(node.func, ast.Attribute) else node.func
            text = spelled(receiver)
            inside = text == name and node in walk(maker)
            if text is not None and (text in kept or inside):
                return there.source.path, node.lineno, text
    return None


def _importers(here: View) -> Sequence[Source]:
    if not isinstance(here.files, Neighbours):
        return ()
    paths = [path for path in here.files.importing() if _FORWARD.search(here.files.text(path))]
    return [here.files[path] for path in paths if path in here.files]


def _forwards(
    sources: Sequence[Source], names: set[str], maker: str
) -> Iterator[tuple[str, int, str]]:
    """Yield path, line and receiver of the calls of `forward` on what has one of the names."""
    for source in sources:
        made = {
            spelled(target)
            for node in nodes_of(source.tree)
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
            for target in node.targets
            if maker and _last_word(node.value.func) == maker
        }
        for node in nodes_of(source.tree):
            if isinstance(node, ast.Call) and _last_word(node.func) == "forward":
                receiver = node.func.value if isinstance(node.func, ast.Attribute) else node.func
                text = spelled(receiver)
                if text and (text in made or _last_word(receiver) in names):
                    yield source.path, node.lineno, text


def _last_word(named: ast.expr) -> str:
    return named.attr if isinstance(named, ast.Attribute) else getattr(named, "id", "")
