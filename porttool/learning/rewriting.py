"""Expression patterns with metavariables: matched against trees, instantiated in a file's spelling.

`$X` stands for one expression. A metavariable whose name starts with ARGS, last among the
positional arguments of a call, stands for the rest of that call's arguments, keywords included,
and possibly none.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from porttool.errors import NeedsPerson
from porttool.learning.lesson import Rule
from porttool.learning.spelling import Spelled, way_to_write
from porttool.source.expressions import comments_in
from porttool.source.nodes import walk
from porttool.source.syntax import (
    Names,
    Source,
    Span,
    TextEdit,
    apply_edits,
    dump,
    line_of,
    parents,
    parse_source,
    qualname,
    span_of,
    text_of,
)

Binding = ast.AST | tuple[ast.AST, ...]
Bindings = Mapping[str, Binding]
_Spelling = tuple[Names | None, Collection[str]]

_METAVARIABLE = re.compile(r"\$([A-Z][A-Z0-9_]*)")
_MARK = "metavariable_"
# What can stand in front of a dot or an argument list without parentheses.
_PRIMARY = (
    ast.Name,
    ast.Attribute,
    ast.Call,
    ast.Subscript,
    ast.List,
    ast.Dict,
    ast.Set,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
    ast.JoinedStr,
)


@lru_cache(maxsize=64)
def names_of(tree: ast.Module) -> Names:
    """Return the names of a tree; trees are never changed, so they are resolved once."""
    return Names(tree)


@lru_cache(maxsize=64)
def parents_of(tree: ast.Module) -> Mapping[ast.AST, ast.AST]:
    """Return the holder of every node of a tree; the same dict each time, not to be changed."""
    return parents(tree)


@lru_cache(maxsize=512)
def parse_pattern(text: str) -> Source:
    """Return a pattern as a parsed file of one expression; metavariables are marked names."""
    return parse_source("<pattern>", _METAVARIABLE.sub(rf"{_MARK}\1", text).encode())


def pattern_expression(text: str) -> ast.expr:
    """Return the tree of a pattern."""
    statement = parse_pattern(text).tree.body[0]
    if not isinstance(statement, ast.Expr):
        raise ValueError(f"not an expression pattern: {text}")
    return statement.value


def pattern_text(tree: ast.AST) -> str:
    """Return a pattern's tree as text, metavariables with their dollar sign."""
    return re.sub(rf"\b{_MARK}(?=[A-Z])", "$", ast.unparse(tree))


def metavariable(node: object) -> str | None:
    """Return the name behind a marked name of a pattern's tree, else None."""
    if isinstance(node, ast.Name) and node.id.startswith(_MARK):
        return node.id[len(_MARK) :]
    return None


def dotted(node: ast.AST) -> str | None:
    """Return an attribute chain on a name as text ("a.b.c"), else None."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or metavariable(node):
        return None
    return ".".join([node.id, *reversed(parts)])


def called_names(tree: ast.AST) -> tuple[str, ...]:
    """Return what an expression calls by a name or an attribute chain, as text."""
    calls = (node for node in walk(tree) if isinstance(node, ast.Call))
    return tuple(name for call in calls if (name := dotted(call.func)) is not None)


def arguments(call: ast.Call) -> Sequence[ast.expr | ast.keyword]:
    """Return a call's arguments and keywords in the order they are written."""
    nodes: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    return sorted(nodes, key=lambda node: (node.lineno, node.col_offset))


def imported_names(requires: Iterable[str]) -> tuple[str, ...]:
    """Return the names in full among the things that a template needs.

    What hangs on another one of them is a part of that: a method, called through its class.
    """
    needed = set(requires)
    return tuple(n for n in requires if "." in n and n.partition(".")[0] not in needed)


def match(
    pattern: ast.expr, node: ast.AST, names: Names | None = None, imported: Collection[str] = ()
) -> Bindings | None:
    """Return what the metavariables stand for, or None when the node does not match.

    `imported` lists the dotted names of the pattern that a file may spell in its own way; `names`
    tells what the node's names mean there.
    """
    found: dict[str, Binding] = {}
    return found if _match(pattern, node, found, (names, imported)) else None


