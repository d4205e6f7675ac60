"""Put the calls of some files behind one switch: files in, new files and findings out.

A file is rewritten whole or not at all: one call that only a person can gate leaves it as it is.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import replace

from porttool.calls.by_hand import strings_with_code
from porttool.calls.calling import around_in_place
from porttool.calls.companions import Companions, companions_of
from porttool.calls.conditions import Unclear as UnclearCondition
from porttool.calls.conditions import gate_of
from porttool.calls.doubts import doubts_about, unwrapped
from porttool.calls.find import doubt, find_sites
from porttool.calls.forms import choose_form
from porttool.calls.neighbours import Neighbours, Project
from porttool.calls.prefixes import granted_prefixes, leading_strips
from porttool.calls.rewrite import Guarded, Planned, Unwritable, rewrite
from porttool.calls.runtime import pieces_in
from porttool.calls.values import Finding, Gate, Gated, Site
from porttool.calls.view import View, ancestors, function_of, view
from porttool.errors import NeedsPerson, UnparsableSource
from porttool.frozen import dataclass
from porttool.gating.idioms.declaring import declare_switch
from porttool.gating.idioms.reading import read_switch
from porttool.gating.idioms.values import SwitchRead, Unclear
from porttool.source.fit import fit_lines
from porttool.source.syntax import Source, TextEdit, apply_edits, parse_source

UNBROKEN = 10_000  # a line length that no line has
_RENAMED = re.compile(rb"\bimport\b[^#\n]*\bcompile[ \t]+as[ \t]+(\w+)")
_MENTIONS = re.compile(rb"(?<!\bre\.)\bcompile\b|_dynamo|_orig_mod")


@dataclass(frozen=True)
class Layout:
    """How long lines may be; `breaks_lines`: a formatter breaks longer ones."""

    line_length: int = UNBROKEN
    breaks_lines: bool = False


@dataclass(frozen=True)
class Outcome:
    """What gating comes to: new contents by path, what was gated, and what is for a person."""

    changes: Mapping[str, bytes]
    gated: tuple[Gated, ...]
    findings: tuple[Finding, ...]
    env: str | None
    reads: tuple[SwitchRead, ...] = ()

    @property
    def open(self) -> tuple[Finding, ...]:
        """Return what a person still has to do."""
        return tuple(one for one in self.findings if one.kind != "note")


@dataclass(frozen=True)
class _File:
    """One file's sites, those behind a switch already apart, and what was found about them."""

    here: View
    sites: tuple[Site, ...]
    findings: tuple[Finding, ...]


def gate_files(
    files: Mapping[str, bytes],
    *,
    switch: str,
    env: str,
    config: str | None = None,
    imported: Mapping[str, bytes] | None = None,
    layout: Layout | None = None,
) -> Outcome:
    """Return the files with every call of torch.compile behind the switch.

    `config` names the settings to read it from, wherever an object of that name is in scope.
    `imported` are other files of the project, by path: what the first ones import is read, and
    changed only where the switch has to be declared in it. All are read when they are needed.
    """
    layout = layout or Layout()
    sources, unparsed = _parsed(files)
    project = Project(ChainMap({**files}, imported or {}))  # type: ignore[arg-type]
    known = dict(sources)
    changes: dict[str, list[TextEdit]] = {}
    gated: list[Gated] = []
    findings = [*unparsed]
    reads: list[tuple[SwitchRead, Gated]] = []
    for path in sources:
        around = Neighbours(sources[path], project)
        file = _look(sources[path], around, switch)
        found, planned, edits = _gate_file(file, switch, env, config)
        findings += found
        if not edits:
            continue
        changes[path] = edits
        for one in planned:
            gated.append(_gated(one, path, env))
            read = _read(file.here, one.site, switch, config) if one.expression else None
            if isinstance(read, SwitchRead):
                reads.append((read, gated[-1]))
                known |= around
    if reads:
        changes, gated, findings = _declared(
            known,
            reads,
            switch=switch,
            layout=layout,
            changes=changes,
            gated=gated,
            findings=findings,
        )
    written = {path: _written(known[path], edits, layout) for path, edits in changes.items()}
    return Outcome(
        {path: data for path, data in written.items() if data != known[path].data},
        tuple(gated),
        tuple(sorted(findings, key=lambda one: (one.path, one.line, one.column))),
        env if any(one.switch == env for one in gated) else None,
        tuple(read for read, one in reads if one in gated),
    )


def ungated_calls(
    files: Mapping[str, bytes], *, switch: str, imported: Mapping[str, bytes] | None = None
) -> tuple[Finding, ...]:
    """Return every call that is behind no switch, and the files that cannot be read."""
    sources, found = _parsed(files)
    project = Project(ChainMap({**files}, imported or {}))  # type: ignore[arg-type]
    for source in sources.values():
        file = _look(source, Neighbours(source, project), switch)
        doubts = {
            (one.line, one.column): one for one in file.findings if one.kind in ("flag", "ask")
        }
        for site in file.sites:
            if (site.line, site.column) not in doubts:
                text = _one_line(ast.unparse(site.whole))
                found.append(
                    Finding(source.path, site.line, site.column, f"`{text}` is behind no switch",
                            f"porttool gate {shlex.quote(source.path)}")
                )  # fmt: skip
        found += doubts.values()
    return tuple(sorted(found, key=lambda one: (one.path, one.line, one.column)))


