"""Where an experiment wraps objects: which calls wrap, what they wrap, and what the result is."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from porttool.errors import CannotLearn, UnparsableSource
from porttool.frozen import dataclass
from porttool.learning.generalise import Place, abstract
from porttool.learning.lesson import Seed, SeedKind, Wrapper
from porttool.learning.rewriting import names_of
from porttool.source.expressions import one_line
from porttool.source.nodes import walk
from porttool.source.scopes import top_level_name
from porttool.source.syntax import Names, Source, line_of, parents, qualname, text_of

Wrapped = Callable[[ast.expr], ast.expr | None]


@dataclass(frozen=True)
class View:
    """One side of a changed file with what is asked of it again and again."""

    source: Source
    names: Names
    above: Mapping[ast.AST, ast.AST]
    wrapped: Wrapped


def view(source: Source, wrapper: Wrapper, through: Mapping[str, int]) -> View:
    """Return a file with its names; `through` are functions of its own that wrap an argument."""
    names = names_of(source.tree)
    return View(source, names, parents(source.tree), wrapped_by(names, wrapper, through))


def wrapped_by(names: Names, wrapper: Wrapper, through: Mapping[str, int]) -> Wrapped:
    """Return the function that gives a wrapping call's wrapped expression, None for all else."""

    def wrapped(node: ast.expr) -> ast.expr | None:
        if not isinstance(node, ast.Call):
            return None
        mapped = mapped_call(node)
        if mapped is not None and wrapper.is_called(names.qualified(mapped[0], node)):
            return mapped[1]
        position = through.get(node.func.id) if isinstance(node.func, ast.Name) else None
        if wrapper.is_called(names.qualified(node.func, node)):
            position = 0
        if position is None:
            return None
        if position < len(node.args) and not isinstance(node.args[position], ast.Starred):
            return node.args[position]
        named = [word.value for word in node.keywords if word.arg in ("model", "module")]
        return named[0] if named else None

    return wrapped