def _match(pattern: object, node: object, found: dict[str, Binding], spelling: _Spelling) -> bool:
    name = metavariable(pattern)
    if name is not None:
        if not isinstance(node, ast.expr) or isinstance(node, ast.Starred):
            return False
        known = found.setdefault(name, node)
        return known is node or (isinstance(known, ast.AST) and _alike(known, node))
    if isinstance(pattern, ast.AST):
        names, imported = spelling
        chain = dotted(pattern)
        if chain is not None and chain in imported and names is not None:
            return isinstance(node, ast.expr) and names.qualified(node, node) == chain
        if type(pattern) is not type(node):
            return False
        if isinstance(pattern, ast.Call) and isinstance(node, ast.Call):
            tail = metavariable(pattern.args[-1]) if pattern.args else None
            if tail is not None and tail.startswith("ARGS"):
                return _match_tail(pattern, node, found, spelling)
        return all(
            _match(value, getattr(node, field), found, spelling)
            for field, value in ast.iter_fields(pattern)
            if field not in ("ctx", "kind")
        )
    if isinstance(pattern, list):
        return (
            isinstance(node, list)
            and len(pattern) == len(node)
            and all(
                _match(one, other, found, spelling)
                for one, other in zip(pattern, node, strict=True)
            )
        )
    return type(pattern) is type(node) and pattern == node


def _match_tail(
    pattern: ast.Call, node: ast.Call, found: dict[str, Binding], spelling: _Spelling
) -> bool:
    fixed, given = arguments(pattern)[:-1], arguments(node)
    if pattern.keywords or len(given) < len(fixed):
        return False
    pairs = [(pattern.func, node.func), *zip(fixed, given, strict=False)]
    if not all(_match(one, other, found, spelling) for one, other in pairs):
        return False
    rest = tuple(given[len(fixed) :])
    known = found.setdefault(str(metavariable(pattern.args[-1])), rest)
    return known is rest or (
        isinstance(known, tuple) and [dump(one) for one in known] == [dump(one) for one in rest]
    )


def _alike(left: ast.AST, right: ast.AST) -> bool:
    """Compare two expressions, load or store apart."""
    return ast.unparse(left) == ast.unparse(right)


def matches(rule: Rule, tree: ast.AST) -> Iterator[tuple[ast.AST, Bindings]]:
    """Yield the places that a rule would rewrite, in source order, outer before inner.

    Left out: what the rule's template has already made of such a place, and the bodies of the
    helpers that the template calls.
    """
    imported = imported_names(rule.requires)
    names = names_of(tree) if imported and isinstance(tree, ast.Module) else None
    before, after = pattern_expression(rule.before), pattern_expression(rule.after)
    outside = {origin for origin, _ in rule.spelled}
    owners = {name.rpartition(".")[0] for name in rule.requires}
    helpers = {n.rpartition(".")[2] for n in rule.requires if n not in outside | owners}
    done: set[ast.AST] = set()
    found: list[tuple[ast.expr, Bindings]] = []
    for node in walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in helpers:
            done.update(walk(node))
        if not isinstance(node, ast.expr):
            continue
        bindings = match(before, node, names, imported)
        if bindings is not None:
            found.append((node, bindings))
        made = match(after, node, names, imported)
        if made is not None:
            done.update(_made_by(before, node, made, (names, imported)))
    for node, bindings in sorted(found, key=lambda pair: (pair[0].lineno, pair[0].col_offset)):
        if node not in done:
            yield node, bindings


def _made_by(
    before: ast.expr, node: ast.expr, made: Bindings, spelling: _Spelling
) -> Iterator[ast.AST]:
    """Yield the nodes of a template's instance that the rule would match once more."""
    carried = {
        part
        for value in made.values()
        for root in (value if isinstance(value, tuple) else (value,))
        for part in walk(root)
    }
    for inner in walk(node):
        again = match(before, inner, *spelling)
        if again is None or inner in carried:
            continue
        left, right = made.get("X"), again.get("X")
        same = isinstance(left, ast.AST) and isinstance(right, ast.AST) and _alike(left, right)
        if inner is node or same:
            yield inner


def is_pure(expression: ast.AST) -> bool:
    """Tell whether evaluating an expression twice does what evaluating it once does.

    Names, attributes, constants, operators and indexing count as pure; calls, awaits, yields and
    walrus assignments do not.
    """
    pure = (
        ast.Name,
        ast.Constant,
        ast.Attribute,
        ast.Subscript,
        ast.Slice,
        ast.UnaryOp,
        ast.BinOp,
        ast.Tuple,
        ast.JoinedStr,
        ast.FormattedValue,
        ast.expr_context,
        ast.operator,
        ast.unaryop,
    )
    return all(isinstance(node, pure) for node in walk(expression))


