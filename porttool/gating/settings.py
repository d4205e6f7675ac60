"""Settings files: the switch's section added, a variant derived, the precondition read.

Text is inserted and replaced where it stands, so comments, order, line ends and quoting stay as
they are; every result is parsed again and compared with what was meant. No code is run.
"""

from __future__ import annotations

import copy
import difflib
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode

from porttool.errors import NeedsPerson, PlanError
from porttool.frozen import dataclass
from porttool.plan.limits import UNREADABLE, asks_too_much
from porttool.plan.plan import ClausePlan, PreconditionPlan
from porttool.plan.switch import FieldPlan, SwitchPlan

# Words that YAML 1.1 (PyYAML) and YAML 1.2 do not both read as text.
_NOT_TEXT = re.compile(r"(?i:y|n|yes|no|on|off|true|false|null|~|[-+.0-9].*|)")
_PLAIN = re.compile(r"[A-Za-z_/][\w./+-]*(?: [\w./+-]+)*")


@dataclass(frozen=True)
class Clause:
    """One alternative of a precondition, the value seen, and whether it is met."""

    text: str
    seen: str
    met: bool


@dataclass(frozen=True)
class Precondition:
    """Whether any alternative is met, and each of them."""

    met: bool
    clauses: tuple[Clause, ...]


def declare_yaml(data: bytes, switch: SwitchPlan, *, path: str | None = None) -> bytes:
    """Add the switch's section with its defaults at the end of a settings file.

    `path` is where the file lies, for refusals. Gives the bytes back where the section is there
    with all its keys.

    Raises:
        NeedsPerson: when the file is not one block mapping, or has another thing of that name.
    """
    text, mapping = _read(data, path)
    values = plain_values(data, path=path)
    wanted = declared_values(switch)
    if values is not None and not isinstance(values, dict):
        raise _refused("the settings file is not a mapping", f"it holds {values!r}", path)
    if values and switch.key in values:
        _check_section(values[switch.key], wanted, switch.key, path)
        return data
    if mapping is not None and mapping.flow_style:
        raise _refused("the settings file is written in flow style", "it opens with a brace", path)
    newline = "\r\n" if "\r\n" in text else "\n"
    style = _Style.of(text, mapping)
    gap = newline if style.apart and text[: _end_of_document(text)].strip() else ""
    section = gap + newline.join(_section_lines(switch, style))
    return _appended(data, text, section, {**(values or {}), switch.key: wanted}, path)


def declare_key(data: bytes, key: str, *, path: str | None = None) -> bytes:
    """Add a flat switch, off, at the end of a settings file.

    `path` is where the file lies, for refusals. Gives the bytes back where it is there and off.

    Raises:
        NeedsPerson: when the file is not one block mapping, or has another value of that name.
    """
    text, mapping = _read(data, path)
    values = plain_values(data, path=path)
    if values is not None and not isinstance(values, dict):
        raise _refused("the settings file is not a mapping", f"it holds {values!r}", path)
    if values and key in values:
        if values[key] is False:
            return data
        raise _refused(
            f"the settings file has a `{key}` that is not off",
            f"it is {values[key]!r}",
            path,
            "choose another switch.name in port.yaml, or turn it off there",
        )
    if mapping is not None and mapping.flow_style:
        raise _refused("the settings file is written in flow style", "it opens with a brace", path)
    line = f"{_scalar(key)}: false"  # `on` and `no` are words of YAML 1.1
    return _appended(data, text, line, {**(values or {}), key: False}, path)


def _appended(
    data: bytes, text: str, lines: str, expected: Mapping[str, Any], path: str | None
) -> bytes:
    """Return the file with lines more at the end of its document."""
    newline = "\r\n" if "\r\n" in text else "\n"
    end = _end_of_document(text)
    head = text[:end]
    if head and not head.endswith(("\n", "\r")):
        head += newline
    result = (head + lines + newline + text[end:]).encode("utf-8")
    result = b"\xef\xbb\xbf" + result if data.startswith(b"\xef\xbb\xbf") else result
    _expect(result, expected, path)
    return result


def declared_values(switch: SwitchPlan) -> dict[str, Any]:
    """Return the switch's section as plain values, every option at its default."""
    return {
        section.key: {field.name: field.default for field in section.fields}
        for section in switch.sections
    }


