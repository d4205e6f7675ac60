"""`porttool gate` as a value: from paths to what is said, what is written, and the exit code."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from porttool.calls.by_hand import notebook_findings, settings_findings
from porttool.calls.gating import UNBROKEN, Layout, Outcome, gate_files, ungated_calls
from porttool.calls.reaching import reach_findings, settings_meant
from porttool.calls.values import Finding
from porttool.calls.working_files import (
    Contents,
    Place,
    alone,
    paths_meant,
    place_of,
    read_files,
    write_files,
)
from porttool.errors import EXIT_CHECK_FAILED, EXIT_DONE, EXIT_PERSON, PortError
from porttool.frozen import dataclass
from porttool.interruption import uninterrupted
from porttool.report import counted
from porttool.source.layout import has_formatter, line_length

SWITCH = "compile_model"


@dataclass(frozen=True)
class Answer:
    """What a run says, as lines and as data, and its exit code.

    `findings` are those of a check, with paths as seen from the repository's root.
    """

    lines: tuple[str, ...]
    data: dict[str, Any]
    exit_code: int
    findings: tuple[Finding, ...] = ()


def _unsaid(words: str) -> None:
    """Say nothing of what was changed."""


def gate_paths(
    given: Sequence[Path],
    *,
    repo: Path,
    switch: str,
    env: str | None,
    config: str | None = None,
    dry_run: bool,
    changed: Callable[[str], None] = _unsaid,
) -> Answer:
    """Put every call of torch.compile in files behind the switch; with `dry_run` show how.

    `changed` is told when the files have been written.
    """
    variable = _checked(switch, env)
    place = place_of(repo)
    with alone(place):
        files, others = _read(place, given)
        outcome = gate_files(
            files,
            switch=switch,
            env=variable,
            config=_checked_config(config),
            imported=Contents(place),
            layout=_layout(place),
        )
        outcome = _with_reach(_with_by_hand(outcome, others), place, files, switch)
        before = {**files, **read_files(place, set(outcome.changes) - set(files))}
        if outcome.changes and not dry_run:
            with uninterrupted():
                write_files(place, before, outcome.changes)
                changed("the files were written")
    shown = _diff(before, outcome.changes) if dry_run else []
    data = _data(place, outcome, switch, dry_run=dry_run)
    if dry_run:
        data["diff"] = "".join(f"{line}\n" for line in shown)
    return Answer(
        (*shown, *_said(place, outcome, switch=switch, dry_run=dry_run)),
        data,
        EXIT_PERSON if outcome.open else EXIT_DONE,
    )


def check_paths(given: Sequence[Path], *, repo: Path, switch: str) -> Answer:
    """List every call that is behind no switch, as `file:line:column: message`; change nothing."""
    _checked(switch, None)
    place = place_of(repo)
    files, _ = _read(place, given)
    found = ungated_calls(files, switch=switch, imported=Contents(place))
    code = EXIT_CHECK_FAILED if found else EXIT_DONE
    return Answer(
        tuple(_line(place, one) for one in found),
        {"ungated": [_finding(place, one) for one in found], "exit_code": code},
        code,
        found,
    )


def _checked(switch: str, env: str | None) -> str:
    """Return the environment variable's name; raises PortError for what is no name."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", switch):
        raise PortError(
            "a switch is named by a word", where=f"--switch {switch}", next="--switch compile_model"
        )
    variable = env or switch.upper()
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", variable):
        raise PortError(
            "this cannot be an environment variable",
            where=f"--env {variable}",
            next="--env COMPILE_MODEL",
        )
    return variable


def _checked_config(config: str | None) -> str | None:
    """Return the name of the settings; raises PortError for what is no name."""
    if config is None or all(word.isidentifier() for word in config.split(".")):
        return config
    raise PortError(
        "settings are named as the code names them",
        where=f"--config {config}",
        next="--config cfg, or --config self.cfg",
    )


