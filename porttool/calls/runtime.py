"""The small functions that gated code calls when it runs: their text, and how to know them again.

They are written into the file itself, as if by hand, so that nothing of porttool is needed there.
"""

from __future__ import annotations

import ast
import copy
import itertools
import re
from functools import lru_cache
from typing import Literal

from porttool.frozen import dataclass
from porttool.proving.fold import GATED_FORMS
from porttool.source.syntax import dump

Piece = Literal["switch", "call", "call with options", "in place", "handle", "lazy"]

_IN_PLACE = '''\
def {name}(model{default}{enabled_parameter}, **options):
    """Compile calls of a module, which stays the same object; without the switch do nothing."""
{curry}    if not {enabled}:
        return model
    if not isinstance(model, {torch}.nn.Module):
        done = hasattr(model, "_torchdynamo_orig_callable")
        return model if done else {torch}.compile(model, **options)
    if model._compiled_call_impl is None:
        # Not model.compile(): torch 2.13 compiles nothing where forward is torch's own.
        def call(*args, **kwargs):
            return model._call_impl(*args, **kwargs)

        # A code object of its own: modules with one in common share its recompile limit.
        call.__code__ = call.__code__.replace(co_name=f"call_{{type(model).__name__}}")
        model._compiled_call_impl = {torch}.compile(call, **options)
    return model
'''
_CURRY = """\
    if model is None:
        return functools.partial({name}{enabled_passed}, **options)
"""
_HANDLE = '''\
def {name}(model{enabled_parameter}, **options):
    """Return a compiled way to call a module that stays as it is; without the switch the module."""
    if not {enabled}:
        return model

    def call(*args, **kwargs):
        return model(*args, **kwargs)

    # A code object of its own: functions with one in common share its recompile limit.
    call.__code__ = call.__code__.replace(co_name=f"call_{{type(model).__name__}}")
    return {torch}.compile(call, **options)
'''
_LAZY = '''\
def {name}(function=None, **options):
    """Compile a function at its first call if the switch is on by then."""
    if function is None:
        return functools.partial({name}, **options)
    compiled = None

    @functools.wraps(function)
    def call(*args, **kwargs):
        nonlocal compiled
        if {torch}.compiler.is_compiling() or not {switch}():
            return function(*args, **kwargs)
        if compiled is None:
            compiled = {torch}.compile(function, **options)
        return compiled(*args, **kwargs)

    return call
'''
_SWITCH = """\
def {name}():
    return os.environ.get("{variable}", "0").lower() in ("1", "true", "yes", "on")
"""
_FORMS: dict[Piece, str] = {
    "switch": _SWITCH,
    "call": GATED_FORMS[0].replace("_gated(", "{name}("),
    "call with options": GATED_FORMS[1].replace("_gated(", "{name}("),
    "in place": _IN_PLACE,
    "handle": _HANDLE,
    "lazy": _LAZY,
}
WANTED: dict[Piece, str] = {
    "switch": "_{switch}_is_on",
    "call": "_gated",
    "call with options": "_gated",
    "in place": "_maybe_compile",
    "handle": "_maybe_compiled_calls",
    "lazy": "_maybe_compile_lazily",
}
# What a piece imports, besides torch.
NEEDS: dict[Piece, tuple[str, ...]] = {
    "switch": ("os",),
    "lazy": ("functools",),
}


@dataclass(frozen=True)
class Spelling:
    """How one file names what the pieces refer to; `imports_torch` puts an import into them."""

    torch: str
    os: str
    functools: str
    switch: str
    variable: str
    imports_torch: bool


def piece_text(
    piece: Piece, name: str, spelling: Spelling, *, given: bool, curried: bool = True
) -> str:
    """Return a piece's definition.

    With `given` its callers say `enabled=`, else it asks itself. With `curried` one that compiles
    in place may be called without a module, as torch.compile may.
    """
    text = _FORMS[piece].replace("{curry}", _CURRY if curried else "")
    text = text.format(
        default="=None" if curried else "",
        name=name,
        torch=spelling.torch,
        switch=spelling.switch,
        variable=spelling.variable,
        enabled="enabled" if given else f"{spelling.switch}()",
        enabled_parameter=", *, enabled" if given else "",
        enabled_passed=", enabled=enabled" if given else "",
    )
    text = re.sub(r"\bfunctools\.", f"{spelling.functools}.", text)
    text = text.replace("os.environ", f"{spelling.os}.environ")
    if spelling.imports_torch and piece in ("in place", "handle", "lazy"):
        # Behind the docstring, which is one line: the file imports torch only where it is used.
        first, doc, *rest = text.splitlines(keepends=True)
        text = "".join([first, doc, "    import torch\n\n", *rest])
    return text


def pieces_in(tree: ast.Module) -> dict[str, Piece]:
    """Return the pieces that a file holds, by name: from an earlier run, or written like it."""
    found: dict[str, Piece] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and (piece := _piece(node)):
            found[node.name] = piece
    return found


def _piece(node: ast.FunctionDef) -> Piece | None:
    arguments = [one.arg for one in node.args.args]
    known = arguments[:1] in ([], ["model"], ["function"], ["wrap"])
    if not node.name.startswith("_") or not known or len(arguments) > 3:
        return None
    return _shapes().get(_shape(node))


@lru_cache(maxsize=1)
def _shapes() -> dict[str, Piece]:
    spellings = [
        Spelling("torch", "os", "functools", "_on", "V", imports_torch)
        for imports_torch in (False, True)
    ]
    found: dict[str, Piece] = {}
    choices = itertools.product(_FORMS, spellings, (False, True), (False, True))
    for piece, spelling, given, curried in choices:
        text = piece_text(piece, "_name", spelling, given=given, curried=curried)
        definition = ast.parse(text).body[0]
        assert isinstance(definition, ast.FunctionDef)
        found[_shape(definition)] = piece
    return found


class _Neutral(ast.NodeTransformer):
    """Takes out the names that differ from file to file: the piece's, the switch's, modules'."""

    def __init__(self, own: str) -> None:
        self.own = own

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name("_name" if node.id == self.own else node.id, node.ctx)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.attr in (
            "compile", "nn", "compiler", "environ", "partial", "wraps"
        ):  # fmt: skip
            return ast.Attribute(ast.Name("_module", ast.Load()), node.attr, node.ctx)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and not node.args and not node.keywords:
            return ast.Call(ast.Name("_on", ast.Load()), [], [])
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str) and re.fullmatch(r"[A-Z][A-Z0-9_]*", node.value):
            return ast.Constant("V")
        return node


def _shape(node: ast.FunctionDef) -> str:
    """Return a definition as text in which nothing is left that differs from file to file."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    bare = ast.FunctionDef("_name", node.args, body, node.decorator_list)
    # A copy: trees are shared, and nobody changes them.
    return dump(_Neutral(node.name).visit(copy.deepcopy(bare)))
