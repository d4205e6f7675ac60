"""Find what compiles in a file: calls, decorators, bare references, `module.compile()`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from porttool.calls.kinds import class_is_module, is_module, may_be_module
from porttool.calls.neighbours import module_source, through_imports
from porttool.calls.values import Finding, Site
from porttool.calls.view import (
    View,
    ancestors,
    class_of,
    column_of,
    constant_value,
    origin,
    origins,
)

COMPILE = "torch.compile"
OPTIMIZE = frozenset(
    f"torch._dynamo.{name}"
    for name in ("optimize", "optimize_assert", "eval_frame.optimize", "eval_frame.optimize_assert")
)
MODULE_METHOD = frozenset(
    f"torch.nn.{name}" for name in ("Module.compile", "modules.Module.compile")
) | {"torch.nn.modules.module.Module.compile"}
_OTHER_ENTRY = "torch.compiler.compile"
_ENTRIES = {COMPILE, _OTHER_ENTRY} | OPTIMIZE | MODULE_METHOD
_LAST_WORDS = frozenset(name.rpartition(".")[2] for name in _ENTRIES)
_OPTIONS = {"fullgraph", "dynamic", "backend", "mode", "options", "disable"}
_LOOK_UPS = {
    "pydoc.locate",
    "pkgutil.resolve_name",
    "hydra.utils.get_method",
    "hydra.utils.get_object",
}
_ABOUT = {"hasattr", "callable", "isinstance", "issubclass", "id", "repr", "print", "type"}


def find_sites(here: View) -> tuple[tuple[Site, ...], tuple[Finding, ...]]:
    """Return every place that compiles, and the places that may, for a person; in file order."""
    sites: list[Site] = []
    doubts: list[Finding] = []
    words = _words_for_it(here)
    for node in here.nodes:
        if isinstance(node, ast.Name | ast.Attribute):
            word = node.attr if isinstance(node, ast.Attribute) else node.id
            if word not in words or not isinstance(node.ctx, ast.Load):
                continue
            found = _reference(here, node)
        elif isinstance(node, ast.Call):
            found = _method(here, node)
        else:
            continue
        if isinstance(found, Site):
            text = next(
                (one for one in ancestors(here, node) if isinstance(one, ast.JoinedStr)), None
            )
            if text is not None:
                # Positions inside of an f-string cannot be relied on before Python 3.12.
                found = doubt(here, text, "compiled inside of an f-string", "take it out of there")
        if isinstance(found, Site):
            sites.append(found)
        elif found is not None:
            doubts.append(found)
    doubts += _dynamic(here)
    if any(_assigns_compile(here, node) for node in here.nodes):
        # The file puts something else in the place of torch.compile: what its own calls do is its
        # own business, and references keep the original for later.
        calls = [site for site in sites if site.kind != "reference"]
        doubts += [
            doubt(here, site.whole, "torch.compile is replaced in this file", "gate it by hand")
            for site in calls
        ]
        sites = []
    order = sorted(sites, key=lambda site: (site.line, site.column))
    return tuple(order), tuple(sorted(doubts, key=lambda one: (one.line, one.column)))


def _words_for_it(here: View) -> set[str]:
    """Return the last words that a name of what compiles can have in a file."""
    renamed = {
        alias.asname or alias.name
        for node in here.nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if (alias.asname and alias.name in _LAST_WORDS) or _renames(here, node, alias.name)
    }
    return renamed | _LAST_WORDS


def _renames(here: View, node: ast.ImportFrom, name: str) -> bool:
    """Tell whether another file of the project hands what compiles on under a name."""
    module = f"{'.' * node.level}{node.module or ''}"
    if module.partition(".")[0] in ("torch", "__future__"):
        return False
    source = module_source(here, module)
    return source is not None and any(
        isinstance(one, ast.ImportFrom)
        and any((alias.asname or alias.name) == name for alias in one.names)
        and through_imports(here, f"{module}.{name}") in _ENTRIES
        for one in source.tree.body
    )


def doubt(here: View, node: ast.AST, what: str, next: str) -> Finding:
    """Return a flag at a node."""
    return Finding(here.source.path, node.lineno, column_of(here, node), what, next)  # type: ignore[attr-defined]


def _site(
    here: View, kind: str, node: ast.expr, call: ast.Call | None, target: ast.expr | None
) -> Site:
    place = call or node
    return Site(kind, node, call, target, place.lineno, column_of(here, place))  # type: ignore[arg-type]


def _reference(here: View, node: ast.Name | ast.Attribute) -> Site | Finding | None:
    """Return the site of a name or chain that means torch.compile, by what stands around it."""
    if isinstance(here.above.get(node), ast.Attribute):
        return None
    if not _origins(here, node) & _ENTRIES and getattr(node, "id", "") != "compile":
        return None
    meant = _starred(here, node) or origin(here, node)
    meant = through_imports(here, meant) if meant else None
    if meant in OPTIMIZE:
        return _optimize(here, node)
    if meant == _OTHER_ENTRY:
        return doubt(here, node, "torch.compiler.compile compiles as well", "call torch.compile")
    if meant != COMPILE and meant not in MODULE_METHOD:
        return _unsure(here, node)
    above = here.above[node]
    if isinstance(above, ast.Call) and above.func is node:
        return _call(here, node, above, method=meant in MODULE_METHOD)
    if _decorates(here, node):
        return _site(here, "decorator", node, None, None)
    if _only_looked_at(here, node, above):
        return None
    if isinstance(above, ast.Call) and node in above.args and _drops(here, above):
        return doubt(
            here,
            above,
            "what is compiled here is dropped: this compiles nothing",
            "bind it, or delete the call",
        )
    return _site(here, "reference", node, None, None)


def _origins(here: View, node: ast.expr) -> frozenset[str]:
    """Return what a name may mean, imports of other files of the project followed."""
    return frozenset(through_imports(here, one) for one in origins(here, node) if one is not None)


def _starred(here: View, node: ast.Name | ast.Attribute) -> str | None:
    """Return where a name that nothing else binds comes from, by `from ... import *`."""
    if not isinstance(node, ast.Name) or here.names.binding(node.id, node) is not None:
        return None
    found = {
        through_imports(here, f"{'.' * one.level}{one.module or ''}.{node.id}")
        for one in here.nodes
        if isinstance(one, ast.ImportFrom) and one.names[0].name == "*"
    }
    return COMPILE if found & {COMPILE} and "torch" not in _stars(here) else None


def _stars(here: View) -> list[str]:
    """Return the modules of which a file imports everything."""
    return [
        one.module or "."
        for one in here.nodes
        if isinstance(one, ast.ImportFrom) and one.names[0].name == "*"
    ]


def _unsure(here: View, node: ast.Name | ast.Attribute) -> Finding | None:
    """Return a flag where a name may mean torch.compile and may not."""
    if COMPILE in _origins(here, node):
        return doubt(here, node, "this name is torch.compile in some runs only", "gate it by hand")
    if not (isinstance(node, ast.Name) and node.id == "compile" and here.names.has_star_import):
        return None
    if here.names.binding("compile", node) is not None:
        return None
    call = here.above[node]
    if isinstance(call, ast.Call) and call.func is node:
        words = {word.arg for word in call.keywords}
        if len(call.args) > 1 or words & {"source", "filename", "flags", "dont_inherit"}:
            return None  # torch.compile takes one positional argument, the built-in three
    stars = _stars(here)
    if not any(name == "torch" or name.startswith(".") for name in stars) and not (
        isinstance(call, ast.Call) and call.args and may_be_module(here, call.args[0])
    ):
        return None
    return doubt(
        here,
        node,
        f"`compile` may be torch.compile: `from {stars[0]} import *` can bring it",
        "write torch.compile, then run this again",
    )


def _call(here: View, node: ast.expr, call: ast.Call, *, method: bool) -> Site | Finding | None:
    disabled = next((word.value for word in call.keywords if word.arg == "disable"), None)
    if isinstance(disabled, ast.Constant) and disabled.value is True:
        return None  # gives back what it was given
    if any(isinstance(argument, ast.Starred) for argument in call.args) or len(call.args) > 1:
        return doubt(here, call, "what is compiled is not written here", "gate it by hand")
    named = next((word.value for word in call.keywords if word.arg == "model"), None)
    target = call.args[0] if call.args else named
    if _decorates(here, call):
        if target is None:
            return _site(here, "decorator", node, call, None)
        return doubt(here, call, "a compiled function is used as a decorator", "gate it by hand")
    if target is None or (isinstance(target, ast.Constant) and target.value is None):
        return _site(here, "factory", node, call, None)
    return _site(here, "method" if method else "call", node, call, target)


def _optimize(here: View, node: ast.expr) -> Site | Finding | None:
    """Return the site of `torch._dynamo.optimize(...)`, the entry of torch before 2.0."""
    made = here.above[node]
    if not (isinstance(made, ast.Call) and made.func is node):
        return doubt(here, node, "torch._dynamo.optimize is handed on", "call torch.compile")
    known = {"backend", "nopython", "dynamic", "disable"}
    if (
        len(made.args) > 1
        or any(isinstance(argument, ast.Starred) for argument in made.args)
        or any(word.arg not in known for word in made.keywords)
    ):
        return doubt(here, made, "torch.compile has no such options", "call torch.compile")
    above = here.above[made]
    if isinstance(above, ast.withitem):
        return doubt(
            here, made, "everything in this block is compiled", "compile what is called in it"
        )
    target = (
        above.args[0] if isinstance(above, ast.Call) and above.func is made and above.args else None
    )
    if _decorates(here, made):
        return _site(here, "decorator", node, made, None)
    return Site("optimize", node, made, target, made.lineno, column_of(here, made))


def _decorates(here: View, node: ast.AST) -> bool:
    return node in getattr(here.above.get(node), "decorator_list", ())


def _only_looked_at(here: View, node: ast.expr, above: ast.AST) -> bool:
    """Tell whether a reference is compared, tested or asked about, never called."""
    if isinstance(above, ast.Compare | ast.Assert | ast.Delete | ast.AnnAssign | ast.arg):
        return not (isinstance(above, ast.AnnAssign) and above.value is node)
    if isinstance(above, ast.If | ast.IfExp | ast.While):
        return above.test is node
    if isinstance(above, ast.UnaryOp | ast.Set):
        return True
    if isinstance(above, ast.Dict) and node in above.keys:
        return True
    if isinstance(above, ast.Subscript):
        return above.slice is node
    if isinstance(above, ast.Expr):
        return True
    if isinstance(above, ast.Call):
        called = origin(here, above.func) or ""
        return called in _ABOUT or called.startswith(("inspect.", "functools.wraps", "typing."))
    return isinstance(above, ast.FormattedValue)


def _drops(here: View, call: ast.Call) -> bool:
    """Tell whether a call throws away what a function that it is given returns."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "apply":
        return True
    above = here.above[call]
    if isinstance(above, ast.Call) and isinstance(here.above[above], ast.Expr):
        return isinstance(call.func, ast.Name) and call.func.id == "map"
    return isinstance(above, ast.Expr)