def _read(place: Place, given: Sequence[Path]) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Return the Python files that paths mean, and the notebooks and settings files."""
    files = read_files(place, paths_meant(place, given))
    others = {
        path: data for path, data in files.items() if path.endswith((".ipynb", ".yaml", ".yml"))
    }
    return {path: data for path, data in files.items() if path not in others}, others


def _layout(place: Place) -> Layout:
    try:
        pyproject = (place.root / "pyproject.toml").read_bytes()
    except OSError:
        pyproject = None
    breaks = has_formatter(pyproject)
    return Layout(line_length(pyproject) if breaks else UNBROKEN, breaks)


def _with_by_hand(outcome: Outcome, others: Mapping[str, bytes]) -> Outcome:
    found = list(outcome.findings)
    for path, data in others.items():
        found += (
            notebook_findings(path, data)
            if path.endswith(".ipynb")
            else settings_findings(path, data)
        )
    found.sort(key=lambda one: (one.path, one.line, one.column))
    return replace(outcome, findings=tuple(found))


def _with_reach(outcome: Outcome, place: Place, files: Mapping[str, bytes], switch: str) -> Outcome:
    """Add what the settings files that the given ones name can do about the switch."""
    if not outcome.reads:
        return outcome
    after = {**files, **outcome.changes}
    meant = settings_meant(after, paths_meant(place, [place.root]))
    found = reach_findings(after, read_files(place, meant), outcome.reads, switch)
    return replace(outcome, findings=(*outcome.findings, *found))


def _shown(place: Place, path: str) -> str:
    """Return a path as it is seen from the current folder, if it lies below it."""
    try:
        return (place.root / path).relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path


def _line(place: Place, one: Finding) -> str:
    return f"{_shown(place, one.path)}:{one.line}:{one.column}: {one.what}"


def _said(place: Place, outcome: Outcome, *, switch: str, dry_run: bool) -> list[str]:
    lines = [
        f"{_shown(place, one.path)}:{one.line}:{one.column}: {one.form}, on with "
        + (f"{one.switch}=1" if one.switch == outcome.env else one.switch)
        + f": {one.text}"
        for one in outcome.gated
    ]
    for one in outcome.findings:
        lines.append(_line(place, one))
        if one.next:
            lines.append(f"  next: {one.next}")
    calls = counted(len(outcome.gated), "call")
    files = counted(len(outcome.changes), "file")
    places = counted(len(outcome.open), "place") if outcome.open else "nothing"
    lines.append(
        f"{calls} behind `{switch}`, {files} {'would be ' if dry_run else ''}changed, "
        f"{places} for a person"
        if outcome.gated or outcome.findings
        else "nothing to gate"
    )
    return lines


def _diff(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> list[str]:
    lines: list[str] = []
    for path in sorted(after):
        old, new = (data.decode("utf-8", "replace") for data in (before[path], after[path]))
        lines += difflib.unified_diff(
            old.splitlines(), new.splitlines(), f"a/{path}", f"b/{path}", lineterm=""
        )
    return lines


def _finding(place: Place, one: Finding) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "path": _shown(place, one.path),
        "line": one.line,
        "column": one.column,
        "what": one.what,
        "next": one.next,
    }


def _data(place: Place, outcome: Outcome, switch: str, *, dry_run: bool) -> dict[str, Any]:
    return {
        "switch": switch,
        "env": outcome.env,
        "dry_run": dry_run,
        "changed": [_shown(place, path) for path in sorted(outcome.changes)],
        "gated": [
            {
                "path": _shown(place, one.path),
                "line": one.line,
                "column": one.column,
                "form": one.form,
                "switch": one.switch,
                "text": one.text,
            }
            for one in outcome.gated
        ],
        "findings": [_finding(place, one) for one in outcome.findings],
        "exit_code": EXIT_PERSON if outcome.open else EXIT_DONE,
    }
