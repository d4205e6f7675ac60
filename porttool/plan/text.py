"""The text of `port.yaml`: plain values with the line of every key, and errors that name both."""

from __future__ import annotations

import difflib
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from porttool.errors import PlanError

_MAX_VALUES = 20_000  # an alias that is used over and over expands past any file size

Lines = dict[tuple[str | int, ...], int]


def parse_yaml(path: Path, data: bytes) -> tuple[Any, Lines]:
    """Return plain values and the line (from 1) of every key and item.

    Raises PlanError with line and column.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PlanError("port.yaml is not UTF-8", where=f"{path}:{line}") from error
    try:
        tree = YAML(typ="rt", pure=True).load(io.StringIO(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark is not None else str(path)
        # ruamel's own advice about duplicate keys follows on further lines.
        problem = str(error.problem or error.context).strip().split("\n")[0]
        raise PlanError(f"port.yaml is not YAML: {problem}", where=where) from error
    except (YAMLError, ValueError, RecursionError) as error:
        problem = str(error).strip().split("\n")[0]
        raise PlanError(f"port.yaml is not YAML: {problem}", where=str(path)) from error
    lines: Lines = {(): 1}
    count = 0

    def plain(node: Any, at: tuple[str | int, ...]) -> Any:
        nonlocal count
        count += 1
        if count > _MAX_VALUES or len(at) > 50:
            raise PlanError(
                "port.yaml is not a plan: aliases make it endless", where=f"{path}:{lines[at[:-1]]}"
            )
        if isinstance(node, CommentedMap):
            mapping = {}
            for key in node:
                if not isinstance(key, str):
                    raise PlanError(
                        f"the key {key!r} is not text",
                        where=f"{path}:{node.lc.key(key)[0] + 1}",
                        next=f'put it in quotes: "{key}"',
                    )
                lines[(*at, key)] = node.lc.key(key)[0] + 1
                mapping[str(key)] = plain(node[key], (*at, str(key)))
            return mapping
        if isinstance(node, CommentedSeq):
            for index in range(len(node)):
                lines[(*at, index)] = node.lc.item(index)[0] + 1
            return [plain(item, (*at, index)) for index, item in enumerate(node)]
        if node is None or isinstance(node, bool):
            return node
        for kind in (int, float, str):
            if isinstance(node, kind):
                return kind(node)
        if type(node).__name__ == "ScalarBoolean":
            return bool(node)
        raise PlanError(
            f"`{_dotted(at)}` is a {type(node).__name__}, which no key of port.yaml takes",
            where=f"{path}:{lines[at]}",
            next="put the value in quotes",
        )

    return plain(tree, ()), lines


def explain(path: Path, error: ValidationError, lines: Lines) -> PlanError:
    """Return the first problem in the file with its key, line and what is known there."""
    found = []
    details = error.errors(include_url=False)
    for detail in details:
        at = tuple(detail["loc"])
        if any(other["loc"][: len(at)] == at and other["loc"] != at for other in details):
            continue  # "too short" of a list whose only item was refused
        context = detail.get("ctx", {})
        if detail["type"] == "unknown_key":
            at = (*at, context["key"])
        while at and at not in lines:  # pydantic adds names of union members, which are in no file
            at = at[:-1]
        found.append((lines[at], at, detail))
    found.sort(key=lambda item: item[0])
    line, at, detail = found[0]
    key = _dotted(at)
    where = f"{path}:{line}" + (f" ({key})" if key else "")
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    context = detail.get("ctx", {})
    if detail["type"] == "unknown_key":
        nearest = difflib.get_close_matches(str(context["key"]), context["known"], n=1)
        return PlanError(
            f"unknown key `{key}`" + (f"; did you mean `{nearest[0]}`?" if nearest else "") + more,
            where=where,
            why=f"the keys known here are {quoted(context['known'])}",
            next=f"rename it to `{nearest[0]}`, or remove it" if nearest else "remove it",
        )
    if detail["type"] == "missing":
        missing = detail["loc"][-1]
        return PlanError(
            f"`{_dotted(tuple(detail['loc']))}` is missing{more}",
            where=where,
            next=f"add {missing}:",
        )
    seen = detail["input"]
    value = (
        f" (value: {seen!r})" if isinstance(seen, str | int | float | bool) or seen is None else ""
    )
    return PlanError(f"`{key or path.name}`: {detail['msg']}{more}", where=f"{where}{value}")


def _dotted(at: tuple[str | int, ...]) -> str:
    return ".".join(str(part) for part in at)


def quoted(names: Iterable[object]) -> str:
    """Return names as a sentence lists them."""
    return ", ".join(f"`{name}`" for name in names)
