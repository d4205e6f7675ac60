"""What came along with compile and goes behind the same switch: settings of the compiler, warm-ups.

And what the wrapper made necessary: keys that are given its prefix before they are loaded.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from porttool.calls.find import doubt
from porttool.calls.flow import loads, result_of
from porttool.calls.values import Finding, Site
from porttool.calls.view import (
    View,
    ancestors,
    block_of,
    origin,
    spelled,
    statement_of,
    uses,
)
from porttool.frozen import dataclass
from porttool.source.nodes import walk
from porttool.source.syntax import TextEdit, span_of, text_of

PREFIX = "_orig_mod."
_CONFIGS = ("torch._dynamo.config.", "torch._inductor.config.")
_TENSORS = frozenset(
    [
        "zeros",
        "ones",
        "rand",
        "randn",
        "randint",
        "empty",
        "full",
        "tensor",
        "arange",
        "eye",
        "zeros_like",
        "ones_like",
        "rand_like",
        "randn_like",
        "empty_like",
        "full_like",
    ]
)
_LASTING = {"step", "update", "append", "write", "add_scalar", "load_state_dict"}
_FOR_IT = re.compile(
    r"\b(re)?compil|dynamo|inductor|cuda ?graph|static (input )?(shape|size)|graph break",
    re.IGNORECASE,
)
_WARM = re.compile(r"warm", re.IGNORECASE)


@dataclass(frozen=True)
class Companions:
    """Runs of statements that go behind the switch, edits of keys, and what a person has to see."""

    guarded: tuple[tuple[ast.stmt, ...], ...]
    edits: tuple[TextEdit, ...]
    findings: tuple[Finding, ...]


def companions_of(here: View, sites: Sequence[Site]) -> Companions:
    """Return what goes with the sites of a file; without any, what it takes for granted."""
    held = [one for site in sites for one in _held(here, site)]
    warm = list(_warm_ups(here, sites))
    along = _settings(here) if sites else ()
    statements = [*along, *(one for run, _ in warm for one in run)]
    edits, adds = _prefixed(here, held)
    findings = [*adds, *(one for _, one in warm if one is not None)]
    findings += _for_compile(here, sites, statements)
    return Companions(_runs(here, statements), tuple(edits), tuple(findings))


def _held(here: View, site: Site) -> list[ast.expr]:
    if site.kind not in ("call", "optimize", "method"):
        return []
    found = [one for one in result_of(here, site).targets if spelled(one) and one in here.above]
    if site.target is not None and spelled(site.target):
        found.append(site.target)
    return found


def _settings(here: View) -> Iterator[ast.stmt]:
    """Yield the statements that set something of the compiler for the whole process."""
    for node in here.nodes:
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            targets = [part for one in targets for part in getattr(one, "elts", [one])]
            if all((origin(here, one) or "").startswith(_CONFIGS) for one in targets):
                yield node
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            called = node.value
            if origin(here, called.func) == "torch._dynamo.reset":
                yield node
            elif spelled(called.func) == "setattr" and called.args:
                about = origin(here, called.args[0]) or ""
                if f"{about}." in _CONFIGS:
                    yield node


def _for_compile(
    here: View, sites: Sequence[Site], guarded: Sequence[ast.stmt]
) -> Iterator[Finding]:
    """Yield a note on each statement that a comment says is there for compile, and that stays."""
    if not sites:
        return
    lines = here.source.text.splitlines()
    comments = {number: line.partition("#")[2] for number, line in enumerate(lines, 1)}
    # A call in a comment is code that somebody switched off, no reason for the next line.
    marked = {
        number
        for number, text in comments.items()
        if _FOR_IT.search(text) and "compile(" not in text
    }
    if not marked:
        return
    known = {statement_of(here, site.whole) for site in sites} | set(guarded)
    inside = {id(node) for statement in guarded for node in walk(statement)}
    for node in here.nodes:
        if not isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr | ast.Return):
            continue
        if node in known or id(node) in inside or not _told(lines, marked, node):
            continue
        what = "by its comment this is here for compile, and it stays when the switch is off"
        yield replace(
            doubt(here, node, what, "put it behind the switch if it changes what is computed"),
            kind="note",
        )


def _told(lines: Sequence[str], marked: set[int], statement: ast.stmt) -> bool:
    """Tell whether a marked comment stands behind a statement, or right above it."""
    last = statement.end_lineno or statement.lineno
    if last in marked and not lines[last - 1].lstrip().startswith("#"):
        return True
    above = statement.lineno - 1
    while above > 0 and lines[above - 1].lstrip().startswith("#"):
        if above in marked:
            return True
        above -= 1
    return False


def _runs(here: View, statements: Sequence[ast.stmt]) -> tuple[tuple[ast.stmt, ...], ...]:
    """Join statements that follow each other in one block."""
    wanted = set(statements)
    runs: list[tuple[ast.stmt, ...]] = []
    for first in sorted(wanted, key=lambda one: (one.lineno, one.col_offset)):
        block = block_of(here, first)
        index = block.index(first)
        if index and block[index - 1] in wanted:
            continue
        end = index
        while end < len(block) and block[end] in wanted:
            end += 1
        runs.append(tuple(block[index:end]))
    return tuple(runs)


def _warm_ups(
    here: View, sites: Sequence[Site]
) -> Iterator[tuple[tuple[ast.stmt, ...], Finding | None]]:
    """Yield the statements that warm a compiled object up, or a flag where they do more."""
    for site in sites:
        held = _held(here, site)
        if not held:
            continue
        own = statement_of(here, site.whole)
        block = block_of(here, own)
        reads = set(map(id, loads(here, held)))
        index = block.index(own) + 1 if own in block else len(block)
        while index < len(block):
            statement = block[index]
            index += 1
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            mentions = any(id(node) in reads for node in walk(statement))
            if not mentions and not _WARM.search(ast.unparse(statement)):
                continue
            kind = _warms(here, statement, reads)
            if kind == "no":
                if isinstance(statement, ast.Assign | ast.Expr) and not _calls(
                    here, statement, reads
                ):
                    continue  # an optimizer of its parameters, its keys: nothing runs yet
                break
            if kind == "unclear":
                yield (
                    (),
                    doubt(
                        here,
                        statement,
                        "a warm-up that does more than call the compiled object",
                        "put it behind the switch by hand",
                    ),
                )
                break
            run = [statement]
            while index < len(block) and _cleans_up(here, block[index]):
                run.append(block[index])
                index += 1
            if kind == "alone" and len(run) == 1:
                break
            yield tuple(run), None


def _calls(here: View, statement: ast.stmt, reads: set[int]) -> bool:
    return any(isinstance(node, ast.Call) and id(node.func) in reads for node in walk(statement))


def _warms(here: View, statement: ast.stmt, reads: set[int]) -> str:
    """Tell whether a statement is a warm-up: "yes", "no", "unclear", "alone" (if cleaned up)."""
    named = bool(_WARM.search(_with_comment(here, statement)))
    if not _calls(here, statement, reads):
        passed = (
            isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Call)
            and re.search(r"warm_?up", ast.unparse(statement.value.func), re.IGNORECASE)
            and (
                any(id(one) in reads for one in statement.value.args)
                or _runs_held(here, statement.value.func, reads)
            )
        )
        return "yes" if passed else "no"
    if isinstance(statement, ast.For):
        turns = isinstance(statement.target, ast.Name) and _counts(statement.iter)
        plain = turns and all(_idle(here, one, reads, statement) for one in statement.body)
        if plain and not statement.orelse:
            return "yes"
        return "unclear" if named and turns else "no"
    if isinstance(statement, ast.With):
        if all(
            _idle(here, one, reads, statement) or _warms(here, one, reads) == "yes"
            for one in statement.body
        ):
            loops = any(isinstance(one, ast.For) for one in statement.body)
            return "yes" if named or loops else "no"
        return "unclear" if named else "no"
    if _idle(here, statement, reads, statement):
        return "yes" if named else "alone"
    return "unclear" if named and isinstance(statement, ast.Expr | ast.For | ast.While) else "no"


def _counts(iterated: ast.expr) -> bool:
    """Tell whether a loop runs over numbers that are written here: turns, or sizes."""
    if isinstance(iterated, ast.Tuple | ast.List):
        return all(isinstance(one, ast.Constant) for one in iterated.elts)
    return isinstance(iterated, ast.Call) and spelled(iterated.func) == "range"


def _runs_held(here: View, named: ast.expr, reads: set[int]) -> bool:
    """Tell whether the file's own function of a name calls a compiled object."""
    return isinstance(named, ast.Name) and any(
        isinstance(node, ast.FunctionDef)
        and node.name == named.id
        and any(_calls(here, one, reads) for one in node.body)
        for node in here.nodes
    )