def _parsed(files: Mapping[str, bytes]) -> tuple[dict[str, Source], list[Finding]]:
    """Return the files that mention compile at all, parsed, and those that do not parse."""
    sources: dict[str, Source] = {}
    findings = []
    others = {name for data in files.values() for name in _RENAMED.findall(data)}
    imports_one = re.compile(rb"\bimport\b[^#\n]*\b(?:" + b"|".join(others) + rb")\b")
    for path, data in files.items():
        if not _MENTIONS.search(data.replace(b"\0", b"")) and not (
            others and imports_one.search(data)
        ):
            continue
        try:
            sources[path] = parse_source(path, data)
        except UnparsableSource as error:
            _, _, line = (error.where or "").rpartition(":")
            number = int(line) if line.isdigit() else 1
            findings.append(
                Finding(path, number, 1, f"this file does not parse: {error.why}",
                        "put it right, then run this again", "unparsed")
            )  # fmt: skip
    return sources, findings


def _look(source: Source, around: Mapping[str, Source], switch: str) -> _File:
    """Find the sites of a file, and set those apart that are behind a switch."""
    pieces = pieces_in(source.tree)
    marks = frozenset({switch, *(name for name, kind in pieces.items() if kind == "switch")})
    here = view(source, around, marks)
    found, doubts = find_sites(here)
    open_sites: list[Site] = []
    findings = list(doubts)
    for site in found:
        if _in_piece(here, site, pieces):
            continue
        gate = gate_of(here, site)
        if gate is None:
            open_sites.append(site)
        elif isinstance(gate, Gate) and gate.on_by_default:
            findings.append(
                replace(
                    doubt(here, site.whole, f"`{gate.test}` is a switch that is on by default",
                          "let its default be off"),
                    kind="default on",
                )
            )  # fmt: skip
        elif isinstance(gate, UnclearCondition):
            findings.append(
                replace(
                    doubt(here, site.whole, f"is `{gate.test}` the switch of this call?",
                          "name it after what it switches, or take the condition away"),
                    kind="ask",
                )
            )  # fmt: skip
    return _File(here, tuple(open_sites), tuple(findings))


def _in_piece(here: View, site: Site, pieces: Mapping[str, str]) -> bool:
    """Tell whether a site is part of a gate function, or handed to one with its switch."""
    above = here.above.get(site.node)
    if isinstance(above, ast.Call) and above.args[:1] == [site.node]:
        called = above.func.id if isinstance(above.func, ast.Name) else ""
        if pieces.get(called, "").startswith("call"):
            return True
    return any(
        isinstance(one, ast.FunctionDef) and one.name in pieces
        for one in ancestors(here, site.node)
    )


def _gate_file(
    file: _File, switch: str, env: str, config: str | None
) -> tuple[list[Finding], list[Planned], list[TextEdit]]:
    here = file.here
    findings = [
        *file.findings,
        *doubts_about(here, file.sites),
        *unwrapped(here),
        *strings_with_code(here),
        *granted_prefixes(here),
    ]
    strips = leading_strips(here)
    findings += [replace(one, kind="note") if file.sites else one for one in strips]
    planned: list[Planned] = []
    for site in file.sites:
        read = _read(here, site, switch, config)
        if isinstance(read, Unclear):
            next = _next(read, here.source.path)
            findings.append(
                replace(doubt(here, site.whole, "; ".join(read.reasons), next), kind="ask")
            )
            continue
        form = choose_form(here, site, file.sites, configured=read is not None)
        if isinstance(form, Finding):
            findings.append(form)
            continue
        findings += around_in_place(here, site, form)
        expression, imports = (read.expression, read.imports) if read else (None, ())
        if form == "lazy":
            expression, imports = None, ()
        planned.append(Planned(site, form, expression, imports))
    findings += _two_switches(here, planned, env)
    along = companions_of(here, file.sites)
    if not file.sites:
        return [*findings, *along.findings], [], []
    findings += along.findings
    stops = [one for one in findings if one.kind in ("flag", "ask")]
    if stops:
        return [*findings, *_left(here, file.sites, stops)], [], []
    guarded, notes = _along(here, along, planned, switch, config)
    try:
        edits = rewrite(here, planned, guarded, switch=switch, env=env)
        edits += along.edits
        _check(here, edits, switch)
    except Unwritable as error:
        findings.append(doubt(here, error.node, str(error), "gate it by hand"))
        findings += _left(here, file.sites, findings[-1:])
        return findings, [], []
    return [*findings, *notes], planned, edits


