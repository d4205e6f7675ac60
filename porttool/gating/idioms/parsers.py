"""argparse: which parser a namespace comes from, its flags, and the switch as one more of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from porttool.frozen import dataclass
from porttool.gating.idioms.lookup import (
    Sources,
    argument_for,
    binding_function,
    calls_of,
    class_around,
    definition,
    is_parameter,
    qualified,
    returned,
    simple_assignment,
)
from porttool.gating.idioms.values import Holder
from porttool.source.imports import import_names
from porttool.source.nodes import nodes_of
from porttool.source.scopes import Function, own_nodes
from porttool.source.syntax import (
    Names,
    Source,
    TextEdit,
    indent_of,
    line_of,
    parents,
    qualname,
    statement_span,
    text_of,
)

PARSING = ("parse_args", "parse_known_args", "parse_intermixed_args", "parse_known_intermixed_args")
_PARSER = "argparse.ArgumentParser"
_BOOLEAN = "argparse.BooleanOptionalAction"
_GROUPS = ("add_argument_group", "add_mutually_exclusive_group")
_PARTS = (*_GROUPS, "add_subparsers", "add_parser")
_HARMLESS = ("argcomplete.autocomplete", "builtins.print", "builtins.len", "builtins.isinstance")
_MAX_DEPTH = 6


@dataclass(frozen=True)
class Parser:
    """A variable that holds a parser, and where that came from when another function made it."""

    source: Source
    scope: Function | ast.Module
    name: str
    origin: Parser | None = None

    def chain(self) -> Iterator[Parser]:
        """Yield this variable, then the one in the function that made the parser, and so on."""
        here: Parser | None = self
        while here is not None:
            yield here
            here = here.origin

    @property
    def holder(self) -> Holder:
        """The place at which a flag is declared: the nearest one that declares some."""
        home = next((part for part in self.chain() if _own_adds(part)), None)
        home = home or list(self.chain())[-1]
        scope = qualname(home.scope, parents(home.source.tree))
        statement = _creation(home)
        return Holder(
            home.source.path,
            f"{scope}.{home.name}" if scope else home.name,
            line_of(statement) if statement else 1,
        )


@dataclass(frozen=True)
class _Flag:
    options: tuple[str, ...]
    dest: str
    call: ast.Call
    source: Source


def parser_of(
    sources: Sources, source: Source, expression: ast.expr, depth: int = _MAX_DEPTH
) -> Parser | None:
    """Return the parser that an expression holds; None where nobody can tell that it is one."""
    if isinstance(expression, ast.Call):
        made = _made(sources, source, expression, "", depth)
        return made if isinstance(made, Parser) else None
    if depth == 0 or not isinstance(expression, ast.Name):
        return None
    function = binding_function(source, expression.id, expression)
    scope: Function | ast.Module = function or source.tree
    if function is not None and is_parameter(function, expression.id):
        owner = class_around(source, function)
        found = set()
        for call in calls_of(sources, source, function):
            value = argument_for(call.node, function, expression.id, bound=owner is not None)
            if value is None:
                return None
            found.add(parser_of(sources, call.source, value, depth - 1))
        origin = found.pop() if len(found) == 1 else None
        return Parser(source, function, expression.id, origin) if origin else None
    origins = []
    for statement in _statements(scope):
        target, value, _ = simple_assignment(statement)
        if isinstance(target, ast.Name) and target.id == expression.id and value is not None:
            origins.append(_made(sources, source, value, expression.id, depth))
    makers = [origin for origin in origins if origin != "same"]
    if len(origins) != _num_stores(scope, expression.id) or len(makers) != 1:
        return None
    if makers == ["unknown"]:
        return None
    made = makers[0]
    return Parser(source, scope, expression.id, made if isinstance(made, Parser) else None)


def _num_stores(scope: Function | ast.Module, name: str) -> int:
    return sum(
        isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)
        for node in own_nodes(scope.body)
    )


def _made(sources: Sources, source: Source, value: ast.expr, name: str, depth: int) -> Parser | str:
    """Say what an assigned value is: a new parser, the "same" one, another's parser, "unknown"."""
    if not isinstance(value, ast.Call):
        return "unknown"
    if is_parser_class(sources, source, value.func):
        return "new"
    meant = definition(sources, source, value.func)
    if meant is None or not isinstance(meant.node, ast.FunctionDef):
        return "unknown"
    results = returned(meant.node)
    names = {result.id for result in results if isinstance(result, ast.Name)}
    if len(names) != 1 or len(names) != len({ast.dump(r) if r else "" for r in results}):
        return "unknown"
    result = next(result for result in results if isinstance(result, ast.Name))
    if is_parameter(meant.node, result.id):
        given = argument_for(value, meant.node, result.id, bound=False)
        return "same" if isinstance(given, ast.Name) and given.id == name else "unknown"
    return parser_of(sources, meant.source, result, depth - 1) or "unknown"