def derive_yaml(
    data: bytes, changes: Mapping[str, object], header: str, *, path: str | None = None
) -> bytes:
    """Return a settings file with a few dotted keys set to scalars.

    `path` is where the original lies, for refusals. A header replaces the comment that opens the
    file, which speaks of the original.

    Raises:
        PlanError: when a key is not there (the nearest is named), is a section, or holds a value of
            another kind (a number for a text).
    """
    text, mapping = _read(data, path)
    expected = plain_values(data, path=path) or {}
    edits: list[tuple[int, int, str]] = []
    for key, value in changes.items():
        node = _node_at(mapping, key, path)
        if not isinstance(node, ScalarNode):
            inside = [str(k.value) for k, _ in node.value] if isinstance(node, MappingNode) else []
            raise PlanError(
                f"variant key `{key}` is a section",
                where=path,
                why=f"inside it are {', '.join(inside)}" if inside else "it holds a list",
                next=f"under `set:` in port.yaml, set a key inside it, such as {key}.{inside[0]}"
                if inside
                else f"remove {key} from `set:` in port.yaml",
            )
        start, end = node.start_mark.index, node.end_mark.index
        before = "" if start == 0 or text[start - 1] in " \t[,{-" else " "
        edits.append((start, end, before + _scalar(value)))
        *above, last = key.split(".")
        place = expected
        for part in above:
            place = place[part]
        if not _alike(place[last], value):
            raise PlanError(
                f"variant key `{key}` is set to {value!r}, and {place[last]!r} is there",
                where=path,
                why="a value of another kind is read as a mistake, by the project too",
                next=f"correct {key} under `set:` in port.yaml",
            )
        place[last] = value
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    if header.strip():
        newline = "\r\n" if "\r\n" in text else "\n"
        opening = re.match(r"(?:[ \t]*#[^\r\n]*(?:\r\n|\r|\n))*", text)
        lines = [f"# {line}".rstrip() for line in header.strip().splitlines()]
        rest = text[opening.end() if opening else 0 :]
        gap = "" if rest.startswith(("\n", "\r")) else newline
        text = newline.join(lines) + newline + gap + rest
    result = text.encode("utf-8")
    result = b"\xef\xbb\xbf" + result if data.startswith(b"\xef\xbb\xbf") else result
    _expect(result, expected, path)
    return result


def _alike(old: object, new: object) -> bool:
    """Tell whether two scalars are of one kind: switch, number, text; null goes with any."""

    def kind(value: object) -> str:
        if isinstance(value, bool):
            return "switch"
        return "number" if isinstance(value, int | float) else "text"

    return old is None or new is None or kind(old) == kind(new)


def evaluate_precondition(data: bytes, precondition: PreconditionPlan) -> Precondition:
    """Compare a settings file with the plan's threshold rule; a key that is not set meets nothing.

    Raises:
        NeedsPerson: when the file is not YAML.
    """
    values = plain_values(data, path=precondition.config)
    clauses = [
        evaluate_clauses(values, condition.all_of, precondition.config)
        for condition in precondition.any_of
    ]
    return Precondition(any(clause.met for clause in clauses), tuple(clauses))


def evaluate_clauses(values: Any, clauses: Iterable[ClausePlan], path: str) -> Clause:
    """Compare plain values with clauses that have to hold together; `path` is where they are."""
    parts = [_evaluate(values, clause, path) for clause in clauses]
    return Clause(
        text=" and ".join(part.text for part in parts),
        seen=", ".join(part.seen for part in parts),
        met=all(part.met for part in parts),
    )


def plain_values(data: bytes, *, path: str | None = None) -> Any:
    """Return a settings file as plain values; raises NeedsPerson when it is not one document."""
    try:
        return copy.deepcopy(_loaded(data)[0])
    except UNREADABLE as error:
        raise _not_yaml(error, path) from error


@lru_cache(maxsize=64)
def _loaded(data: bytes) -> tuple[Any, Node | None]:
    """Return plain values and the node that they were made of, which nobody may change."""
    # Reading in pure Python takes some 50 ms a file, and one port reads each file several times.
    constructor, parser = YAML(typ="safe", pure=True).get_constructor_parser(
        io.StringIO(_decoded(data), newline="")
    )
    try:
        node = constructor.composer.get_single_node()
        # Merge keys are written out into the node as its values are made.
        kept = copy.deepcopy(node) if b"<<" in data else node
        return None if node is None else constructor.construct_document(node), kept
    finally:
        parser.dispose()


def _decoded(data: bytes) -> str:
    text = data.decode("utf-8-sig")
    reason = asks_too_much(text)
    if reason is not None:
        raise ValueError(reason)
    return text


def _evaluate(values: Any, clause: ClausePlan, path: str) -> Clause:
    seen = values
    for part in clause.key.split("."):
        if not isinstance(seen, Mapping) or part not in seen:
            return Clause(_condition(clause), f"not set in {path}", False)
        seen = seen[part]
    if clause.at_least is not None:
        number = isinstance(seen, int | float) and not isinstance(seen, bool)
        return Clause(_condition(clause), _scalar(seen), number and seen >= clause.at_least)
    same = type(seen) is type(clause.equals) and seen == clause.equals
    return Clause(_condition(clause), _scalar(seen), same)


def _condition(clause: ClausePlan) -> str:
    if clause.at_least is not None:
        return f"{clause.key} >= {clause.at_least}"
    return f"{clause.key} == {_scalar(clause.equals)}"


def _refused(what: str, why: str, path: str | None, next: str | None = None) -> NeedsPerson:
    return NeedsPerson(
        what,
        where=path,
        why=why,
        next=next or "add the switch's section by hand; one with all its keys is left alone",
    )


def _not_yaml(error: Exception, path: str | None) -> NeedsPerson:
    return _refused(
        "the settings file is not YAML",
        str(error).strip().split("\n")[0],
        path,
        "correct the file on the branch that is ported onto, and commit it",
    )