def _method(here: View, call: ast.Call) -> Site | Finding | None:
    """Return the site of `module.compile(...)`; others have such a method, too."""
    method = call.func
    if not isinstance(method, ast.Attribute) or method.attr != "compile":
        return None
    receiver = method.value
    known = origins(here, receiver)
    if any(one is not None and here.names.binding(_root(receiver), receiver) for one in known):
        return None  # an imported module's or class's function: torch.compile, re.compile
    if _root(receiver) == "torch":
        return None  # torch that nobody imported here: found as a reference
    if _is_super(receiver):
        return _inherited(here, call, method)
    if _imports_torch(here, receiver):
        return doubt(here, call, "torch is imported by a name given as text", "write torch.compile")
    sure = is_module(here, receiver)
    if sure:
        if isinstance(here.above[call], ast.Expr):
            return _site(here, "method", method, call, receiver)
        return doubt(
            here, call, "the result of compile(), which is None, is used", "gate it by hand"
        )
    if sure is False or not (may_be_module(here, receiver) or _has_forward(here, receiver)):
        return None
    words = {word.arg for word in call.keywords}
    if call.args or not words <= _OPTIONS | {None}:
        return None  # a trainer's or Keras's: torch.compile takes no optimizer, no program
    if not words and not _torch_file(here):
        return None
    return doubt(
        here,
        call,
        f"cannot see whether `{ast.unparse(receiver)}` is a module whose calls this compiles",
        "gate it by hand"
        if _root(receiver) == "self"
        else "annotate it (nn.Module), or gate it by hand",
    )