def is_parser_class(sources: Sources, source: Source, callee: ast.expr) -> bool:
    """Tell whether calling something makes an argparse parser, a subclass of the project's too."""
    if qualified(source, callee) == _PARSER:
        return True
    meant = definition(sources, source, callee)
    if meant is None or not isinstance(meant.node, ast.ClassDef):
        return False
    methods = {node.name for node in meant.node.body if isinstance(node, Function)}
    plain = not methods & {"add_argument", *PARSING}
    return plain and any(qualified(meant.source, base) == _PARSER for base in meant.node.bases)


def _statements(scope: Function | ast.Module) -> Iterator[ast.stmt]:
    for node in own_nodes(scope.body):
        if isinstance(node, ast.stmt):
            yield node


def _creation(parser: Parser) -> ast.stmt | None:
    """Return the statement that first binds the variable; None for a parameter."""
    for statement in _statements(parser.scope):
        target, value, _ = simple_assignment(statement)
        if isinstance(target, ast.Name) and target.id == parser.name and value is not None:
            return statement
    return None


def _aliases(
    scope: Function | ast.Module, name: str, methods: tuple[str, ...] = _PARTS
) -> set[str]:
    """Return the variables of a scope that hold the parser, its groups or its sub-parsers."""
    names = {name}
    grown = True
    while grown:
        grown = False
        for statement in _statements(scope):
            target, value, _ = simple_assignment(statement)
            made = isinstance(value, ast.Call) and _root(value, methods) in names
            if made and isinstance(target, ast.Name) and target.id not in names:
                names.add(target.id)
                grown = True
    return names


def _root(expression: ast.expr, methods: tuple[str, ...] = _PARTS) -> str | None:
    """Return the variable that `parser.add_subparsers().add_parser("x")` starts from."""
    while isinstance(expression, ast.Call) and isinstance(expression.func, ast.Attribute):
        if expression.func.attr not in methods:
            return None
        expression = expression.func.value
    return expression.id if isinstance(expression, ast.Name) else None


def _adds(nodes: Sequence[ast.stmt], names: set[str]) -> Iterator[ast.Call]:
    """Yield the `add_argument` calls on any of the variables."""
    for node in own_nodes(nodes):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "add_argument"
            and _root(node.func.value) in names
        ):
            yield node


def _own_adds(parser: Parser) -> list[ast.Call]:
    return list(_adds(parser.scope.body, _aliases(parser.scope, parser.name)))


def _flags(
    sources: Sources, source: Source, scope: Function | ast.Module, name: str, depth: int
) -> Iterator[_Flag | str]:
    """Yield the flags that a scope gives to a parser, and what about them cannot be seen."""
    names = _aliases(scope, name)
    for call in _adds(scope.body, names):
        options = [a.value for a in call.args if isinstance(a, ast.Constant)]
        words = {word.arg: word.value for word in call.keywords}
        if len(options) != len(call.args) or None in words:
            yield f"the flags of line {call.lineno} are computed"
            continue
        texts = tuple(option for option in options if isinstance(option, str))
        dest = words.get("dest")
        if isinstance(dest, ast.Constant):
            yield _Flag(texts, str(dest.value), call, source)
            continue
        long = next((text for text in texts if text.startswith("--")), texts[0] if texts else "")
        yield _Flag(texts, long.lstrip("-").replace("-", "_"), call, source)
    for node in own_nodes(scope.body):
        if not isinstance(node, ast.Call):
            continue
        of_parser = isinstance(node.func, ast.Attribute) and _root(node.func.value) in names
        if of_parser and isinstance(node.func, ast.Attribute) and node.func.attr == "set_defaults":
            for word in node.keywords:
                if word.arg is not None:
                    yield _Flag((), word.arg, node, source)
        yield from _handed_on(sources, source, node, names, depth)


