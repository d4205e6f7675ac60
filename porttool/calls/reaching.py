"""Which settings files reach the switch that `porttool gate` has declared: said, nothing more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from porttool.calls.values import Finding
from porttool.errors import UnparsableSource
from porttool.gating.idioms.values import SwitchRead
from porttool.gating.reach import SUFFIXES, audit_reach, settings_named
from porttool.plan.switch import FlatSwitch
from porttool.source.syntax import Source, parse_source


def settings_meant(files: Mapping[str, bytes], paths: Iterable[str]) -> tuple[str, ...]:
    """Return the settings files among `paths` that Python files name."""
    return settings_named(_parsed(files), [path for path in paths if path.endswith(SUFFIXES)])


def reach_findings(
    files: Mapping[str, bytes],
    settings: Mapping[str, bytes],
    reads: Iterable[SwitchRead],
    name: str,
) -> tuple[Finding, ...]:
    """Say of each settings file whether it can turn the switch on.

    `files` are the Python files as they are after gating. A file counts as reaching the switch
    where one of its holders says so.
    """
    sources = _parsed(files)
    found: dict[str, tuple[bool, str]] = {}
    for switch in dict.fromkeys(_planned(read, name) for read in reads if read.idiom != "module"):
        for reach in audit_reach(sources, settings, switch):
            if reach.on:
                found[reach.path] = (True, f"turns `{name}` on")
            elif not found.get(reach.path, (False, ""))[0]:
                can = "can" if reach.reaches else "cannot"
                found[reach.path] = (reach.reaches, f"{can} turn `{name}` on: {reach.why}")
    return tuple(Finding(path, 1, 1, what, "", "note") for path, (_, what) in sorted(found.items()))


def _planned(read: SwitchRead, name: str) -> FlatSwitch:
    holder = read.declared_in
    return FlatSwitch.model_construct(
        idiom=read.idiom,
        name=name,
        module=holder.path if holder is not None else None,
        root=holder.name if holder is not None else None,
        env=None,
        yaml=(),
    )


def _parsed(files: Mapping[str, bytes]) -> dict[str, Source]:
    sources = {}
    for path, data in files.items():
        try:
            sources[path] = parse_source(path, data)
        except UnparsableSource:
            continue  # said already, where its calls are looked for
    return sources