def mapped_call(node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    """Return the function and the iterable of `list(map(function, iterable))`, None of all else."""
    if not (isinstance(node, ast.Call) and ast.unparse(node.func) == "list" and not node.keywords):
        return None
    inner = node.args[0] if len(node.args) == 1 else None
    if not (isinstance(inner, ast.Call) and ast.unparse(inner.func) == "map"):
        return None
    if len(inner.args) != 2 or inner.keywords or isinstance(inner.args[1], ast.Starred):
        return None
    return inner.args[0], inner.args[1]


def wrapping_functions(
    source: Source, existed: frozenset[str], wrapper: Wrapper
) -> Mapping[str, int]:
    """Return the added top-level functions that wrap one of their arguments, and which one."""
    names = names_of(source.tree)
    wrapped = wrapped_by(names, wrapper, {})
    found: dict[str, int] = {}
    for statement in source.tree.body:
        name = top_level_name(statement)
        if name is None or name in existed:
            continue
        if isinstance(statement, ast.FunctionDef):
            positional = (*statement.args.posonlyargs, *statement.args.args)
            parameters = [argument.arg for argument in positional]
            for node in walk(statement):
                inner = wrapped(node) if isinstance(node, ast.expr) else None
                if isinstance(inner, ast.Name) and inner.id in parameters:
                    found[name] = parameters.index(inner.id)
        elif isinstance(statement, ast.Assign) and _stands_for(statement.value, names, wrapper):
            found[name] = 0
    return found


def _stands_for(value: ast.expr, names: Names, wrapper: Wrapper) -> bool:
    """Tell whether a value is the wrapper itself, or `functools.partial` of it."""
    if wrapper.is_called(names.qualified(value, value)):
        return True
    return (
        isinstance(value, ast.Call)
        and names.qualified(value.func, value) == "functools.partial"
        and bool(value.args)
        and wrapper.is_called(names.qualified(value.args[0], value))
    )


def place_of(here: View, node: ast.AST) -> Place:
    """Return what names mean around a node."""
    local: set[str] = set()
    owner: ast.ClassDef | None = None
    above: ast.AST | None = here.above.get(node)
    while above is not None:
        if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            local |= {arg.arg for arg in ast.walk(above.args) if isinstance(arg, ast.arg)}
            local |= _stored(above)
        elif isinstance(above, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            local |= _stored(above)
        elif isinstance(above, ast.ClassDef) and owner is None:
            owner = above
        above = here.above.get(above)
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    members = [one for one in owner.body if isinstance(one, functions)] if owner else []
    top = {name for one in here.source.tree.body if (name := top_level_name(one))}
    return Place(
        names=here.names,
        at=node,
        locals=frozenset(local),
        top_level=frozenset(top),
        owner=owner.name if owner else None,
        methods=frozenset(member.name for member in members),
    )


def _stored(node: ast.AST) -> set[str]:
    names = (name for name in ast.walk(node) if isinstance(name, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Store)}


def expression_seed(here: View, node: ast.expr, inner: ast.expr) -> Seed:
    """Return the seed of an expression that wraps `inner`, in place of `inner` alone."""
    # What wraps may be inside: `[wrap(net) for net in nets]` in place of `nets`.
    wraps = next((call for call, _ in wrappings(here, node)), node)
    kind, target = _result(here, wraps)
    about = one_line(text_of(here.source, inner))
    try:
        made = abstract(text_of(here.source, node), about, place_of(here, node))
    except (SyntaxError, UnparsableSource) as error:
        raise CannotLearn(
            f"what is wrapped in `{one_line(text_of(here.source, node))}` is no expression of its "
            "own",
            where=f"{here.source.path}:{line_of(node)} (experiment)",
            why=f"`{about}` cannot stand in another place as it is",
            next="put it in parentheses in the experiment's commit, or give it a name first",
        ) from error
    return Seed(
        path=here.source.path,
        scope=_scope(here, node),
        target=target,
        kind=kind,
        constructor=about,
        call=made.after,
        line=line_of(node),
        key=0,
        requires=made.requires,
        spelled=made.spelled,
    )


def decorator_seed(here: View, definition: ast.AST, decorator: ast.expr) -> Seed:
    """Return the seed of a wrapping decorator."""
    name: str = definition.name  # type: ignore[attr-defined]
    around: list[ast.expr] = definition.decorator_list  # type: ignore[attr-defined]
    made = abstract(text_of(here.source, decorator), name, place_of(here, decorator))
    text = made.after
    call = f"{text}($X)"
    if isinstance(decorator, ast.Call):
        # `@compile(mode=m)` gets the function last of all: compile($X, mode=m).
        head, _, tail = text.partition("(")
        call = f"{head}($X)" if tail == ")" else f"{head}($X, {tail}"
    return Seed(
        path=here.source.path,
        scope=_scope(here, here.above[definition]),
        target=name,
        kind="decorator",
        constructor=name,
        call=call,
        line=line_of(decorator),
        key=0,
        statement=f"@{one_line(text_of(here.source, decorator))}\n",
        follows="\n".join("" if one is decorator else ast.unparse(one) for one in around),
        requires=made.requires,
        spelled=made.spelled,
    )


def in_place_call(here: View, statement: ast.stmt, wrapper: Wrapper) -> ast.Call | None:
    """Return the call of a statement like `self.net.compile()`, which wraps in place."""
    method = wrapper.callee.rpartition(".")[2]
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return None
    call = statement.value
    if not isinstance(call.func, ast.Attribute) or call.func.attr != method:
        return None
    receiver = call.func.value
    imported = here.names.qualified(receiver, receiver) is not None
    return None if imported or isinstance(receiver, ast.Constant) else call


def statement_seeds(
    here: View, statement: ast.stmt, text: str, follows: str | None, wrapper: Wrapper
) -> tuple[Seed, ...]:
    """Return the seeds of an added statement that only re-binds or changes objects that exist.

    Empty when the statement wraps something that it makes itself, or binds a new name: without it
    the program would lack that name.
    """
    call = in_place_call(here, statement, wrapper)
    if call is not None and isinstance(call.func, ast.Attribute):
        receiver = call.func.value
        seed = expression_seed(here, call, receiver)
        target = text_of(here.source, receiver)
        return (replace(seed, kind="statement", target=target, statement=text, follows=follows),)
    every = _each_in_place(here, statement, wrapper) or _every_element(here, statement)
    if every is not None:
        return (replace(every, statement=text, follows=follows),)
    seeds = []
    for node, inner in wrappings(here, statement):
        seed = expression_seed(here, node, inner)
        if seed.target is not None and not _exists(statement, seed.target):
            return ()
        if (seed.target or "").endswith("]") and seed.target != seed.constructor:
            return ()
        if not isinstance(inner, ast.Name | ast.Attribute | ast.Subscript):
            return ()
        kind: SeedKind = "rebind" if seed.target is not None else "statement"
        seeds.append(replace(seed, kind=kind, statement=text, follows=follows))
    return tuple(seeds)


def _each_in_place(here: View, statement: ast.stmt, wrapper: Wrapper) -> Seed | None:
    """Return the seed of a loop that does nothing but call `compile()` of each element."""
    if not isinstance(statement, ast.For) or statement.orelse or len(statement.body) != 1:
        return None
    call = in_place_call(here, statement.body[0], wrapper)
    receiver = call.func.value if call and isinstance(call.func, ast.Attribute) else None
    over = statement.iter
    if isinstance(over, ast.Call) and isinstance(over.func, ast.Attribute) and not over.args:
        over = over.func.value if over.func.attr == "values" else over
    if call is None or receiver is None or not isinstance(over, ast.Name | ast.Attribute):
        return None
    if ast.unparse(receiver) != ast.unparse(statement.target):
        return None
    held = text_of(here.source, over)
    seed = expression_seed(here, call, receiver)
    return replace(seed, kind="statement", target=held, constructor=held)


def _every_element(here: View, statement: ast.stmt) -> Seed | None:
    """Return the seed of a loop that does nothing but wrap every element of what it goes over.

    It is found again by the container, and its call is what gives one with wrapped elements.
    """
    if not isinstance(statement, ast.For) or statement.orelse or len(statement.body) != 1:
        return None
    store = statement.body[0]
    if not isinstance(store, ast.Assign) or not isinstance(store.targets[0], ast.Subscript):
        return None
    inner = here.wrapped(store.value)
    target, held = store.targets[0], store.targets[0].value
    found = _gone_over(statement, ast.unparse(held))
    if inner is None or found is None or len(store.targets) > 1:
        return None
    shape, key, element = found
    names = {name.id for name in ast.walk(statement.target) if isinstance(name, ast.Name)}
    if ast.unparse(target.slice) != key or ast.unparse(inner) not in (element, ast.unparse(target)):
        return None
    seed = expression_seed(here, store.value, inner)
    if names & set(re.findall(r"\w+", seed.call)):
        return None  # the wrapping depends on which element it is
    wrapping = seed.call.replace("$X", "element")
    call = f"[{wrapping} for element in $X]"
    if shape == "dict":
        call = f"{{key: {wrapping} for key, element in $X.items()}}"
    container = text_of(here.source, held)
    return replace(seed, kind="rebind", target=container, constructor=container, call=call)


def _gone_over(loop: ast.For, held: str) -> tuple[str, str, str] | None:
    """Return a container's shape, and what a loop over it calls the key and the element."""
    over, target = ast.unparse(loop.iter), ast.unparse(loop.target)
    pair = [ast.unparse(one) for one in getattr(loop.target, "elts", ())]
    if over == f"enumerate({held})" and len(pair) == 2:
        return "list", pair[0], pair[1]
    if over == f"range(len({held}))":
        return "list", target, ""
    if over in (f"{held}.items()", f"list({held}.items())") and len(pair) == 2:
        return "dict", pair[0], pair[1]
    if over in (held, f"{held}.keys()", f"list({held})", f"list({held}.keys())"):
        return "dict", target, ""
    return None


def wrappings(here: View, *roots: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield (wrapping call, wrapped expression) below some nodes, outer before inner."""
    for root in roots:
        for node in walk(root):
            inner = here.wrapped(node) if isinstance(node, ast.expr) else None
            if inner is not None and isinstance(node, ast.expr):
                yield node, inner


def _exists(statement: ast.stmt, target: str) -> bool:
    """Tell whether a statement also reads what it binds (or the container that it binds into)."""
    wanted = ast.parse(target, mode="eval").body
    while isinstance(wanted, ast.Subscript):
        wanted = wanted.value
    text = ast.unparse(wanted)
    for node in ast.walk(statement):
        reads = isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
        # `self.nets[i] = ...` loads self.nets to store into it: that container exists.
        if reads and ast.unparse(node) == text:
            return True
    return False


def _scope(here: View, node: ast.AST) -> str:
    return qualname(node, dict(here.above))


def _result(here: View, node: ast.expr) -> tuple[SeedKind, str | None]:
    """Return what the wrapped object becomes, and the text of what it is bound to."""
    kind: SeedKind | None = None
    child: ast.AST = node
    while not isinstance(child, ast.stmt):
        above = here.above[child]
        holder = here.above.get(above)
        if isinstance(above, ast.Tuple) and isinstance(holder, ast.Assign):
            targets = holder.targets[0]
            if isinstance(targets, ast.Tuple) and len(targets.elts) == len(above.elts):
                target = targets.elts[above.elts.index(child)]  # type: ignore[arg-type]
                return kind or "object", text_of(here.source, target)
        if isinstance(
            above, ast.List | ast.Set | ast.Tuple | ast.ListComp | ast.SetComp | ast.GeneratorExp
        ):
            kind = kind or "list"
        elif isinstance(above, ast.Dict | ast.DictComp):
            kind = kind or "dict"
        elif isinstance(above, ast.Call) and child is not above.func:
            kind = kind or "argument"
        elif isinstance(above, ast.Return | ast.Yield | ast.Lambda):
            return kind or "return", None
        elif isinstance(above, ast.Assign):
            return kind or "object", text_of(here.source, above.targets[0])
        elif isinstance(above, ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
            return kind or "object", text_of(here.source, above.target)
        child = above
    return kind or "object", None
