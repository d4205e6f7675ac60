"""The text of `port.yaml`: plain values with the line of every key, and errors that name both."""

from __future__ import annotations

import difflib
import io
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError

from porttool.errors import PlanError
from porttool.plan.limits import MAX_VALUES, UNREADABLE, asks_too_much

Lines = dict[tuple[str | int, ...], int]

# What pydantic calls a wrong type: what is expected instead, and how that is written.
_EXPECTED = {
    "string_type": ("text", '"text"'),
    "int_type": ("a whole number", "1"),
    "float_type": ("a number", "1.5"),
    "bool_type": ("true or false", "false"),
    "tuple_type": ("a list", "[first, second]"),
    "list_type": ("a list", "[first, second]"),
    "mapping_type": ("keys with values", "{key: value}"),
    "dict_type": ("keys with values", "{key: value}"),
    "model_type": ("keys with values", "{key: value}"),
    "none_required": ("null", "null"),
}
_LEAST = "write at least name, experiment.branch and experiment.commits"


def parse_yaml(path: Path, data: bytes) -> tuple[Any, Lines]:
    """Return plain values and the line (from 1) of every key and item.

    Raises PlanError with line and column.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PlanError(
            "port.yaml is not UTF-8",
            where=f"{path}:{line}",
            why=f"byte {data[error.start]:#04x} begins no character",
            next="save it as UTF-8; from Latin-1: "
            f"iconv -f LATIN1 -t UTF-8 {shlex.quote(str(path))} > port-utf8.yaml",
        ) from error
    reason = asks_too_much(text)
    if reason is not None:
        raise PlanError(
            "port.yaml is not a plan: it would take too much to read",
            where=str(path),
            why=reason,
            next="write the values out instead of `*name`, and nothing but the plan",
        )
    try:
        tree = YAML(typ="rt", pure=True).load(io.StringIO(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark is not None else str(path)
        # ruamel's own advice about duplicate keys follows on further lines.
        problem = str(error.problem or error.context).strip().split("\n")[0]
        raise _not_yaml(problem, where) from error
    except UNREADABLE as error:
        problem = str(error).strip().split("\n")[0]
        raise _not_yaml(problem, str(path)) from error
    lines: Lines = {(): 1}
    count = 0

    def plain(node: Any, at: tuple[str | int, ...]) -> Any:
        nonlocal count
        count += 1
        if count > MAX_VALUES or len(at) > 50:
            raise PlanError(
                "port.yaml is not a plan: aliases make it endless",
                where=f"{path}:{lines[at[:-1]]}",
                why=f"it has more than {MAX_VALUES} values, or more than 50 levels",
                next="write the values out instead of `*name`",
            )
        if isinstance(node, CommentedMap):
            mapping = {}
            for key in node:
                if not isinstance(key, str):
                    raise PlanError(
                        f"the key {key!r} is not text",
                        where=f"{path}:{_line(node, key, lines[at])}",
                        next=f'put it in quotes: "{key}"',
                    )
                lines[(*at, key)] = _line(node, key, lines[at])
                mapping[str(key)] = plain(node[key], (*at, str(key)))
            return mapping
        if isinstance(node, CommentedSeq):
            for index in range(len(node)):
                lines[(*at, index)] = _line(node, index, lines[at])
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


def _line(node: CommentedMap | CommentedSeq, key: Any, otherwise: int) -> int:
    """Return the line of a key or an item; what came by a merge or behind a tag has none."""
    place = (node.lc.data or {}).get(key)
    return place[0] + 1 if place else otherwise


def explain(path: Path, error: ValidationError, lines: Lines) -> PlanError:
    """Return the first problem in the file with its key, line and what is known there."""
    found = []
    details = error.errors(include_url=False)
    for detail in details:
        at = _keys(detail["loc"])
        if any(_keys(other["loc"])[: len(at)] == at != _keys(other["loc"]) for other in details):
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
            f"`{_dotted(_keys(detail['loc']))}` is missing{more}",
            where=where,
            next=f"add `{missing}:` there, as the plan that `porttool demo DIR` writes has it",
        )
    same = [other for _, place, other in found if place == at]
    expected = list(dict.fromkeys(other["type"] for other in same))
    if all(kind in _EXPECTED for kind in expected):
        kinds = " or ".join(_EXPECTED[kind][0] for kind in expected)
        others = len(found) - len(same)
        return PlanError(
            f"{f'`{key}`' if key else path.name} has to be {kinds}"
            + (f" (and {others} more)" if others else ""),
            where=where,
            why=f"it is {_seen(detail['input'])}",
            next=_written(at, _EXPECTED[expected[0]][1] if len(expected) == 1 else "1"),
        )
    name = key or path.name
    reason = _bound(detail["type"], context) or detail["msg"]
    return PlanError(
        f"`{name}`: {reason}{more}",
        where=where,
        why=f"it is {_seen(detail['input'])}" if _is_scalar(detail["input"]) else None,
        next=context.get("next") or f"correct {name} in that line",
    )


def _keys(place: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Return a place of an error without the names of a union's members, which are in brackets."""
    return tuple(part for part in place if not str(part).startswith("("))


def _written(at: tuple[str | int, ...], value: str) -> str:
    if not at:
        return _LEAST
    return f"write it like this: {f'{at[-1]}: ' if isinstance(at[-1], str) else ''}{value}"


def _bound(kind: str, context: Mapping[str, Any]) -> str | None:
    """Return what a value of the right type has to fulfil, where it is not a validator's own."""
    if kind == "greater_than_equal":
        return f"has to be at least {context['ge']}"
    if kind == "less_than_equal":
        return f"has to be at most {context['le']}"
    if kind == "too_short":
        return "has to hold at least one entry"
    return f"has to be {context['expected']}" if kind == "literal_error" else None


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)


def _seen(value: object) -> str:
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the text {value!r}"
    if isinstance(value, int | float):
        return f"the number {value!r}"
    return "a list" if isinstance(value, list | tuple) else "keys with values"


def _not_yaml(problem: str, where: str) -> PlanError:
    return PlanError(
        f"port.yaml is not YAML: {problem}",
        where=where,
        next="remove one of the two"
        if problem.startswith("found duplicate key")
        else "close what is open there, and put text with `: `, `#`, brackets or braces in quotes",
    )


def _dotted(at: tuple[str | int, ...]) -> str:
    return ".".join(str(part) for part in at)


def quoted(names: Iterable[object]) -> str:
    """Return names as a sentence lists them."""
    return ", ".join(f"`{name}`" for name in names)
