"""Python sources as values: parsed once, edited by character spans, encoded back as they came.

Analysis runs on the standard `ast`. An edit replaces a span of the text, so whatever no edit
covers keeps its bytes: line ends, a byte-order mark, form feeds, the declared encoding, comments
and formatting.
"""

from __future__ import annotations

import ast
import builtins
import io
import re
import tokenize
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field
from functools import lru_cache
from typing import Any

from porttool.errors import NeedsNewerPython, UnparsableSource
from porttool.frozen import dataclass
from porttool.source.depth import MAX_DEPTH, too_deep
from porttool.source.newer import needed_python
from porttool.source.nodes import KEPT, holders, nodes_of
from porttool.source.scopes import BINDING, COMPREHENSIONS

Scope = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_IMPORTS = (ast.Import, ast.ImportFrom)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
SCOPES = (ast.Module, ast.ClassDef, *_FUNCTIONS)
_Meanings = Mapping[str, set[str | None]]
_FALLBACK = ""  # what a name means that is None for want of an import
MAX_BYTES = 4 << 20  # more is data; a syntax tree takes a hundred times the memory of its text
LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class Source:
    """A parsed file.

    `text` keeps its line ends and has no byte-order mark; spans count its characters.
    """

    path: str
    data: bytes
    text: str
    encoding: str
    bom: bool
    newline: str
    tree: ast.Module
    line_starts: tuple[int, ...] = field(repr=False)


@dataclass(frozen=True, order=True)
class Span:
    """Characters `start` (included) to `end` (not included) of `Source.text`."""

    start: int
    end: int

    def contains(self, other: Span) -> bool:
        """Tell whether `other` lies inside, ends included."""
        return self.start <= other.start and other.end <= self.end


@dataclass(frozen=True)
class TextEdit:
    """Replace characters `start` to `end` by `text`; `start == end` inserts.

    "\\n" in `text` becomes the file's line end.
    """

    start: int
    end: int
    text: str


@lru_cache(maxsize=KEPT)
def parse_source(path: str, data: bytes) -> Source:
    """Decode and parse a file; the same content gives the same value, which nobody changes.

    Raises:
        UnparsableSource: with the line, when decoding or parsing fails.
    """
    if len(data) > MAX_BYTES:
        raise _unparsable(path, None, f"it has {len(data)} bytes, more than the {MAX_BYTES} read")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        bom = encoding == "utf-8-sig"
        encoding = "utf-8" if bom else encoding
        text = (data[3:] if bom else data).decode(encoding)
        tree = ast.parse(text)
    except SyntaxError as error:
        message, line = error.msg, error.lineno
        readable = data.decode("utf-8", "replace")
        needed = needed_python(readable, line, message)
        if needed is not None:
            raise NeedsNewerPython(path, line, message, needed) from error
        raise _unparsable(path, line, message) from error
    except UnicodeDecodeError as error:
        line = 1 + len(LINE_END.findall(data[: error.start].decode("latin-1")))
        raise _unparsable(path, line, str(error)) from error
    except (LookupError, ValueError) as error:
        raise _unparsable(path, None, str(error)) from error
    except (RecursionError, MemoryError) as error:
        # Python's parser calls its own stack's end a lack of memory.
        raise _unparsable(path, None, "it is nested too deeply for Python to parse it") from error
    line = too_deep(tree)
    if line is not None:
        raise _unparsable(path, line, f"it is nested more than {MAX_DEPTH} levels deep there")
    ends = [match.end() for match in LINE_END.finditer(text)]
    first = LINE_END.search(text)
    return Source(
        path=path,
        data=data,
        text=text,
        encoding=encoding,
        bom=bom,
        newline=first.group() if first else "\n",
        tree=tree,
        line_starts=(0, *ends),
    )


def _unparsable(path: str, line: int | None, why: str) -> UnparsableSource:
    return UnparsableSource(
        f"{path} cannot be parsed",
        where=f"{path}:{line}" if line else path,
        why=why,
        next="fix the file on that side, or leave it out of the port",
    )


def _offset(source: Source, line: int, column: int) -> int:
    """Turn a 1-based line and a column in UTF-8 bytes, as `ast` counts, into a character offset."""
    start = source.line_starts[line - 1]
    if column == 0:
        return start
    end = source.line_starts[line] if line < len(source.line_starts) else len(source.text)
    row = source.text[start:end]
    if row.isascii():
        return start + column
    return start + len(row.encode()[:column].decode(errors="replace"))