def _repeated(rule: Rule) -> set[str]:
    before, after = _METAVARIABLE.findall(rule.before), _METAVARIABLE.findall(rule.after)
    return {name for name in before if after.count(name) > before.count(name)}


def duplicates_receiver(rule: Rule) -> bool:
    """Tell whether the template evaluates a metavariable more often than the pattern does."""
    return bool(_repeated(rule))


def why_not(source: Source, rule: Rule, node: ast.AST) -> str | None:
    """Return why a matched node cannot be rewritten as it stands, or None when it can.

    Dataflow is another question: this is about what the template and the place allow.
    """
    imported = imported_names(rule.requires)
    bindings = match(pattern_expression(rule.before), node, names_of(source.tree), imported)
    if bindings is None:
        return f"the rule {rule.name} (`{rule.before}`) does not match here"
    above = parents_of(source.tree)
    holder = above.get(node)
    while holder is not None and not isinstance(holder, ast.stmt):
        if isinstance(holder, ast.JoinedStr):
            return "it stands inside an f-string, whose quotes the new text could end"
        holder = above.get(holder)
    repeated = _repeated(rule)
    for name, value in bindings.items():
        if name in repeated and isinstance(value, ast.AST) and not is_pure(value):
            spelled = text_of(source, value)
            return f"the template evaluates `{spelled}` twice, which may have side effects"
    shadowed = _shadowed(rule, names_of(source.tree), node)
    if shadowed is not None:
        return f"the template uses `{shadowed}`, which is something else at this place"
    scope = qualname(node, above).split(".")
    for owner, _, member in (name.rpartition(".") for name in rule.requires):
        if f"self.{member}(" in rule.after and owner and owner not in scope:
            return f"the template calls self.{member}, a method of {owner}, outside of that class"
    return None


def _shadowed(rule: Rule, names: Names, at: ast.AST) -> str | None:
    """Return a name of the template that a place's own scopes give another meaning."""
    imported = imported_names(rule.requires)
    template = pattern_expression(rule.after)
    chains = [chain for part in walk(template) if (chain := dotted(part)) in imported]
    roots = {chain.partition(".")[0] for chain in chains if chain is not None}
    for chain in chains:
        way = way_to_write(names, chain, at, rule.spelled) if chain is not None else None
        if way is not None and way.taken:
            return way.written.partition(".")[0]
    parts = list(walk(template))
    known = {part.arg for part in parts if isinstance(part, ast.arg)} | roots | {"self", "cls"}
    read = [part for part in parts if isinstance(part, ast.Name) and not metavariable(part)]
    known |= {part.id for part in read if isinstance(part.ctx, ast.Store)}
    for part in read:
        if part.id not in known and names.shadows(part.id, at):
            origin = names.qualified(part, at)
            if origin is None or origin.rpartition(".")[2] != part.id:
                return part.id
    return None


def rewrite(source: Source, rule: Rule, node: ast.AST, inner: Iterable[TextEdit] = ()) -> str:
    """Return the text that the rule makes of a matched node, spelled as this file spells names.

    What the metavariables stand for keeps its text, comments and line ends; `inner` are edits
    inside the node (nested rewrites) to be made on the way.

    Raises:
        NeedsPerson: when the node cannot be rewritten as it stands (see `why_not`).
    """
    reason = why_not(source, rule, node)
    imported = imported_names(rule.requires)
    bindings = match(pattern_expression(rule.before), node, names_of(source.tree), imported)
    if reason is not None or bindings is None:
        raise NeedsPerson(
            f"{source.path}:{line_of(node)}: `{text_of(source, node)}` cannot be rewritten",
            where=f"{source.path}:{line_of(node)}",
            why=reason,
            next="answer `skip` for this site under `answers:` in port.yaml and edit it by hand",
        )
    return expand(source, rule, node, bindings, inner)


def expand(
    source: Source, rule: Rule, node: ast.AST, bindings: Bindings, inner: Iterable[TextEdit] = ()
) -> str:
    """Return the template's text for a match, whether or not it is wise to write it there."""
    edits = tuple(inner)
    texts: dict[str, tuple[str, ast.AST | None]] = {}
    for name, value in bindings.items():
        if isinstance(value, ast.AST):
            texts[name] = edited_text(source, span_of(source, value), edits), value
        else:
            texts[name] = edited_text(source, _tail_span(source, rule, node, value), edits), None
    imported, names = imported_names(rule.requires), names_of(source.tree)
    return instantiate(rule.after, texts, names, node, imported, like=rule.spelled)


