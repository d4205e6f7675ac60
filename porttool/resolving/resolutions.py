"""Answers to conflicts as files beside `port.yaml`: a head of `key: value` lines, then the content.

They come with the repository, from anybody, so that nothing in them is taken on trust: an answer
holds for the conflict whose key it has, at that conflict's own paths, and nowhere else.
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections import Counter
from collections.abc import Mapping
from typing import Literal

from porttool.errors import PlanError, UnparsableSource
from porttool.frozen import dataclass
from porttool.git.paths import unsafe_path
from porttool.git.quarantine import Quarantine
from porttool.plan.plan import RESOLUTION_SUFFIX, RESOLUTIONS_FOLDER, PatchFile, Plan
from porttool.resolving.conflicts import Question
from porttool.source.syntax import parse_source

Take = Literal["edit", "onto", "experiment", "delete"]

_TAKES: tuple[Take, ...] = ("edit", "onto", "experiment", "delete")
_FORMAT = "1"
_MARKER = re.compile(rb"(<{7,}|>{7,}|\|{7,})( .*)?|={7,}")


@dataclass(frozen=True)
class Resolution:
    """One answer: what is taken for the conflict that `key` names, and with "edit" its content."""

    key: str
    kind: str
    paths: tuple[str, ...]
    take: Take
    content: bytes = b""


def resolution_name(question: Question) -> str:
    """Return the name of the file that answers a conflict, below the port's folder."""
    plain = re.sub(r"[^A-Za-z0-9._]+", "-", question.paths[0]).strip("-.")[-80:]
    return f"{RESOLUTIONS_FOLDER}/{plain or 'file'}-{question.key[:12]}{RESOLUTION_SUFFIX}"


def resolution_bytes(resolution: Resolution) -> bytes:
    """Return the file's bytes; `read_resolution` gives back an equal answer."""
    head = [
        f"resolution: {_FORMAT}",
        f"conflict: {resolution.key}",
        f"kind: {resolution.kind}",
        # JSON, so that any path is one line of ASCII.
        *(f"path: {json.dumps(path)}" for path in resolution.paths),
        f"take: {resolution.take}",
    ]
    return "\n".join(head).encode() + b"\n\n" + resolution.content


def read_resolution(plan: Plan, file: PatchFile) -> Resolution:
    """Read one answer; raises PlanError for what is none, and for a path that leaves the tree."""
    head, _, content = file.data.partition(b"\n\n")
    values: dict[str, list[str]] = {}
    for line in head.decode("ascii", "replace").split("\n"):
        key, _, value = line.partition(": ")
        values.setdefault(key, []).append(value)
    try:
        paths = tuple(json.loads(path) for path in values.pop("path"))
        one = {key: value for key, (value,) in values.items()}
        format, key, kind, take = (one.pop(k) for k in ("resolution", "conflict", "kind", "take"))
    except (KeyError, ValueError) as error:
        raise _unreadable(plan, file, f"its head is not complete: {error}") from error
    if one or format != _FORMAT:
        raise _unreadable(plan, file, f"its head has {', '.join(one) or f'format {format}'}")
    for path in paths:
        problem = "it is no text" if not isinstance(path, str) else unsafe_path(path)
        if problem is not None:
            raise _unreadable(plan, file, f"its path {path!r} is not one of a file: {problem}")
    taken = next((known for known in _TAKES if known == take), None)
    if taken is None:
        raise _unreadable(plan, file, f"`take: {take}` is none of {', '.join(_TAKES)}")
    return Resolution(key, kind, paths, taken, content)


def check_answer(question: Question, content: bytes, sides: Mapping[int, bytes]) -> str | None:
    """Return why an edited file is no answer, with its line, or None.

    `sides` holds the versions by stage: a line that looks like a conflict marker, and that one of
    them has as well, is none, and what did not parse before need not parse now.
    """
    path = question.paths[0]
    lines = leftover_markers(content, sides)
    if lines:
        return f"conflict markers are left at {', '.join(f'{path}:{line}' for line in lines)}"
    error = _syntax_error(path, content)
    if error is None or any(_syntax_error(path, data) for data in sides.values()):
        return None
    return f"it does not parse: {error}"


def leftover_markers(content: bytes, sides: Mapping[int, bytes]) -> list[int]:
    """Return the numbers, from 1, of lines that are conflict markers and nobody's text."""
    known: Counter[bytes] = Counter()
    for data in sides.values():
        known |= Counter(line for line in _lines(data) if _MARKER.fullmatch(line))
    found = []
    for number, line in enumerate(_lines(content), start=1):
        if _MARKER.fullmatch(line):
            known[line] -= 1
            if known[line] < 0:
                found.append(number)
    return found


def sides_of(quarantine: Quarantine, question: Question) -> dict[int, bytes]:
    """Return the contents of a text conflict's sides by stage: 1 base, 2 onto, 3 experiment."""
    stages = question.stages.get(question.paths[0], ())
    blobs = quarantine.blobs(stage.id for stage in stages)
    return {stage.number: blobs[stage.id] for stage in stages}


def _lines(data: bytes) -> list[bytes]:
    return [line.rstrip(b"\r") for line in data.split(b"\n")]


def _syntax_error(path: str, data: bytes) -> str | None:
    """Return where and why a file of a known kind does not parse, or None."""
    try:
        if path.endswith((".py", ".pyi")):
            parse_source(path, data)
        elif path.endswith(".json"):
            json.loads(data)
        elif path.endswith(".toml"):
            tomllib.loads(data.decode())
    except UnparsableSource as error:
        return f"{error.where}: {error.why}"
    except ValueError as error:
        return f"{path}: {error}"
    return None


def _unreadable(plan: Plan, file: PatchFile, why: str) -> PlanError:
    path = plan.folder / file.name
    return PlanError(
        f"{file.name} is not a resolution that porttool wrote",
        where=str(path),
        why=why,
        next=f"remove it, and porttool resolve {shlex.quote(plan.name)}: "
        f"rm -- {shlex.quote(str(path))}",
    )