def span_of(source: Source, node: ast.AST) -> Span:
    """Return the span of a node that has positions; enclosing parentheses are not part of it."""
    start = _offset(source, node.lineno, node.col_offset)  # type: ignore[attr-defined]
    return Span(start, _offset(source, node.end_lineno, node.end_col_offset))  # type: ignore[attr-defined]


def text_of(source: Source, node: ast.AST) -> str:
    """Return the node's own text, line ends as in the file."""
    span = span_of(source, node)
    return source.text[span.start : span.end]


def line_of(node: ast.AST) -> int:
    """Return the 1-based line on which the node starts, its decorators apart."""
    return int(node.lineno)  # type: ignore[attr-defined]


def line_at(source: Source, offset: int) -> int:
    """Return the 1-based line that holds a character offset."""
    return bisect_right(source.line_starts, offset)


def line_start(source: Source, offset: int) -> int:
    """Return the offset at which the line holding `offset` starts."""
    return source.line_starts[line_at(source, offset) - 1]


def statement_span(source: Source, statement: ast.stmt) -> Span:
    """Return the whole lines of a statement, with decorators, indent and trailing comment.

    A statement that shares its line with another (`a; b`) gives its bare span.
    """
    bare = span_of(source, statement)
    decorators = getattr(statement, "decorator_list", [])
    if decorators:
        # The decorator's expression starts behind its "@".
        first = span_of(source, decorators[0]).start
        bare = Span(source.text.rindex("@", 0, first), bare.end)
    start = line_start(source, bare.start)
    last = line_at(source, bare.end)
    end = source.line_starts[last] if last < len(source.line_starts) else len(source.text)
    head, tail = source.text[start : bare.start], source.text[bare.end : end]
    if head.strip(" \t\f") or not re.fullmatch(r"[ \t\f]*(#[^\r\n]*)?(\r\n|\r|\n)?", tail):
        return bare
    return Span(start, end)


def indent_of(source: Source, statement: ast.stmt) -> str:
    """Return the white space in front of a statement's first line."""
    start = line_start(source, span_of(source, statement).start)
    match = re.compile(r"[ \t\f]*").match(source.text, start)
    return match.group() if match else ""


def apply_edits(source: Source, edits: Iterable[TextEdit]) -> bytes:
    """Return the file with the edits applied, in its own line ends, encoding and byte-order mark.

    Where a file mixes line ends, an edit takes the one of the line that it starts on. No edit gives
    back the very bytes. Inserts at one place keep their given order.

    Raises:
        ValueError: when two edits overlap: nested ones are for the caller to compose.
        UnparsableSource: when the file's encoding cannot hold an edit's text.
    """
    ordered = sorted(edits, key=lambda edit: (edit.start, edit.end))
    if not ordered:
        return source.data
    parts: list[str] = []
    position = 0
    for edit in ordered:
        if edit.start < position:
            raise ValueError(f"{source.path}: two edits overlap at character {edit.start}")
        parts.append(source.text[position : edit.start])
        parts.append(LINE_END.sub(_newline_at(source, edit.start), edit.text))
        position = edit.end
    parts.append(source.text[position:])
    text = "".join(parts)
    try:
        data = text.encode(source.encoding)
    except UnicodeEncodeError as error:
        raise UnparsableSource(
            f"{source.path} is {source.encoding} and cannot hold the inserted text",
            where=source.path,
            why=str(error),
            next="change the file's coding line on the branch that it is ported to",
        ) from error
    return b"\xef\xbb\xbf" + data if source.bom else data


def _newline_at(source: Source, offset: int) -> str:
    """Return how the line that holds an offset ends, or the one before it at the end of a file."""
    number = line_at(source, offset)
    if number == len(source.line_starts):
        number -= 1
    if number == 0:
        return source.newline
    end = source.line_starts[number]
    for newline in ("\r\n", "\r", "\n"):
        if source.text.endswith(newline, 0, end):
            return newline
    return source.newline


def dump(node: ast.AST) -> str:
    """Return the structure of a tree as text: equal texts are equal trees, wherever they stand."""
    return ast.dump(node, annotate_fields=False)