def _with_comment(here: View, statement: ast.stmt) -> str:
    """Return a statement's text with the comment lines that stand right above it."""
    lines = here.source.text.splitlines()
    first = statement.lineno - 1
    while first > 0 and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return "\n".join(lines[first : statement.end_lineno])


def _idle(here: View, statement: ast.stmt, reads: set[int], whole: ast.stmt) -> bool:
    """Tell whether a statement only runs a compiled object on made-up input, its result unused."""
    if isinstance(statement, ast.Pass):
        return True
    if isinstance(statement, ast.Assign):
        names = [one for one in statement.targets if isinstance(one, ast.Name)]
        inside = set(map(id, walk(whole)))
        if len(names) != len(statement.targets) or any(
            id(use) not in inside for use in loads(here, names)
        ):
            return False
        value: ast.expr = statement.value
    elif isinstance(statement, ast.Expr):
        value = statement.value
    else:
        return False
    for node in walk(value):
        if isinstance(node, ast.Call) and id(node.func) in reads:
            if not all(
                _made_up(here, one, 3) for one in [*node.args, *(w.value for w in node.keywords)]
            ):
                return False
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", None) in _LASTING:
            return False
    root: ast.AST = value
    while isinstance(root, ast.Call | ast.Attribute):
        if isinstance(root, ast.Call) and id(root.func) in reads:
            return True
        root = root.func if isinstance(root, ast.Call) else root.value
    return _made_up(here, value, 3) or _only_backward(statement, whole)


