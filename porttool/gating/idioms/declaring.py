"""A flat switch declared where the project declares its other settings: once, off by default."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from porttool.gating.idioms.classes import declare_field
from porttool.gating.idioms.commands import declare_option
from porttool.gating.idioms.lookup import Sources
from porttool.gating.idioms.mappings import declare_absl, declare_constant, declare_entry
from porttool.gating.idioms.parsers import declare_flag
from porttool.gating.idioms.values import Holder, SwitchRead
from porttool.source.layout import DEFAULT_LINE_LENGTH
from porttool.source.syntax import TextEdit


def declare_switch(
    sources: Sources,
    reads: Iterable[SwitchRead],
    name: str,
    *,
    line_length: int = DEFAULT_LINE_LENGTH,
) -> Mapping[str, tuple[TextEdit, ...]]:
    """Return the edits that declare the switch in every holder of `reads`, by path.

    A holder is given once, however many reads name it; one that declares the switch already, off
    and as a bool, gets no edit. The edits are spans of `sources[path]` and overlap no edit inside
    of a statement that is not the holder's own; compose them with others of that file. Lines are
    not broken: only a project with a formatter wants that.
    """
    edits: dict[str, tuple[TextEdit, ...]] = {}
    holders: dict[Holder, SwitchRead] = {
        read.declared_in: read for read in reads if read.declared_in is not None
    }
    for holder, read in holders.items():
        if read.declared:
            continue
        source = sources[holder.path]
        found: list[TextEdit]
        if read.idiom == "argparse":
            found = declare_flag(source, holder, name, line_length=line_length)
        elif read.idiom in ("dataclass", "pydantic"):
            found = declare_field(source, holder, name)
        elif read.idiom in ("typer", "click", "fire"):
            found = declare_option(sources, source, holder, name, line_length=line_length)
        elif read.idiom == "absl":
            found = declare_absl(source, name)
        elif read.idiom == "module":
            found = declare_constant(source, name)
        else:
            found = declare_entry(source, holder, name)
        edits[holder.path] = (*edits.get(holder.path, ()), *found)
    return edits