def same_tree(left: ast.AST, right: ast.AST) -> bool:
    """Tell whether two trees are the same but for positions, formatting and comments."""
    todo: list[tuple[ast.AST, ast.AST]] = [(left, right)]
    while todo:
        one, other = todo.pop()
        if one.__class__ is not other.__class__:
            return False
        for name in one._fields:
            mine: Any = getattr(one, name, None)
            theirs: Any = getattr(other, name, None)
            # The parser gives equal names as one object, and so everything without parts.
            if mine is theirs:
                continue
            kind = mine.__class__
            if kind is not theirs.__class__:
                return False
            if isinstance(mine, ast.AST):
                todo.append((mine, theirs))
            elif kind is list:
                if len(mine) != len(theirs):
                    return False
                for item, its in zip(mine, theirs, strict=True):
                    if isinstance(item, ast.AST):
                        todo.append((item, its))
                    elif item != its:
                        return False
            # Numbers are compared as they are written: 0.0 is not -0.0, and nan is nan.
            elif repr(mine) != repr(theirs) if kind in (float, complex) else mine != theirs:
                return False
    return True


def parents(tree: ast.AST) -> Mapping[ast.AST, ast.AST]:
    """Map every node of a tree to the node that holds it."""
    return holders(tree)


def enclosing_scope(node: ast.AST, above: Mapping[ast.AST, ast.AST]) -> Scope:
    """Return the innermost module, class, function or lambda around a node, itself not counted."""
    while node in above:
        node = above[node]
        if isinstance(node, SCOPES):
            return node
    raise ValueError("the node is not part of a module")


def qualname(node: ast.AST, above: Mapping[ast.AST, ast.AST]) -> str:
    """Return the dotted names of the classes and functions around a node, itself included."""
    names = []
    here: ast.AST | None = node
    while here is not None:
        if isinstance(here, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.append(here.name)
        here = above.get(here)
    return ".".join(reversed(names))


class Names:
    """What the names of one file mean, scope by scope, and how the file can spell a given thing."""

    def __init__(self, tree: ast.Module) -> None:
        self._above = parents(tree)
        self._tree = tree
        self._bound, self._unreal, self.has_star_import = _bound(tree)

    def qualified(self, expression: ast.expr, at: ast.AST | None = None) -> str | None:
        """Return the dotted origin of a name or attribute chain; None behind a local binding.

        `th.compile` under `import torch as th` is "torch.compile"; an unbound built-in is
        "builtins.NAME"; relative imports keep their dots (".networks.build").
        """
        tail: list[str] = []
        while isinstance(expression, ast.Attribute):
            tail.append(expression.attr)
            expression = expression.value
        if not isinstance(expression, ast.Name):
            return None
        meaning = self._meaning(expression.id, at if at is not None else expression)
        return ".".join([meaning, *reversed(tail)]) if meaning else None

    def spelling(self, origin: str, at: ast.AST, like: Iterable[str] = ()) -> str | None:
        """Return how a place can write `origin` ("th.compile"); None when nothing imports it.

        The first of `like` that means it there is taken before any other way.
        """
        for written in like:
            if self.qualified(ast.parse(written, mode="eval").body, at) == origin:
                return written
        found = []
        for scope in self._visible(at):
            for name, meanings in self._bound.get(scope, {}).items():
                for meaning in meanings if (scope, name) not in self._unreal else ():
                    if meaning and (meaning == origin or origin.startswith(meaning + ".")):
                        written = name + origin[len(meaning) :]
                        if self.qualified(ast.parse(written, mode="eval").body, at) == origin:
                            found.append(written)
        return min(found, key=lambda written: (-written.count("."), written)) if found else None

    def binds(self, name: str, at: ast.AST) -> bool:
        """Tell whether a name is bound in any scope visible from a place, built-ins not counted.

        An import for type checkers only binds nothing when the program runs.
        """
        return any(
            name in self._bound.get(scope, {}) and (scope, name) not in self._unreal
            for scope in self._visible(at)
        )

    def shadows(self, name: str, at: ast.AST) -> bool:
        """Tell whether a scope inside of the module, visible from a place, binds a name."""
        inside = (scope for scope in self._visible(at) if scope is not self._tree)
        return any(name in self._bound.get(scope, {}) for scope in inside)

    def binding(self, name: str, at: ast.AST) -> tuple[ast.AST, frozenset[str | None]] | None:
        """Return the scope whose name a place sees and every origin it may have; None is no import.

        `global` and `nonlocal` are not followed.
        """
        for scope in self._visible(at):
            if meanings := self._bound.get(scope, {}).get(name):
                return scope, frozenset(meaning or None for meaning in meanings)
        return None

    def _visible(self, at: ast.AST) -> Iterator[ast.AST]:
        """Yield the scopes that a name at a place is looked up in, innermost first."""
        here: ast.AST | None = at
        innermost = True
        while here is not None:
            if isinstance(here, (*COMPREHENSIONS, *_FUNCTIONS)):
                yield here
                innermost = False
            elif isinstance(here, ast.ClassDef):
                # A class body's names are seen by its own statements only, not by its methods.
                if innermost:
                    yield here
                innermost = False
            elif isinstance(here, ast.Module):
                yield here
            here = self._above.get(here)
        if at is not self._tree and at not in self._above:
            yield self._tree

    def _meaning(self, name: str, at: ast.AST) -> str | None:
        for scope in self._visible(at):
            meanings = self._bound.get(scope, {}).get(name)
            if meanings:
                # `torch = None` where its import fails: what goes on to use it has the import.
                real = meanings - {_FALLBACK} or meanings
                return next(iter(real)) or None if len(real) == 1 else None
        if not self.has_star_import and hasattr(builtins, name):
            return f"builtins.{name}"
        return None


@lru_cache(maxsize=KEPT)
def _bound(
    tree: ast.Module,
) -> tuple[Mapping[ast.AST, _Meanings], Collection[tuple[ast.AST, str]], bool]:
    """Return what each scope binds, name by name, which of that only type checkers see, and
    whether anything is star-imported.
    """
    above = parents(tree)
    bound: dict[ast.AST, dict[str, set[str | None]]] = {}
    unreal: set[tuple[ast.AST, str]] = set()
    real: set[tuple[ast.AST, str]] = set()
    star = False
    for node in nodes_of(tree):
        if node.__class__ not in BINDING:
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            continue  # most names are read
        star |= isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)
        for scope, name, meaning in _bindings(node, above):
            bound.setdefault(scope, {}).setdefault(name, set()).add(meaning)
            checked = isinstance(node, _IMPORTS) and _for_type_checkers(node, above)
            (unreal if checked else real).add((scope, name))
    return bound, unreal - real, star