def _read(data: bytes, path: str | None) -> tuple[str, MappingNode | None]:
    """Return the text without byte-order mark, and the top-level mapping with positions in it."""
    try:
        text = _decoded(data)
        node = _loaded(data)[1]
    except UNREADABLE as error:
        raise _not_yaml(error, path) from error
    return text, node if isinstance(node, MappingNode) else None


def _expect(data: bytes, values: object, path: str | None) -> None:
    """Hold an edited file against what it should say."""
    if not same_values(plain_values(data, path=path), values):
        raise _refused(
            "the settings file cannot be edited safely", "it would not read back as planned", path
        )


def same_values(left: object, right: object) -> bool:
    """Tell whether two settings are equal in type, order of keys and value."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return list(left) == list(right) and all(same_values(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        pairs = zip(left, right, strict=False)
        return len(left) == len(right) and all(same_values(one, other) for one, other in pairs)
    return type(left) is type(right) and (left == right or repr(left) == repr(right))


def _check_section(seen: object, wanted: Mapping[str, Any], key: str, path: str | None) -> None:
    for section, fields in wanted.items():
        inside = seen.get(section) if isinstance(seen, Mapping) else None
        missing = [f for f in fields if not isinstance(inside, Mapping) or f not in inside]
        if missing:
            raise _refused(
                f"the settings file has a `{key}` of another shape than the switch's",
                f"`{key}.{section}` lacks {', '.join(missing)}",
                path,
                f"add them under `{key}.{section}:` there, "
                "or choose another switch.key in port.yaml",
            )


def _node_at(mapping: MappingNode | None, key: str, path: str | None) -> Node:
    node: Node | None = mapping
    for part in key.split("."):
        found = {k.value: v for k, v in node.value} if isinstance(node, MappingNode) else {}
        if part not in found:
            nearest = difflib.get_close_matches(part, list(map(str, found)), n=1)
            hint = f"; did you mean `{nearest[0]}`?" if nearest else ""
            raise PlanError(
                f"variant key `{key}` is not in the file it is derived from{hint}",
                where=path,
                why=f"the keys known beside `{part}` are {', '.join(map(str, found)) or 'none'}",
                next=f"under `set:` in port.yaml, write `{nearest[0]}` for `{part}`"
                if nearest
                else f"remove {key} from `set:` in port.yaml, or add it to that file",
            )
        node = found[part]
    if node is None:
        raise PlanError(
            f"variant key `{key}` names nothing",
            where=path,
            next=f"remove {key} from `set:` in port.yaml",
        )
    return node


@dataclass(frozen=True)
class _Style:
    """How a settings file is laid out."""

    indent: str
    apart: bool  # a blank line between sections
    trailing: bool  # comments behind values rather than above keys

    @staticmethod
    def of(text: str, mapping: MappingNode | None) -> _Style:
        starts = [key.start_mark for key, _ in mapping.value] if mapping else []
        lines = text.splitlines()
        apart = sum(1 for mark in starts[1:] if _blank_above(lines, mark.line))
        above = sum(1 for line in lines if re.match(r"[ \t]+#", line))
        behind = sum(1 for line in lines if re.match(r"[ \t]+[^#\s][^#]*:[^#]*[ \t]#", line))
        nested = next(_nested_columns(mapping), 2)
        return _Style(" " * nested, apart * 2 >= len(starts) - 1, behind > above)


def _blank_above(lines: list[str], line: int) -> bool:
    while line > 0 and lines[line - 1].lstrip().startswith("#"):
        line -= 1
    return line > 0 and not lines[line - 1].strip()


def _nested_columns(mapping: MappingNode | None) -> Iterator[int]:
    for _, value in mapping.value if mapping else []:
        if isinstance(value, MappingNode) and not value.flow_style and value.value:
            yield value.value[0][0].start_mark.column


def _end_of_document(text: str) -> int:
    """Return where a section can be added: the end, or the line that ends the document."""
    match = re.search(r"^\.\.\.[ \t]*(#.*)?$", text, flags=re.MULTILINE)
    return match.start() if match else len(text)


def _section_lines(switch: SwitchPlan, style: _Style) -> Iterator[str]:
    yield f"{switch.key}:"
    for section in switch.sections:
        yield f"{style.indent}{section.key}:"
        for field in section.fields:
            yield from _option_lines(field, style.indent * 2, style)


def _option_lines(field: FieldPlan, indent: str, style: _Style) -> Iterator[str]:
    line = f"{indent}{field.name}: {_scalar(field.default)}"
    if field.comment and style.trailing:
        yield f"{line}  # {field.comment}"
        return
    if field.comment:
        yield f"{indent}# {field.comment}"
    yield line


def _scalar(value: object) -> str:
    """Return a value as one line of YAML that versions 1.1 and 1.2 read alike."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        text = repr(value)
        # YAML 1.1 wants a dot in front of an exponent.
        return re.sub(r"^(-?\d+)e", r"\1.0e", text)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        if _PLAIN.fullmatch(value) and not _NOT_TEXT.fullmatch(value):
            return value
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    return repr(value)