def _only_backward(statement: ast.stmt, whole: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return (
        whole is not statement
        and isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr in ("backward", "zero_grad", "synchronize")
    )


def _made_up(here: View, value: ast.expr, depth: int) -> bool:
    """Tell whether a value is a tensor or number that is written here, not one of the data."""
    if depth == 0:
        return False
    if isinstance(value, ast.Constant):
        return True
    if isinstance(value, ast.Call):
        meant = origin(here, value.func) or ""
        if meant.startswith("torch.") and meant.rpartition(".")[2] in _TENSORS:
            return True
        if isinstance(value.func, ast.Attribute) and value.func.attr in (
            "to",
            "cuda",
            "cpu",
            "half",
            "requires_grad_",
        ):
            return _made_up(here, value.func.value, depth)
        return False
    if isinstance(value, ast.Name):
        stores = [use for use in uses(here, value) if isinstance(use.ctx, ast.Store)]
        holder = here.above[stores[0]] if len(stores) == 1 else None
        return isinstance(holder, ast.Assign) and _made_up(here, holder.value, depth - 1)
    return False


def _cleans_up(here: View, statement: ast.stmt) -> bool:
    """Tell whether a statement takes back what a warm-up left behind."""
    if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
        return False
    called = statement.value.func
    return isinstance(called, ast.Attribute) and called.attr in ("zero_grad", "synchronize")


def _prefixed(here: View, held: Sequence[ast.expr]) -> tuple[list[TextEdit], list[Finding]]:
    """Return edits that drop the wrapper's prefix where it is added, and flags where unclear."""
    edits: list[TextEdit] = []
    findings: list[Finding] = []
    names = {spelled(one) for one in held}
    for node in here.nodes:
        added = _adds_prefix(node)
        if added is None:
            if held and isinstance(node, ast.Constant) and _whole_key(node.value):
                findings.append(
                    doubt(here, node, "this key has the wrapper's prefix, which is there no more",
                          "write the key without it")
                )  # fmt: skip
            continue
        if _loaded_into(here, node, names):
            span = span_of(here.source, node)
            edits.append(TextEdit(span.start, span.end, text_of(here.source, added)))
        else:
            findings.append(
                doubt(here, node, "the wrapper's prefix is added to keys, not seen for whom",
                      "drop it, then run this again")
            )  # fmt: skip
    return edits, findings


def _whole_key(value: object) -> bool:
    return isinstance(value, str) and value.startswith(PREFIX) and len(value) > len(PREFIX)


def _adds_prefix(node: ast.AST) -> ast.expr | None:
    """Return the key that a node puts the prefix in front of."""
    if (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Add)
        and isinstance(node.left, ast.Constant)
        and node.left.value == PREFIX
    ):
        return node.right
    if isinstance(node, ast.JoinedStr) and len(node.values) == 2:
        head, key = node.values
        if (
            isinstance(head, ast.Constant)
            and head.value == PREFIX
            and isinstance(key, ast.FormattedValue)
            and key.conversion == -1
            and key.format_spec is None
        ):
            return key.value
    return None


def _loaded_into(here: View, node: ast.AST, names: set[str | None]) -> bool:
    """Tell whether keys are loaded into a held object: there, or through one name."""
    for one in ancestors(here, node):
        called = one.func if isinstance(one, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr == "load_state_dict":
            return spelled(called.value) in names
        if isinstance(one, ast.Assign) and len(one.targets) == 1:
            target = one.targets[0]
            if not isinstance(target, ast.Name):
                return False
            readers = [here.above[use] for use in loads(here, [target])]
            return bool(readers) and all(
                isinstance(reader, ast.Call)
                and isinstance(reader.func, ast.Attribute)
                and reader.func.attr == "load_state_dict"
                and spelled(reader.func.value) in names
                for reader in readers
            )
        if isinstance(one, ast.stmt):
            return False
    return False