def _handed_on(
    sources: Sources, source: Source, call: ast.Call, names: set[str], depth: int
) -> Iterator[_Flag | str]:
    """Yield what a call that is given the parser may add to it, and what `parents=` bring along."""
    inherited = next((word.value for word in call.keywords if word.arg == "parents"), None)
    if isinstance(inherited, ast.List | ast.Tuple):
        for element in inherited.elts:
            parent = parser_of(sources, source, element)
            if parent is None:
                yield f"`{ast.unparse(element)}` on line {call.lineno} brings flags along unseen"
                continue
            for part in parent.chain():
                yield from _flags(sources, part.source, part.scope, part.name, depth - 1)
    given = [a for a in call.args if isinstance(a, ast.Name) and a.id in names]
    given += [
        w.value for w in call.keywords if isinstance(w.value, ast.Name) and w.value.id in names
    ]
    if not given or qualified(source, call.func) in _HARMLESS:
        return
    meant = definition(sources, source, call.func)
    if meant is None or not isinstance(meant.node, ast.FunctionDef) or depth == 0:
        yield f"`{ast.unparse(call)}` may add flags that cannot be seen"
        return
    for argument in [*meant.node.args.posonlyargs, *meant.node.args.args]:
        value = argument_for(call, meant.node, argument.arg, bound=False)
        if value in given:
            yield from _flags(sources, meant.source, meant.node, argument.arg, depth - 1)


def flag_for(name: str) -> str:
    """Return the flag of a switch: `--compile-model`."""
    return "--" + name.strip("_").replace("_", "-")


def flag_objection(sources: Sources, parser: Parser, name: str) -> str | None:
    """Return why the switch cannot become a flag of a parser; "" where the flag is there, off."""
    flag = flag_for(name)
    wanted = (flag, "--no-" + flag[2:])
    declared = False
    for part in parser.chain():
        for prefix in _prefix_chars(part):
            if "-" not in prefix:
                return f"the flags of {part.name} do not begin with `-`"
        for found in _flags(sources, part.source, part.scope, part.name, _MAX_DEPTH):
            if isinstance(found, str):
                return f"{part.source.path}: {found}"
            where = f"{found.source.path}:{found.call.lineno}"
            if flag in found.options or found.dest == name:
                why = _not_the_switch(found, name)
                if why is not None:
                    return f"`{name}` is there already ({where}) and {why}"
                declared = True
                continue
            for option in found.options:
                alike = [w for w in wanted if w.startswith(option) or option.startswith(w)]
                if option.startswith("--") and alike:
                    return f"`{option}` ({where}) and `{alike[0]}` begin alike"
    return "" if declared else None


def _not_the_switch(flag: _Flag, name: str) -> str | None:
    """Return why a flag that is there is not the switch, off by default."""
    words = {word.arg: word.value for word in flag.call.keywords}
    action = words.get("action")
    default = words.get("default")
    off = default is None or (isinstance(default, ast.Constant) and default.value in (False, None))
    if not flag.options:
        value = words.get(flag.dest)
        return (
            None if isinstance(value, ast.Constant) and value.value is False else "gets a default"
        )
    boolean = isinstance(action, ast.Constant) and action.value == "store_true"
    boolean |= action is not None and qualified(flag.source, action) == _BOOLEAN
    if not boolean:
        return f"is no switch: `{ast.unparse(flag.call)}`"
    if not off:
        return f"is on by default: `{ast.unparse(flag.call)}`"
    return None if flag.dest == name else f"is read as `{flag.dest}`"


