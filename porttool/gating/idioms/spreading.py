"""Settings spread into a call with `**`: one more of them would be one argument too many."""

from __future__ import annotations

import ast
from pathlib import PurePosixPath

from porttool.gating.idioms.lookup import Sources, qualified
from porttool.gating.idioms.origins import Settings, origin_of
from porttool.source.nodes import nodes_of
from porttool.source.syntax import Source

_AS_DICT = ("builtins.vars", "builtins.dict", "dataclasses.asdict", "attr.asdict", "attrs.asdict")
_DUMPS = ("dict", "model_dump", "_asdict", "asdict", "to_dict")
_TAKES_ALL = ("builtins.dict", "builtins.print", "types.SimpleNamespace", "argparse.Namespace")


def spread_at(sources: Sources, settings: Settings) -> str | None:
    """Return the call that is given all of the settings, with its place; None where none is seen.

    Calls that take whatever they are given do not count.
    """
    if settings.holder is None:
        return None
    for path in sources:
        source = sources[path]
        if "**" not in source.text:
            continue
        for node in nodes_of(source.tree):
            if not isinstance(node, ast.Call) or qualified(source, node.func) in _TAKES_ALL:
                continue
            for word in node.keywords:
                if word.arg is None and _is_all(sources, source, word.value, settings):
                    return f"`{_short(node)}` ({path}:{node.lineno})"
    return None


def _is_all(sources: Sources, source: Source, value: ast.expr, settings: Settings) -> bool:
    """Tell whether an expression is the settings as a dict, or may be as far as one can see."""
    inner: ast.expr | None = None
    if isinstance(value, ast.Call):
        if qualified(source, value.func) in _AS_DICT and value.args:
            inner = value.args[0]
        elif isinstance(value.func, ast.Attribute) and value.func.attr in _DUMPS:
            inner = value.func.value
    elif isinstance(value, ast.Attribute) and value.attr == "__dict__":
        inner = value.value
    elif isinstance(value, ast.Name):
        found = origin_of(sources, source, value)
        return isinstance(found, Settings) and found.holder == settings.holder
    if inner is None:
        return False
    found = origin_of(sources, source, inner)
    if isinstance(found, Settings):
        return found.holder == settings.holder
    # What nobody explains may be the settings where it is called as they usually are, in a file
    # that has to do with the one that declares them.
    words = ast.unparse(inner).split(".")
    usual = words[-1] in ("args", "config", "cfg", "opt", "opts", "settings", "hparams")
    return (found is not None or usual) and _related(sources, source, settings)


def _related(sources: Sources, source: Source, settings: Settings) -> bool:
    """Tell whether a file is the one that declares the settings, or either names the other."""
    home = settings.holder.path if settings.holder is not None else source.path
    if home == source.path:
        return True
    here, there = PurePosixPath(source.path).stem, PurePosixPath(home).stem
    return there in source.text or here in sources[home].text


def _short(node: ast.Call) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 60 else text[:57] + "..."