def lost_comments(source: Source, node: ast.AST, text: str) -> tuple[str, ...]:
    """Return the comments inside a node that its rewritten text does not carry on."""
    left = comments_in(text)
    lost = []
    for comment in comments_in(text_of(source, node)):
        if comment in left:
            left.remove(comment)
        else:
            lost.append(comment)
    return tuple(lost)


def edited_text(source: Source, span: Span, edits: Iterable[TextEdit]) -> str:
    """Return a span's text with the edits that lie inside it applied."""
    parts = []
    position = span.start
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if span.start <= edit.start and edit.end <= span.end:
            parts += [source.text[position : edit.start], edit.text]
            position = edit.end
    return "".join([*parts, source.text[position : span.end]])


def _tail_span(source: Source, rule: Rule, node: ast.AST, tail: tuple[ast.AST, ...]) -> Span:
    """Return where the free arguments stand.

    Where they are the whole argument list on both sides, the white space and comments around them
    are part of it.
    """
    if not tail:
        end = span_of(source, node).end
        return Span(end, end)
    span = Span(span_of(source, tail[0]).start, span_of(source, tail[-1]).end)
    calls = [call for call in walk(node) if isinstance(call, ast.Call)]
    call = next((call for call in calls if tuple(arguments(call)) == tail), None)
    if call is None or re.search(r"[^(]\$ARGS|\$ARGS[^)]", rule.after):
        return span
    opening = span_of(source, call.func).end
    skip = re.compile(r"(?:\s|#[^\r\n]*|\\|\))*\(").match(source.text, opening)
    # A lone generator expression shares its parentheses with the call.
    start = skip.end() if skip is not None and skip.end() <= span.start else span.start
    return Span(start, max(span.end, span_of(source, call).end - 1)) if start else span


def instantiate(
    template: str,
    texts: Mapping[str, tuple[str, ast.AST | None]],
    names: Names,
    at: ast.AST,
    imported: Collection[str] = (),
    *,
    like: Spelled = (),
) -> str:
    """Return a template with metavariables replaced and imported names spelled as a place does.

    `texts` gives for each metavariable its text and its tree (None for free arguments);
    parentheses are added where the place in the template needs them. `like` says how the
    experiment spells imported names.
    """
    pattern = parse_pattern(template)
    above = parents_of(pattern.tree)
    edits = []
    for node in walk(pattern.tree):
        name = metavariable(node)
        if name is not None:
            text, tree = texts[name]
            span = span_of(pattern, node)
            if tree is not None:
                edits.append(TextEdit(span.start, span.end, _enclosed(text, tree, node, above)))
            elif text.strip():
                edits.append(TextEdit(span.start, span.end, text))
            else:
                edits.append(_without(pattern.text, span))
            continue
        chain = dotted(node)
        if chain is not None and chain in imported and dotted(above[node]) not in imported:
            span = span_of(pattern, node)
            written = way_to_write(names, chain, at, like).written
            edits.append(TextEdit(span.start, span.end, written))
    return apply_edits(pattern, edits).decode()


def _without(text: str, span: Span) -> TextEdit:
    """Leave an argument out, and the comma that joins it to others."""
    ahead = re.search(r",\s*$", text[: span.start])
    if ahead:
        return TextEdit(ahead.start(), span.end, "")
    behind = re.match(r"\s*,\s*", text[span.end :])
    return TextEdit(span.start, span.end + (behind.end() if behind else 0), "")


def _enclosed(text: str, tree: ast.AST, slot: ast.AST, above: Mapping[ast.AST, ast.AST]) -> str:
    """Return a metavariable's text, in parentheses where its place in the template needs them."""
    holder = above.get(slot)
    in_call = isinstance(holder, ast.Call) and holder.func is not slot
    if isinstance(tree, ast.Tuple):
        return text if text.startswith("(") else f"({text})"
    if in_call or isinstance(holder, ast.keyword | ast.List | ast.Dict | ast.Set):
        loose = isinstance(tree, ast.NamedExpr | ast.Yield | ast.YieldFrom)
        # A generator expression brings its parentheses along, from wherever it stood.
        return f"({text})" if loose else text
    words = isinstance(tree, ast.Constant) and isinstance(tree.value, str)
    if not (isinstance(tree, _PRIMARY) or words):
        return f"({text})"
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return f"({text})"
    return text