def _has_forward(here: View, receiver: ast.expr) -> bool:
    """Tell whether an expression is `self` in a class that defines `forward`, of torch or not."""
    owner = class_of(here, receiver) if _root(receiver) == "self" else None
    return (
        isinstance(receiver, ast.Name)
        and owner is not None
        and bool(owner.bases)
        and any(getattr(one, "name", "") == "forward" for one in owner.body)
    )


def _root(expression: ast.expr) -> str:
    while isinstance(expression, ast.Attribute):
        expression = expression.value
    return expression.id if isinstance(expression, ast.Name) else ""


def _is_super(receiver: ast.expr) -> bool:
    return (
        isinstance(receiver, ast.Call)
        and isinstance(receiver.func, ast.Name)
        and receiver.func.id == "super"
    )


def _inherited(here: View, call: ast.Call, method: ast.Attribute) -> Site | Finding | None:
    """Return the site of `super().compile(...)` in a class of modules."""
    owner = class_of(here, call)
    if owner is None or not any(class_is_module(here, base) for base in owner.bases):
        return None
    if isinstance(here.above[call], ast.Expr):
        return _site(here, "method", method, call, None)
    return doubt(here, call, "the result of compile(), which is None, is used", "gate it by hand")


def _imports_torch(here: View, receiver: ast.expr) -> bool:
    """Tell whether an expression is `importlib.import_module("torch")`, or a name for that."""
    if isinstance(receiver, ast.Name):
        values = [
            one.value
            for one in here.nodes
            if isinstance(one, ast.Assign)
            and any(isinstance(t, ast.Name) and t.id == receiver.id for t in one.targets)
        ]
        return any(not isinstance(one, ast.Name) and _imports_torch(here, one) for one in values)
    if isinstance(receiver, ast.Subscript):
        return (
            origin(here, receiver.value) == "sys.modules"
            and isinstance(receiver.slice, ast.Constant)
            and receiver.slice.value == "torch"
        )
    return (
        isinstance(receiver, ast.Call)
        and origin(here, receiver.func)
        in ("importlib.import_module", "__import__", "builtins.__import__")
        and bool(receiver.args)
        and isinstance(receiver.args[0], ast.Constant)
        and receiver.args[0].value == "torch"
    )