def _two_switches(here: View, planned: Sequence[Planned], env: str) -> list[Finding]:
    """Return a note on each site that the environment decides where settings decide the others."""
    if not any(one.expression for one in planned):
        return []
    return [
        replace(
            doubt(
                here,
                one.site.whole,
                f"no settings are there yet when this runs: {env}=1 turns it on",
                "",
            ),
            kind="note",
        )
        for one in planned
        if one.expression is None
    ]


def _left(here: View, sites: Sequence[Site], stops: Sequence[Finding]) -> list[Finding]:
    """Return the sites that could be gated, were it not for others in their file."""
    told = {one.line for one in stops}
    lines = ", ".join(map(str, sorted(told)))
    return [
        replace(
            doubt(
                here,
                site.whole,
                f"left as it is: its file has something for a person on line {lines}",
                "decide that first, then run this again",
            ),
            kind="left",
        )
        for site in sites
        if site.line not in told
    ]


def _along(
    here: View,
    along: Companions,
    planned: Sequence[Planned],
    switch: str,
    config: str | None,
) -> tuple[list[Guarded], list[Finding]]:
    """Return the statements that go behind the switch, read as their place can read it."""
    guarded, notes = [], []
    in_settings = {one.expression for one in planned} - {None}
    for statements in along.guarded:
        read = read_switch(here.files, here.source.path, statements[0], switch, config)
        usable = isinstance(read, SwitchRead) and read.from_line <= statements[0].lineno
        if usable and isinstance(read, SwitchRead):
            guarded.append(Guarded(statements, read.expression))
        elif not in_settings:
            guarded.append(Guarded(statements, None))
        else:
            notes.append(
                replace(
                    doubt(here, statements[0], "this runs before the switch is known",
                          "move it to where the settings are"),
                    kind="note",
                )
            )  # fmt: skip
    return guarded, notes


def _next(read: Unclear, path: str) -> str:
    """Return what answers the question which settings hold the switch."""
    if not read.choices:
        return "gate it by hand"
    first, *others = (
        f"porttool gate --config {choice} {shlex.quote(path)}" for choice in read.choices
    )
    return "".join([first, *(f", or {other}" for other in others)])


def _read(here: View, site: Site, switch: str, config: str | None) -> SwitchRead | Unclear | None:
    if site.kind == "decorator" and function_of(here, here.above[site.whole]) is None:
        return None  # it runs when the file is imported: the environment is all there is
    read = read_switch(here.files, here.source.path, site.whole, switch, config)
    if isinstance(read, SwitchRead) and read.from_line > site.line:
        return Unclear((f"`{read.expression}` is not there yet on this line",))
    return read


def _check(here: View, edits: Sequence[TextEdit], switch: str) -> None:
    """Make sure that nothing is left to gate in what comes out, so that a second run is a no-op."""
    try:
        data = apply_edits(here.source, edits)
        after = _look(parse_source(here.source.path, data), here.files, switch)
    except (UnparsableSource, ValueError) as error:
        why = f"the calls of this file are too close to each other: {error}"
        raise Unwritable(here.source.tree.body[0], why) from error
    if after.sites:
        why = f"line {after.sites[0].line} of the result would still compile"
        raise Unwritable(here.source.tree.body[0], why)


def _gated(one: Planned, path: str, env: str) -> Gated:
    text = _one_line(ast.unparse(one.site.whole))
    return Gated(path, one.site.line, one.site.column, one.form, one.expression or env, text)


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:57]}..."


def _declared(
    known: Mapping[str, Source],
    reads: Sequence[tuple[SwitchRead, Gated]],
    *,
    switch: str,
    layout: Layout,
    changes: dict[str, list[TextEdit]],
    gated: list[Gated],
    findings: list[Finding],
) -> tuple[dict[str, list[TextEdit]], list[Gated], list[Finding]]:
    """Add the declarations of the switch; where one is refused, its readers stay as they are."""
    try:
        declared = declare_switch(
            known, [read for read, _ in reads], switch, line_length=layout.line_length
        )
    except NeedsPerson as error:
        settings = {one.path for _, one in reads}
        asked = [
            Finding(one.path, one.line, one.column, f"{error.what}: {error.why or error.where}",
                    error.next or "declare it by hand", "ask")
            for one in gated
            if one.path in settings
        ]  # fmt: skip
        return (
            {path: edits for path, edits in changes.items() if path not in settings},
            [one for one in gated if one.path not in settings],
            [*findings, *asked],
        )
    for path, edits in declared.items():
        changes[path] = [*changes.get(path, []), *edits]
    noted: dict[str, Finding] = {}
    for read, one in reads:
        holder = read.declared_in
        path, line = (holder.path, holder.line) if holder else (one.path, one.line)
        for note in read.notes:
            noted.setdefault(note, Finding(path, line, 1, note, "", "note"))
    findings += noted.values()
    return changes, gated, findings


def _written(source: Source, edits: Sequence[TextEdit], layout: Layout) -> bytes:
    data = apply_edits(source, edits)
    if layout.breaks_lines:
        data = fit_lines(source.path, data, source.data, line_length=layout.line_length)
    return data
