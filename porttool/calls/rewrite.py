"""The text edits that put the sites of one file behind the switch."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Sequence

from porttool.calls.find import OPTIMIZE
from porttool.calls.runtime import NEEDS, WANTED, Piece, Spelling, piece_text, pieces_in
from porttool.calls.values import Form, Site
from porttool.calls.view import View, origin, spelled, statement_of
from porttool.frozen import dataclass
from porttool.source.imports import import_names
from porttool.source.inserts import insert_definition
from porttool.source.nodes import walk
from porttool.source.scopes import identifiers
from porttool.source.syntax import (
    TextEdit,
    indent_of,
    line_start,
    span_of,
    statement_span,
    text_of,
)


class Unwritable(Exception):
    """A node stands where the form for it cannot be written; `str()` says why."""

    def __init__(self, node: ast.AST, why: str) -> None:
        self.node = node
        super().__init__(why)


@dataclass(frozen=True)
class Planned:
    """A site with its form; `expression` reads the switch in settings, None in the environment."""

    site: Site
    form: Form
    expression: str | None
    imports: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Guarded:
    """Statements that go behind the switch; `expression` as for a site."""

    statements: tuple[ast.stmt, ...]
    expression: str | None


_PIECE: dict[Form, Piece] = {
    "call": "call",
    "in place": "in place",
    "handle": "handle",
    "lazy": "lazy",
    "owner": "in place",
    "unregistered": "in place",
}


def rewrite(
    here: View, planned: Sequence[Planned], guarded: Sequence[Guarded], *, switch: str, env: str
) -> list[TextEdit]:
    """Return the edits of a file: its sites, what goes with them, and the functions they call.

    Raises Unwritable.
    """
    file = _File(here, planned, guarded, switch=switch, env=env)
    edits = [edit for one in planned for edit in _site_edits(here, file, one)]
    for one in guarded:
        edits += _guard(here, one.statements, one.expression or file.asked())
    return [*file.head(), *edits]


class _File:
    """The names that one file's edits share; they are chosen before the first edit is made."""

    def __init__(
        self,
        here: View,
        planned: Sequence[Planned],
        guarded: Sequence[Guarded],
        *,
        switch: str,
        env: str,
    ) -> None:
        self.here = here
        self.env = env
        self.present = pieces_in(here.source.tree)
        self.taken = identifiers(here.source.tree)
        self.new: dict[Piece, str] = {}
        self.names: dict[Piece, str] = {}
        self.imports = {pair for one in planned for pair in one.imports}
        passing = [
            one for one in planned if one.form in ("in place", "handle", "owner", "unregistered")
        ]
        self.given = any(one.expression for one in passing)
        self.curried = any(
            _PIECE.get(one.form) == "in place" and _curries(one.site) for one in planned
        )
        read = [*(one.expression for one in planned), *(one.expression for one in guarded)]
        asks = None in read
        if asks:
            self.names["switch"] = self._named("switch", WANTED["switch"].format(switch=switch))
        for one in planned:
            piece = _PIECE.get(one.form)
            if piece == "call" and _options(one.site):
                piece = "call with options"
            if piece is not None and piece not in self.names:
                self.names[piece] = self._named(piece, WANTED[piece])

    def _named(self, piece: Piece, wanted: str) -> str:
        for node in self.here.source.tree.body:
            if isinstance(node, ast.FunctionDef) and self.present.get(node.name) == piece:
                asks = any(one.arg == "enabled" for one in node.args.kwonlyargs)
                if piece in ("in place", "handle") and asks is not self.given:
                    continue
                if piece == "in place" and self.curried and not node.args.defaults:
                    continue
                if piece == "switch" and f'"{self.env}"' not in text_of(self.here.source, node):
                    continue
                return node.name
        name, number = wanted, 2
        while name in self.taken:
            name, number = f"{wanted}_{number}", number + 1
        self.taken.add(name)
        self.new[piece] = name
        return name

    def asked(self) -> str:
        """Return the expression that asks the environment."""
        return f"{self.names['switch']}()"

    def passed(self, one: Planned) -> str:
        """Return the argument that hands the switch on, empty where the function asks itself."""
        return f"enabled={one.expression or self.asked()}" if self.given else ""

    def head(self) -> list[TextEdit]:
        """Return the imports and definitions that the file lacks."""
        if not self.new:
            return self._imported()
        edits: list[TextEdit] = []
        spelling: dict[str, str] = {}
        wanted = {module for piece in self.new for module in NEEDS.get(piece, ())}
        if "in place" in self.new and self.curried:
            wanted.add("functools")
        for module in sorted(wanted):
            spelling[module], edit = _import(self.here, module, self.taken)
            edits += [edit] if edit is not None else []
        torch = self.here.names.spelling("torch", self.here.source.tree)
        words = Spelling(
            torch=torch or "torch",
            os=spelling.get("os", "os"),
            functools=spelling.get("functools", "functools"),
            switch=self.names.get("switch", ""),
            variable=self.env,
            imports_torch=torch is None,
        )
        order: tuple[Piece, ...] = tuple(WANTED)
        texts = [
            piece_text(piece, self.new[piece], words, given=self.given, curried=self.curried)
            for piece in order
            if piece in self.new
        ]
        text = "\n\n".join(texts)
        if re.search(r"^\t", self.here.source.text, re.MULTILINE):
            text = re.sub(
                r"^( {4})+",
                lambda match: "\t" * (len(match.group()) // 4),
                text,
                flags=re.MULTILINE,
            )
        return [
            *_merged(edits),
            *self._imported(),
            insert_definition(self.here.source, text),
        ]

    def _imported(self) -> list[TextEdit]:
        found = []
        for module, name in sorted(self.imports):
            if self.here.names.spelling(f"{module}.{name}", self.here.source.tree) is None:
                found.append(import_names(self.here.source, module, [name]))
        return found


def _curries(site: Site) -> bool:
    """Tell whether what a site calls may be called without a module, or is handed on."""
    if site.kind in ("call", "method"):
        return any(word.arg is None for word in site.call.keywords) if site.call else True
    return True


def _options(site: Site) -> bool:
    words = site.call.keywords if site.call else []
    return any(word.arg != "model" for word in words)


def _merged(edits: Iterable[TextEdit]) -> list[TextEdit]:
    """Join inserts at one place: each brought its own blank line."""
    at: dict[int, str] = {}
    for edit in edits:
        text = at.get(edit.start)
        at[edit.start] = edit.text if text is None else text.rstrip("\n") + "\n" + edit.text
    return [TextEdit(start, start, text) for start, text in at.items()]


def _import(here: View, module: str, taken: set[str]) -> tuple[str, TextEdit | None]:
    """Return how the head of a file names a module, and the import that it lacks."""
    first: ast.stmt | None = None
    last: ast.stmt | None = None
    for statement in here.source.tree.body:
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                if alias.name == module:
                    return alias.asname or module, None
        elif isinstance(statement, ast.ImportFrom):
            if statement.module == "__future__":
                last = statement
                continue
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            last = statement
            continue
        else:
            break
        first = first or statement
        if (
            isinstance(statement, ast.Import)
            and _standard(statement)
            and statement.names[0].name < module
        ):
            last = statement
    bound = here.names.binding(module, here.source.tree)
    name = module if bound is None or bound[1] == {module} else f"_{module}"
    while name != module and name in taken:
        name = f"_{name}"
    text = f"import {module}\n" if name == module else f"import {module} as {name}\n"
    source = here.source
    if first is not None and (last is None or last.lineno < first.lineno):
        start = statement_span(source, first).start
        apart = "" if _standard(first) else "\n"
        return name, TextEdit(start, start, f"{text}{apart}")
    if last is not None:
        end = statement_span(source, last).end
        opening = "" if source.text[:end].endswith(("\n", "\r")) else "\n"
        plain = isinstance(last, ast.Import)
        return name, TextEdit(end, end, f"{opening}{'' if plain else chr(10)}{text}")
    match = re.match(r"(?:[ \t\f]*#[^\r\n]*(?:\r\n|\r|\n))*", source.text)
    start = match.end() if match else 0
    return name, TextEdit(start, start, f"{text}\n")


def _standard(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Import):
        return statement.names[0].name.partition(".")[0] in sys.stdlib_module_names
    return (
        isinstance(statement, ast.ImportFrom)
        and not statement.level
        and (statement.module or "").partition(".")[0] in sys.stdlib_module_names
    )


def _site_edits(here: View, file: _File, one: Planned) -> list[TextEdit]:
    site, source = one.site, here.source
    if one.form == "guard":
        return _guard(here, (statement_of(here, site.whole),), one.expression or file.asked())
    callee = span_of(source, site.node)
    if one.form == "call":
        return _call_form(here, file, one)
    piece = _PIECE[one.form]
    name = file.names[piece]
    passed = file.passed(one) if piece in ("in place", "handle") else ""
    if origin(here, site.node) in OPTIMIZE:
        assert site.call is not None
        whole = span_of(source, site.call)
        return [
            TextEdit(whole.start, whole.end, f"{name}({_optimize_options(here, site, passed)})")
        ]
    if site.call is None:
        if not passed:
            return [TextEdit(callee.start, callee.end, name)]
        if site.kind == "decorator":
            return [TextEdit(callee.start, callee.end, f"{name}({passed})")]
        functools = _import(here, "functools", file.taken)[0]
        return [TextEdit(callee.start, callee.end, f"{functools}.partial({name}, {passed})")]
    added = _last_argument(here, site.call, passed) if passed else []
    if (
        site.kind == "method"
        and isinstance(site.node, ast.Attribute)
        and site.target is site.node.value
    ):
        return [*_method_call(here, site, name, more=bool(added)), *added]
    edits = [TextEdit(callee.start, callee.end, name), *added]
    if one.form == "owner":
        edits += _owner(here, site)
    elif one.form == "unregistered":
        edits += _unregistered(here, site)
    return edits


def _optimize_options(here: View, site: Site, passed: str) -> str:
    call = site.call
    assert call is not None
    words = [f"backend={text_of(here.source, one)}" for one in call.args]
    for word in call.keywords:
        name = "fullgraph" if word.arg == "nopython" else word.arg
        words.append(f"{name}={text_of(here.source, word.value)}")
    if (origin(here, site.node) or "").endswith("optimize_assert"):
        words.append("fullgraph=True")
    return ", ".join([*words, *([passed] if passed else [])])


def _call_form(here: View, file: _File, one: Planned) -> list[TextEdit]:
    """`torch.compile(x, mode=m)` becomes `_gated(torch.compile, x, switch, mode=m)`."""
    site, source = one.site, here.source
    assert site.call is not None
    assert site.target is not None
    name = file.names["call with options" if _options(site) else "call"]
    callee = span_of(source, site.node)
    first = _arguments_start(here, site.call)
    word = next((word for word in site.call.keywords if word.value is site.target), None)
    edits = [
        TextEdit(callee.start, callee.end, name),
        TextEdit(first, first, f"{text_of(source, site.node)}, "),
    ]
    if word is not None:
        edits[1] = TextEdit(first, span_of(source, word.value).start, edits[1].text)
    end = _argument_end(here, site.call, site.target)
    edits.append(TextEdit(end, end, f", {one.expression or file.asked()}"))
    return edits


def _arguments_start(here: View, call: ast.Call) -> int:
    """Return the offset of the first argument's first character, its parentheses included."""
    opening = here.source.text.index("(", span_of(here.source, call.func).end)
    for start, word in _words(here.source.text, opening + 1):
        if not word.startswith("#"):
            return start
    raise Unwritable(call, "the call has no arguments")


def _argument_end(here: View, call: ast.Call, argument: ast.expr) -> int:
    """Return the offset behind an argument, its parentheses included."""
    end = span_of(here.source, argument).end
    last = span_of(here.source, call).end - 1
    for start, word in _words(here.source.text, end):
        if start >= last or word == ",":
            break
        if word == ")":
            end = start + 1
    return end


def _words(text: str, position: int) -> Iterable[tuple[int, str]]:
    """Yield what stands from an offset on, comments whole, one character of everything else."""
    for match in re.compile(r"[ \t\f\r\n\\]+|(#[^\r\n]*|[^\s])").finditer(text, position):
        if match.group(1):
            yield match.start(), match.group(1)


def _last_argument(here: View, call: ast.Call, text: str) -> list[TextEdit]:
    """Add one keyword argument at the end of a call."""
    source = here.source
    closing = span_of(source, call).end - 1
    given = [*call.args, *(word.value for word in call.keywords)]
    if not given:
        return [TextEdit(closing, closing, text)]
    last = max(given, key=lambda node: span_of(source, node).end)
    end = _argument_end(here, call, last)
    return [TextEdit(end, end, f", {text}")]


def _method_call(here: View, site: Site, name: str, *, more: bool) -> list[TextEdit]:
    """`m.compile(mode=x)` becomes `name(m, mode=x)`; with `more` an argument will follow."""
    assert site.call is not None
    assert site.target is not None
    source = here.source
    whole = span_of(source, site.call)
    method = span_of(source, site.node)
    end = method.end - len("compile")
    while source.text[end - 1] != ".":
        end -= 1
    receiver_end = end - 1
    opening = source.text.index("(", method.end) + 1
    given = [*site.call.args, *site.call.keywords]
    return [
        TextEdit(whole.start, whole.start, f"{name}("),
        TextEdit(receiver_end, opening, ", " if given or more else ""),
    ]


def _owner(here: View, site: Site) -> list[TextEdit]:
    """`m.forward = name(m.forward)` becomes `name(m)`."""
    assert isinstance(site.target, ast.Attribute)
    source = here.source
    statement = span_of(source, statement_of(here, site.whole))
    target = span_of(source, site.target)
    start = span_of(source, site.whole).start
    return [
        TextEdit(statement.start, start, ""),
        TextEdit(target.start, target.end, text_of(source, site.target.value)),
    ]


def _unregistered(here: View, site: Site) -> list[TextEdit]:
    """`self.fast = name(x)` becomes an attribute that is no second submodule."""
    source = here.source
    statement = statement_of(here, site.whole)
    if not (
        isinstance(statement, ast.Assign)
        and len(statement.targets) == 1
        and isinstance(statement.targets[0], ast.Attribute)
    ):
        raise Unwritable(statement, "a second name of a submodule is bound in a way of its own")
    target = statement.targets[0]
    span = span_of(source, statement)
    value = span_of(source, statement.value)
    head = f'object.__setattr__({spelled(target.value)}, "{target.attr}", '
    return [TextEdit(span.start, value.start, head), TextEdit(span.end, span.end, ")")]


def _guard(here: View, statements: Sequence[ast.stmt], test: str) -> list[TextEdit]:
    """Put statements that follow each other behind `if test:`, indented by one step."""
    source = here.source
    for statement in statements:
        span = span_of(source, statement)
        before = source.text[line_start(source, span.start) : span.start]
        if before.strip() or not re.match(
            r"[ \t\f]*(#[^\r\n]*)?(\r|\n|$)", source.text[span.end :]
        ):
            raise Unwritable(statement, "it shares its line with another statement")
    first, last = statements[0], statements[-1]
    indent = indent_of(source, first)
    step = "\t" if indent.startswith("\t") else "    "
    inside = {
        line
        for statement in statements
        for node in walk(statement)
        if isinstance(node, ast.JoinedStr)
        or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
        for line in range(node.lineno + 1, (node.end_lineno or 0) + 1)
    }
    start = line_start(source, span_of(source, first).start)
    edits = [TextEdit(start, start, f"{indent}if {test}:\n{step}")]
    for line in range(first.lineno + 1, (last.end_lineno or 0) + 1):
        begin = source.line_starts[line - 1]
        end = source.line_starts[line] if line < len(source.line_starts) else len(source.text)
        if line not in inside and source.text[begin:end].strip():
            edits.append(TextEdit(begin, begin, step))
    return edits