def _for_type_checkers(node: ast.AST, above: Mapping[ast.AST, ast.AST]) -> bool:
    """Tell whether a statement stands under `if TYPE_CHECKING:`, and so never runs."""
    holder: ast.AST | None = above.get(node)
    while holder is not None and not isinstance(holder, ast.If):
        node = holder
        holder = above.get(holder)
    if holder is None or node not in holder.body:
        return False
    test = holder.test
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
    return name == "TYPE_CHECKING" or _for_type_checkers(holder, above)


def _stands_in(node: ast.Name, above: Mapping[ast.AST, ast.AST]) -> bool:
    """Tell whether a name is set to None because an import failed."""
    holder = above[node]
    if not isinstance(holder, ast.Assign | ast.AnnAssign):
        return False
    handler = above.get(holder)
    empty = isinstance(holder.value, ast.Constant) and holder.value.value is None
    return empty and isinstance(handler, ast.ExceptHandler)


def _binding_scope(node: ast.AST, above: Mapping[ast.AST, ast.AST]) -> ast.AST:
    """Return the scope that a name stored at a node belongs to."""
    here = above[node]
    while not isinstance(here, SCOPES):
        if isinstance(here, COMPREHENSIONS) and not isinstance(above.get(node), ast.NamedExpr):
            return here
        here = above[here]
    return here


def _bindings(
    node: ast.AST, above: Mapping[ast.AST, ast.AST]
) -> Iterator[tuple[ast.AST, str, str | None]]:
    """Yield (scope, name, origin) for what one node binds; the origin is None but for imports."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            yield enclosing_scope(node, above), name, alias.name if alias.asname else name
    elif isinstance(node, ast.ImportFrom):
        module = "." * node.level + (node.module or "")
        for alias in node.names:
            if alias.name != "*":
                joint = "" if module.endswith(".") else "."
                name = alias.asname or alias.name
                yield enclosing_scope(node, above), name, f"{module}{joint}{alias.name}"
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
        meaning = _FALLBACK if _stands_in(node, above) else None
        yield _binding_scope(node, above), node.id, meaning
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield enclosing_scope(node, above), node.name, None
    elif isinstance(node, ast.arg):
        yield enclosing_scope(node, above), node.arg, None
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
        yield enclosing_scope(node, above), node.name, None
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield enclosing_scope(node, above), node.rest, None