def _torch_file(here: View) -> bool:
    return any(
        (
            isinstance(node, ast.Import)
            and any(a.name.partition(".")[0] == "torch" for a in node.names)
        )
        or (isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "torch")
        for node in here.nodes
    )


def _looks_up_text(here: View, call: ast.Call) -> bool:
    """Tell whether a call looks an object up by a text: its path, or the name of an attribute."""
    called = origin(here, call.func) or ""
    if called in ("operator.attrgetter", "operator.methodcaller"):
        return constant_value(here, call.args[0]) == "compile" and _torch_file(here)
    if called not in _LOOK_UPS:
        return False
    text = str(constant_value(here, call.args[0])).replace(":", ".")
    return text in (COMPILE, _OTHER_ENTRY)


def _keeps_method(here: View, node: ast.Attribute) -> bool:
    """Tell whether a module's `compile` is given to a name or a call, to be called there."""
    above = here.above[node]
    handed = isinstance(above, ast.Call) and node in above.args
    given = isinstance(above, ast.Assign | ast.Return) or (
        handed and not _only_looked_at(here, node, above)
    )
    if not given or not isinstance(node.ctx, ast.Load) or not is_module(here, node.value):
        return False
    # A module that stores something of its own under that name has a setting there.
    return not any(
        isinstance(one, ast.Attribute) and one.attr == "compile" and isinstance(one.ctx, ast.Store)
        for one in here.nodes
    )


def _assigns_compile(here: View, node: ast.AST) -> bool:
    """Tell whether a node is `torch.compile` as the target of an assignment."""
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store | ast.Del)
        and COMPILE in origins(here, node)
    )


def _dynamic(here: View) -> Iterator[Finding]:
    """Yield the places that get torch.compile by its name as text."""
    for node in here.nodes:
        if isinstance(node, ast.Call) and node.args and _looks_up_text(here, node):
            yield doubt(here, node, "torch.compile is looked up by name", "write torch.compile")
            continue
        if isinstance(node, ast.Call) and len(node.args) >= 2:
            name = node.args[1]
            asks = isinstance(node.func, ast.Name) and node.func.id == "getattr"
            if not asks or constant_value(here, name) != "compile":
                continue
            if origin(here, node.args[0]) == "torch":
                yield doubt(here, node, "torch.compile is looked up by name", "write torch.compile")
            elif is_module(here, node.args[0]):
                method = f"{ast.unparse(node.args[0])}.compile"
                yield doubt(here, node, f"{method} is looked up by name", f"write {method}")
        elif isinstance(node, ast.Attribute) and node.attr == "compile":
            if _keeps_method(here, node):
                what = f"{ast.unparse(node)} is handed on, not called here"
                yield doubt(here, node, what, "call it here")
        elif isinstance(node, ast.Subscript):
            key = node.slice
            inside = node.value
            if (
                isinstance(key, ast.Constant)
                and key.value == "compile"
                and (
                    (
                        isinstance(inside, ast.Attribute)
                        and inside.attr == "__dict__"
                        and origin(here, inside.value) == "torch"
                    )
                    or (
                        isinstance(inside, ast.Call)
                        and isinstance(inside.func, ast.Name)
                        and inside.func.id == "vars"
                        and len(inside.args) == 1
                        and origin(here, inside.args[0]) == "torch"
                    )
                )
            ):
                yield doubt(here, node, "torch.compile is looked up by name", "write torch.compile")