def _prefix_chars(parser: Parser) -> Iterator[str]:
    statement = _creation(parser)
    value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
    for word in value.keywords if isinstance(value, ast.Call) else []:
        if word.arg == "prefix_chars":
            yield str(word.value.value) if isinstance(word.value, ast.Constant) else ""


def known_dests(sources: Sources, parser: Parser) -> set[str] | None:
    """Return the attributes of the parser's namespace; None where some cannot be seen."""
    found: set[str] = set()
    for part in parser.chain():
        for flag in _flags(sources, part.source, part.scope, part.name, _MAX_DEPTH):
            if isinstance(flag, str):
                return None
            found.add(flag.dest)
    return found


def parsers_in(sources: Sources, source: Source) -> list[Parser]:
    """Return the parsers of a file whose arguments are parsed there."""
    found: dict[Holder, Parser] = {}
    for node in nodes_of(source.tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in PARSING
        ):
            parser = parser_of(sources, source, node.func.value)
            if parser is not None:
                found[parser.holder] = parser
    return list(found.values())


def declare_flag(source: Source, holder: Holder, name: str, *, line_length: int) -> list[TextEdit]:
    """Return the edits that add the switch behind the last flag of a parser."""
    scope, variable = _place(source, holder)
    statements = _block(scope, variable)
    names = _aliases(scope, variable, _GROUPS)
    parse = next(
        (i for i, node in enumerate(statements) if _parses(node, variable)), len(statements)
    )
    own = [i for i, node in enumerate(statements[:parse]) if any(_adds([node], {variable}))]
    any_of = [i for i, node in enumerate(statements[:parse]) if any(_adds([node], names))]
    created = [i for i, node in enumerate(statements[:parse]) if _binds(node, variable)]
    index = max([*(own or any_of), *created], default=None)
    if index is None:
        raise ValueError(f"{source.path}: {holder.name} is not bound in its own block")
    anchor = statements[index]
    span = statement_span(source, anchor)
    spelled = Names(source.tree).spelling(_BOOLEAN, anchor)
    edits = []
    if spelled is None:
        spelled = _BOOLEAN.rpartition(".")[2]
        edits.append(import_names(source, "argparse", [spelled], line_length=line_length))
    quote = "'" if _quotes_singly(source, scope.body, names) else '"'
    flag = f"{quote}{flag_for(name)}{quote}"
    call = f"{variable}.add_argument({flag}, action={spelled}, default=False)"
    line = indent_of(source, anchor) + call
    opening = "" if source.text[: span.end].endswith(("\n", "\r")) else "\n"
    edits.append(TextEdit(span.end, span.end, f"{opening}{line}\n"))
    return edits


def _place(source: Source, holder: Holder) -> tuple[Function | ast.Module, str]:
    scope_name, _, variable = holder.name.rpartition(".")
    above = parents(source.tree)
    for node in nodes_of(source.tree):
        if isinstance(node, Function) and qualname(node, above) == scope_name:
            return node, variable
    return source.tree, variable


def _block(scope: Function | ast.Module, variable: str) -> list[ast.stmt]:
    """Return the block that binds the variable first; the function's own for a parameter."""
    for node in [scope, *_statements(scope)]:
        for name in ("body", "orelse", "handlers", "finalbody"):
            block = getattr(node, name, [])
            if any(isinstance(part, ast.stmt) and _binds(part, variable) for part in block):
                return list(block)
    return scope.body


def _parses(statement: ast.stmt, variable: str) -> bool:
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in PARSING
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == variable
        for node in own_nodes([statement])
    )


def _binds(statement: ast.stmt, variable: str) -> bool:
    target, _, _ = simple_assignment(statement)
    return isinstance(target, ast.Name) and target.id == variable


def _quotes_singly(source: Source, body: list[ast.stmt], names: set[str]) -> bool:
    texts = [text_of(source, call.args[0]) for call in _adds(body, names) if call.args]
    return bool(texts) and texts[-1].startswith("'")
